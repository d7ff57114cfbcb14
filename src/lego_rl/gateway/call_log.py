"""Model calls on the disk while a trial runs, one after the other as the engine answers them.

Each is the difference to the call that it continues: ids, log-probs and messages that are new. So whoever watches a
trial, or looks at what is left of a killed one, sees all that was said; the record of a finished trial (`store`) holds
the same and what became of it. Of a chat backend's calls there are the messages alone.

Form: frames of two little-endian 32-bit numbers and two bodies of as many bytes, deflated: a JSON object (`LoggedCall`
without its arrays), and the bytes of ``context_ids`` (int32), ``token_ids`` (int32) and ``logprobs`` (float32).

Invariant: a frame is written at once, so of a log that grows, or that a kill cut, all frames but the last are whole.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from lego_rl.errors import RunError
from lego_rl.gateway.call import Call
from lego_rl.gateway.recording import Recording
from lego_rl.gateway.turn import Turn
from lego_rl.messages import Message

CALL_LOG = "calls.log"
_SIZES = struct.Struct("<II")
_LEVEL = 1
"""Of deflate: a log is short-lived."""


@dataclass(frozen=True)
class _Head:
    index: int
    parent: int | None
    kept: int
    call_id: str
    messages: tuple[Message, ...]
    answer: Message
    context_tokens: int


@dataclass(frozen=True)
class LoggedCall:
    """One answered call.

    Attributes:
        index: Order of the start.
        parent: Index of the call that it continues; ``None`` at a start.
        kept: Sampled ids of the parent that its prompt holds.
        call_id: The engine's.
        messages: What came after the parent's answer.
        answer: The answer as the harness gets it.
        context_ids: ``[C]`` int32 prompt ids after those of the parent that are kept.
        token_ids: ``[T]`` int32 sampled ids.
        logprobs: ``[T]`` float32.
    """

    index: int
    parent: int | None
    kept: int
    call_id: str
    messages: tuple[Message, ...]
    answer: Message
    context_ids: NDArray[np.int32]
    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]


_HEAD = TypeAdapter(_Head)


class CallLog:
    """Writes the calls of one session.

    Args:
        path: The file; made with the first call, in a folder that exists by then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def write(self, call: Call, turn: Turn) -> None:
        """Add an answered call.

        Raises:
            OSError: The disk does not take it.
        """
        recording = call.recording
        if recording is None:
            raise RuntimeError(f"model call {call.index} was never answered")
        parent = None if call.parent is None else call.parent.index
        head = _Head(
            call.index,
            parent,
            call.kept,
            recording.call_id,
            call.request.messages,
            turn.message,
            len(call.context_ids),
        )
        sampled = (recording.token_ids, recording.logprobs) if isinstance(recording, Recording) else ()
        arrays = (call.context_ids, *sampled)
        bodies = (_HEAD.dump_json(head), b"".join(np.ascontiguousarray(each).tobytes() for each in arrays))
        first, second = (zlib.compress(body, _LEVEL) for body in bodies)
        if self._file is None:
            self._file = self._path.open("wb")
        self._file.write(_SIZES.pack(len(first), len(second)) + first + second)
        self._file.flush()

    def close(self) -> None:
        """Write nothing more."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_calls(path: Path) -> Iterator[LoggedCall]:
    """The calls of a log so far; what a kill left of the last one is passed over.

    Raises:
        RunError: The file cannot be read, or is no log.
    """
    try:
        content = path.read_bytes()
        place = 0
        while place + _SIZES.size <= len(content):
            sizes = _SIZES.unpack_from(content, place)
            place += _SIZES.size
            if place + sum(sizes) > len(content):
                return
            first, second = content[place : place + sizes[0]], content[place + sizes[0] : place + sum(sizes)]
            place += sum(sizes)
            yield _call(_HEAD.validate_json(zlib.decompress(first)), zlib.decompress(second))
    except (OSError, zlib.error, ValidationError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error})", "wait for the trial's end, or run it again") from error


def _call(head: _Head, arrays: bytes) -> LoggedCall:
    context = np.frombuffer(arrays, np.int32, head.context_tokens)
    sampled, odd = divmod(len(arrays) - context.nbytes, 8)
    if odd:
        raise ValueError("its arrays have different lengths")
    return LoggedCall(
        index=head.index,
        parent=head.parent,
        kept=head.kept,
        call_id=head.call_id,
        messages=head.messages,
        answer=head.answer,
        context_ids=context,
        token_ids=np.frombuffer(arrays, np.int32, sampled, context.nbytes),
        logprobs=np.frombuffer(arrays, np.float32, sampled, context.nbytes + 4 * sampled),
    )
