"""How much of an answer a harness got, where its stream broke off and the harness keeps the text it has.

Invariant: only whole sampled tokens count, those whose text is all in the echo.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lego_rl.gateway.matching import same_reasoning
from lego_rl.gateway.turn import Turn
from lego_rl.messages import Message

type Decode = Callable[[Sequence[int]], str]
"""Sampled ids to their text."""

_SPREAD = 8
"""Tokens by which a cut between the bytes of one character can be off when it is looked for by lengths of texts."""


def is_prefix(turn: Turn, sent: Message) -> bool:
    """Whether `sent` may be the beginning of a turn; of several calls or of a call's arguments, none is."""
    said = sent.content.strip()
    return (
        sent.role == "assistant"
        and bool(said)
        and not sent.tool_calls
        and turn.message.content.lstrip().startswith(said)
        and same_reasoning(turn.message.reasoning, sent.reasoning)
    )


def tokens_of_prefix(token_ids: NDArray[np.int32], turn: Turn, sent: Message, decode: Decode) -> int:
    """Sampled ids of the beginning that a harness echoes; 0 where the content is not one, as it was sampled.

    The work grows with the echo, not with the answer.

    Args:
        token_ids: ``[T]`` of the whole answer.
        turn: How it was read.
        sent: What the harness made of it; see `is_prefix`.
        decode: Of the policy's tokenizer.
    """
    content = turn.message.content
    margin = len(content) - len(content.lstrip())
    echo = turn.thought + content[: margin + len(sent.content.strip())]

    def text(count: int) -> str:
        return decode(token_ids[:count].tolist())

    enough = 1
    while enough < len(token_ids) and len(text(enough)) < len(echo) + _SPREAD:
        enough *= 2
    if not text(enough).startswith(echo):  # what stood around a call is not one text
        return 0
    found = bisect_right(range(enough), len(echo), key=lambda count: len(text(count)))
    likely = range(min(found + _SPREAD, len(token_ids)), 0, -1)
    return next((count for count in likely if echo.startswith(text(count))), 0)
