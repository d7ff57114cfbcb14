"""A trajectory on disk: ``tokens.npz`` (arrays) and ``trajectory.json.bz2`` (ATIF).

Invariant: what is read equals what was written, bit for bit. A token is stored once, however many segments hold it:
the file keeps the model calls as differences to the calls they continue, and the segments are built from them again.

``tokens.npz`` is a NumPy archive that can be read without this package. ``format`` is the number of its format and
``calls`` a JSON list with one object a call (`StoredCall`); ``context_ids``, ``token_ids``, ``logprobs`` and ``routes``
are those of all calls, one after the other, and ``context_lengths``, ``token_lengths`` and ``route_lengths`` split
them.

Each part is compressed by what takes least at a long agent's sizes: text by bzip2 (2 % less than LZMA in a quarter of
the time; in blocks of 400 kB, which take 2 % more than its largest and are read a quarter faster where several
processes read, for what a block needs stays in a processor's cache), ids by LZMA (a quarter less than deflate),
log-probs by deflate (their bits are nearly random: LZMA takes 0.2 % less in nine times the time). Routes are as good as
random and a thousand times as many: they are copied from where they were spooled, a call at a time, as they are. Files
appear under their names at once; whoever needs the two together renames the folder. Files that contradict each other,
as where one is another trial's, are refused.
"""

import bz2
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypedDict

import numpy as np
from harbor.models.trajectories import Trajectory as AtifTrajectory
from numpy.typing import NDArray
from pydantic import TypeAdapter

from lego_rl.engine.protocol import FinishReason, Timings, WeightSpan
from lego_rl.errors import CaptureError, LegoError, RunError
from lego_rl.formats import check_format
from lego_rl.gateway import atif
from lego_rl.gateway.agreement import check_agreement, check_calls
from lego_rl.gateway.segments import build_segments
from lego_rl.gateway.trajectory import CallRole, Fate, Generation, Segment, Trajectory

TOKENS_FILE = "tokens.npz"
TRAJECTORY_FILE = "trajectory.json.bz2"
_BLOCK = 4
"""Size of bzip2's blocks, in 100 kB."""
TOKENS_FORMAT = 1
"""Of ``tokens.npz``; ``trajectory.json.bz2`` has `atif.FORMAT`."""
# zipfile raises RuntimeError for what a damaged head says of encryption and versions.
_DAMAGED = (
    OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    CaptureError,
)  # fmt: skip


class StoredCall(TypedDict):
    """`Generation` without its arrays, as ``calls`` holds it; ``weight_versions`` as ``[version, start, end]``."""

    call_id: str
    parent: int | None
    finish_reason: FinishReason
    weight_versions: list[tuple[int, int, int]]
    timings: Timings
    role: CallRole
    fate: Fate
    parsed: bool
    calls_tools: bool
    excluded: str | None
    routes_recorded: int
    kept: int | None
    delivered_prefix: int | None


_CALLS = TypeAdapter(list[StoredCall])


def write_trajectory(trajectory: Trajectory, folder: Path, *, harness: str, version: str, session_id: str) -> None:
    """Write both files into an existing folder.

    Args:
        trajectory: What the gateway captured.
        folder: The trial's.
        harness: Name of the harness, for readers of ATIF.
        version: Its version.
        session_id: The trial's id.
    """
    document = atif.to_atif(trajectory, harness=harness, version=version, session_id=session_id)
    write_text(document, folder)
    with _appearing(folder / TOKENS_FILE) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in _pack(trajectory.generations).items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED if name == "logprobs" else zipfile.ZIP_LZMA
            with archive.open(entry, "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        _write_routes(archive, [each.routes for each in trajectory.generations if each.routes is not None])


def read_trajectory(folder: Path) -> Trajectory:
    """Read a trial's trajectory.

    Raises:
        RunError: A file is missing or damaged, has another format, or the two are not of one trial.
    """
    generations = _load(folder / TOKENS_FILE)
    path = folder / TRAJECTORY_FILE
    try:
        document = AtifTrajectory.model_validate_json(read_text(folder))
        check_format(path, atif.format_of(document), atif.FORMAT)
        conversations, tools, accounting = atif.from_atif(document)
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, error) from error
    trajectory = Trajectory(build_segments(generations), generations, conversations, tools, accounting)
    try:
        check_agreement(trajectory)
    except CaptureError as error:
        raise RunError(
            f"{TOKENS_FILE} and {TRAJECTORY_FILE} in {folder} contradict each other: {error.problem}", error.fix
        ) from error
    return trajectory


def write_text(document: AtifTrajectory, folder: Path) -> None:
    """Write a trial's conversations into an existing folder."""
    text = json.dumps(document.to_json_dict(), ensure_ascii=False, separators=(",", ":"))
    with _appearing(folder / TRAJECTORY_FILE) as file:
        file.write(bz2.compress(text.encode(), _BLOCK))


