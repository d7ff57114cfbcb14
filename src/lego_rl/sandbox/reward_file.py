"""The reward that a Harbor task's own script reports: ``reward.json``, or else ``reward.txt``.

Invariant: 0 or 1, as a number, and nothing else. What the tested code wrote there is as hostile as a test report.
"""

import re
from typing import Literal

from lego_rl.documents import read_json

MAX_REWARD_BYTES = 1 << 16
_TEXT = re.compile(r"\s*([01])(?:\.0*)?\s*")


class InvalidRewardError(Exception):
    """A reward that is neither 0 nor 1: a fault, and no reward."""


def read_reward(content: bytes, *, text: bytes) -> Literal[0, 1] | None:
    """The reward.

    Args:
        content: ``reward.json``; empty where there is none.
        text: ``reward.txt``, likewise.

    Returns:
        ``None`` where neither was written.

    Raises:
        InvalidRewardError: It is anything but a 0 or a 1.
    """
    if content:
        return _of_json(content)
    if not text:
        return None
    found = _TEXT.fullmatch(text[:MAX_REWARD_BYTES].decode(errors="replace"))
    if found is None:
        raise InvalidRewardError(f"reward.txt says {text[:80]!r}")
    return 1 if found[1] == "1" else 0


def _of_json(content: bytes) -> Literal[0, 1]:
    try:
        if len(content) > MAX_REWARD_BYTES:
            raise ValueError("it is too large")
        said = read_json(content)
    except ValueError as error:
        raise InvalidRewardError(f"reward.json cannot be read: {str(error)[:200]}") from error
    # Harbor takes a number, or a table of them; of more than one it is the one by that name that counts.
    values = list(said.values()) if isinstance(said, dict) else [said]
    value = said["reward"] if isinstance(said, dict) and "reward" in said else values[0] if len(values) == 1 else None
    if type(value) not in (int, float) or value not in (0, 1):
        raise InvalidRewardError(f"reward.json says {str(value)[:80]}")
    return 1 if value == 1 else 0
