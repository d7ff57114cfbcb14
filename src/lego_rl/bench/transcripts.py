"""Stored conversations of long trials, as many as are asked for, each different and none of them a copy.

Invariant: what is written is what `gateway.transcript_store` writes and reads, but for this: a conversation is put
together of parts that were compressed before, each a block of bzip2 and a stream of its own, which any reader takes. A
part is of one of several kinds at its place, so a few dozen parts make millions of conversations; text and calls of
each are those of a coding agent at work on the standard library.
"""

import bz2
import json
import random
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from lego_rl.gateway.atif import FORMAT, to_atif
from lego_rl.gateway.trajectory import Accounting
from lego_rl.gateway.transcript import Transcript
from lego_rl.messages import Json, Message, Tool, ToolCall

_TOOLS = {"Bash": "command", "Read": "file_path", "Edit": "file_path", "Grep": "pattern"}
"""Tool → the argument that it must be given."""
_RESULT_CHARS = 3_300
_THOUGHT_CHARS = 500
_BLOCK = 4
_PART_TURNS = 20
_KINDS = 12
"""Of parts for each place."""


@dataclass(frozen=True)
class Texts:
    """Makes conversations.

    Attributes:
        turns: Model calls of each.
        seed: Another one makes others.
    """

    turns: int = 200
    seed: int = 0

    @property
    def accounting(self) -> Accounting:
        """Counts that go with each of them."""
        return Accounting(calls=self.turns, sampled_tokens=230 * self.turns, tool_calls=self.turns - 1)

    def document(self, trial: str, number: int) -> bytes:
        """What ``trajectory.json.bz2`` of a trial holds.

        Args:
            trial: Its id.
            number: Another number is another conversation.
        """
        chosen = random.Random(f"{self.seed}/{number}")
        ours = {"format": FORMAT, "conversations": 1, "accounting": asdict(self.accounting)}
        head = {**self._head, "session_id": trial, "trajectory_id": f"{trial}.0", "extra": {"lego_rl": ours}}
        begin = json.dumps(head, separators=(",", ":"))[:-1] + ',"steps":['
        middle = b"".join(chosen.choice(kinds) for kinds in self._parts)
        return bz2.compress(begin.encode(), _BLOCK) + middle + bz2.compress(b"]}", _BLOCK)

    @cached_property
    def _head(self) -> Mapping[str, object]:
        """The document of a conversation without its steps."""
        found = to_atif(self._transcript(0), harness="claude-code", version="1", session_id="").to_json_dict()
        return {key: value for key, value in found.items() if key not in {"steps", "extra"}}

    @cached_property
    def _parts(self) -> list[list[bytes]]:
        """Compressed steps: for each place, of each kind."""
        by_kind = [self._parts_of(kind) for kind in range(_KINDS)]
        return [list(kinds) for kinds in zip(*by_kind, strict=True)]

    def _parts_of(self, kind: int) -> list[bytes]:
        document = to_atif(self._transcript(kind), harness="claude-code", version="1", session_id="").to_json_dict()
        steps = [json.dumps(step, ensure_ascii=False, separators=(",", ":")) for step in document["steps"]]
        texts = [",".join(steps[at : at + _PART_TURNS]) for at in range(0, len(steps), _PART_TURNS)]
        return [bz2.compress(("," * bool(at) + text).encode(), _BLOCK) for at, text in enumerate(texts)]

    def _transcript(self, kind: int) -> Transcript:
        tools = tuple(Tool(name, "", {"type": "object", "required": [key]}) for name, key in _TOOLS.items())
        return Transcript((), (tuple(self._messages(kind)),), tools, self.accounting)

    def _messages(self, kind: int) -> Iterator[Message]:
        chosen, source = random.Random(f"{self.seed}/kind/{kind}"), _sources(kind)
        yield Message("system", "You are a coding agent.")
        yield Message("user", "Mend what the issue names.")
        for turn in range(self.turns - 1):
            call = ToolCall(f"call_{turn:06d}", *_call(chosen))
            yield Message("assistant", "I look further.", (call,), reasoning=source.take(_THOUGHT_CHARS))
            failed = "Exit code 1\n" if call.name == "Bash" and chosen.random() < 0.2 else ""
            yield Message("tool", failed + source.take(_RESULT_CHARS), tool_call_id=call.id)
        yield Message("assistant", "Done.")


def _call(chosen: random.Random) -> tuple[str, dict[str, Json]]:
    """A tool and its arguments."""
    path = f"src/package/module_{chosen.randrange(60)}.py"
    command = chosen.choice(
        (
            f"cd src && sed -n '{chosen.randrange(400)},500p' package/module.py | head -80",
            f"python -m pytest -q tests/test_{chosen.randrange(60)}.py 2>&1 | tail -20",
            f"grep -rn 'def name_{chosen.randrange(500)}' --include='*.py' . | head -40",
            f"cat > {path} <<'EOF'\n" + "value = 1\n" * 20 + "EOF",
        )
    )
    calls: tuple[tuple[str, dict[str, Json]], ...] = (
        ("Bash", {"command": command}),
        ("Read", {"file_path": path}),
        ("Edit", {"file_path": path, "old_string": "value = 1\n" * 4, "new_string": "value = 2\n" * 4}),
        ("Grep", {"pattern": f"name_{chosen.randrange(500)}"}),
    )
    return chosen.choice(calls)


class _Sources:
    """Source files one after the other, so many characters at a time."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths, self._next, self._text = paths, 0, ""

    def take(self, count: int) -> str:
        while len(self._text) < count:
            path = self._paths[self._next % len(self._paths)]
            self._text += path.read_text(encoding="utf-8", errors="replace")
            self._next += 1
        taken, self._text = self._text[:count], self._text[count:]
        return taken


def _sources(kind: int) -> _Sources:
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    first = kind * len(paths) // _KINDS
    return _Sources(paths[first:] + paths[:first])