def read_text(folder: Path) -> str:
    """A trial's conversations in ATIF, a JSON text.

    Raises:
        RunError: The file is missing or damaged.
    """
    path = folder / TRAJECTORY_FILE
    try:
        text = bz2.decompress(path.read_bytes()).decode()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not text:  # nothing at all is valid bzip2
        raise RunError(f"{path} is empty", "restore it from a copy, or run the trial again")
    return text


def load_segments(path: Path) -> tuple[Segment, ...]:
    """Read a trial's training sequences.

    Args:
        path: The trial's folder, or its ``tokens.npz``.

    Raises:
        RunError: The file is missing or damaged, or has another format.
    """
    return build_segments(_load(path / TOKENS_FILE if path.is_dir() else path))


def _pack(generations: tuple[Generation, ...]) -> dict[str, NDArray[Any]]:
    calls = json.dumps(_CALLS.dump_python([_stored(each) for each in generations]))  # ASCII: text may be no Unicode
    return {
        "format": np.array(TOKENS_FORMAT, np.int32),
        "calls": np.frombuffer(calls.encode(), np.uint8),
        "context_ids": _join([each.context_ids for each in generations], np.int32),
        "token_ids": _join([each.token_ids for each in generations], np.int32),
        "logprobs": _join([each.logprobs for each in generations], np.float32),
        "context_lengths": np.array([len(each.context_ids) for each in generations], np.int32),
        "token_lengths": np.array([len(each.token_ids) for each in generations], np.int32),
        "route_lengths": np.array([-1 if each.routes is None else len(each.routes) for each in generations], np.int32),
    }


def _stored(call: Generation) -> StoredCall:
    return StoredCall(
        call_id=call.call_id,
        parent=call.parent,
        finish_reason=call.finish_reason,
        weight_versions=[(span.version, span.start, span.end) for span in call.weight_versions],
        timings=call.timings,
        role=call.role,
        fate=call.fate,
        parsed=call.parsed,
        calls_tools=call.calls_tools,
        excluded=call.excluded,
        routes_recorded=call.routes_recorded,
        kept=call.kept,
        delivered_prefix=call.delivered_prefix,
    )


def _load(file: Path) -> tuple[Generation, ...]:
    try:
        # From memory: of a damaged file, numpy would leave the handle open.
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as archive:
            check_format(file, archive["format"].item() if "format" in archive else None, TOKENS_FORMAT)
            calls = _unpack({name: archive[name] for name in archive.files})
        check_calls(calls)
    except _DAMAGED as error:
        raise _unreadable(file, error) from error
    return calls


def _unpack(arrays: dict[str, NDArray[Any]]) -> tuple[Generation, ...]:
    context = _split(arrays["context_ids"], arrays["context_lengths"])
    tokens = _split(arrays["token_ids"], arrays["token_lengths"])
    logprobs = _split(arrays["logprobs"], arrays["token_lengths"])
    sizes = arrays["route_lengths"]
    routes = _split(arrays["routes"], np.maximum(sizes, 0))
    return tuple(
        Generation(
            call_id=call["call_id"],
            parent=call["parent"],
            context_ids=context[index],
            token_ids=tokens[index],
            logprobs=logprobs[index],
            finish_reason=call["finish_reason"],
            weight_versions=tuple(WeightSpan(*span) for span in call["weight_versions"]),
            timings=call["timings"],
            role=call["role"],
            fate=call["fate"],
            parsed=call["parsed"],
            calls_tools=call["calls_tools"],
            excluded=call["excluded"],
            routes=routes[index] if sizes[index] >= 0 else None,
            routes_recorded=call["routes_recorded"],
            kept=call["kept"],
            delivered_prefix=call["delivered_prefix"],
        )
        for index, call in enumerate(_CALLS.validate_python(json.loads(arrays["calls"].tobytes())))
    )


def _join(pieces: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.empty(0, kind)


def _split(whole: NDArray[Any], sizes: NDArray[Any]) -> list[NDArray[Any]]:
    if len(whole) != sizes.sum():
        raise ValueError(f"{len(whole)} rows where {sizes.sum()} belong")
    return np.split(whole, np.cumsum(sizes)[:-1]) if len(sizes) else []


def _write_routes(archive: zipfile.ZipFile, pieces: Sequence[NDArray[np.uint8]]) -> None:
    shape = (sum(map(len, pieces)), *(pieces[0].shape[1:] if pieces else ()))
    member = zipfile.ZipInfo("routes.npy")
    with archive.open(member, "w", force_zip64=True) as file:
        np.lib.format.write_array_header_2_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for piece in pieces:
            file.write(np.ascontiguousarray(piece).data)


@contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """A file that has its name once it is whole."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        yield file
    temporary.replace(path)


def _unreadable(path: Path, error: Exception) -> RunError:
    problem = error.problem if isinstance(error, LegoError) else error
    return RunError(f"{path} cannot be read ({problem})", "restore it from a copy, or run the trial again")
