"""A trajectory on disk: ``tokens.npz`` (arrays) and ``trajectory.json`` (ATIF).

Invariant: what is read equals what was written, bit for bit. A token is stored once, however many segments hold it:
the file keeps the model calls as differences to the calls they continue, and the segments are built from them again.

``tokens.npz`` is a compressed NumPy archive that can be read without this package. ``calls`` is a JSON list with one
object a call (`Generation` without its arrays); ``context_ids``, ``token_ids``, ``logprobs`` and ``routes`` are those
of all calls, one after the other, and ``context_lengths``, ``token_lengths`` and ``route_lengths`` split them.
Files appear under their names at once; whoever needs the two together renames the folder.
"""

import io
import json
import zipfile
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from harbor.models.trajectories import Trajectory as AtifTrajectory
from numpy.typing import NDArray

import lego_rl
from lego_rl.engine.protocol import Timings, WeightSpan
from lego_rl.errors import RunError
from lego_rl.gateway.atif import from_atif, to_atif
from lego_rl.gateway.segments import build_segments
from lego_rl.gateway.trajectory import Generation, Segment, Trajectory

TOKENS_FILE = "tokens.npz"
TRAJECTORY_FILE = "trajectory.json"
_ARRAYS = ("context_ids", "token_ids", "logprobs", "routes")
# zipfile raises RuntimeError for what a damaged head says of encryption and versions.
_DAMAGED = (OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def write_trajectory(
    trajectory: Trajectory,
    folder: Path,
    *,
    harness: str = "lego-rl",
    version: str = lego_rl.__version__,
    session_id: str = "trial",
) -> None:
    """Write both files into an existing folder.

    Args:
        trajectory: What the gateway captured.
        folder: The trial's.
        harness: Name of the harness, for readers of ATIF.
        version: Its version.
        session_id: The trial's id.
    """
    document = to_atif(trajectory, harness=harness, version=version, session_id=session_id)
    text = json.dumps(document.to_json_dict(), ensure_ascii=False, separators=(",", ":"))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **_pack(trajectory.generations))
    _write(folder / TRAJECTORY_FILE, text.encode())
    _write(folder / TOKENS_FILE, buffer.getvalue())


def read_trajectory(folder: Path) -> Trajectory:
    """Read a trial's trajectory.

    Raises:
        RunError: A file is missing or damaged.
    """
    generations = _load(folder / TOKENS_FILE)
    path = folder / TRAJECTORY_FILE
    try:
        document = AtifTrajectory.model_validate_json(path.read_bytes())
        conversations, tools, accounting = from_atif(document)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, error) from error
    return Trajectory(build_segments(generations), generations, conversations, tools, accounting)


def load_segments(path: Path) -> tuple[Segment, ...]:
    """Read a trial's training sequences.

    Args:
        path: The trial's folder, or its ``tokens.npz``.

    Raises:
        RunError: The file is missing or damaged.
    """
    return build_segments(_load(path / TOKENS_FILE if path.is_dir() else path))


def _pack(generations: tuple[Generation, ...]) -> dict[str, NDArray[Any]]:
    calls = [{name: value for name, value in _fields(each).items() if name not in _ARRAYS} for each in generations]
    routes = [each.routes for each in generations if each.routes is not None]
    return {
        "calls": np.frombuffer(json.dumps(calls).encode(), np.uint8),
        "context_ids": _join([each.context_ids for each in generations], np.int32),
        "token_ids": _join([each.token_ids for each in generations], np.int32),
        "logprobs": _join([each.logprobs for each in generations], np.float32),
        "routes": _join(routes, np.uint8),
        "context_lengths": np.array([len(each.context_ids) for each in generations], np.int32),
        "token_lengths": np.array([len(each.token_ids) for each in generations], np.int32),
        "route_lengths": np.array([-1 if each.routes is None else len(each.routes) for each in generations], np.int32),
    }


def _fields(generation: Generation) -> dict[str, Any]:
    return vars(generation) | {
        "weight_versions": [[span.version, span.start, span.end] for span in generation.weight_versions],
        "timings": asdict(generation.timings),
    }


def _load(file: Path) -> tuple[Generation, ...]:
    try:
        # From memory: of a damaged file, numpy would leave the handle open.
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as archive:
            return _unpack({name: archive[name] for name in archive.files})
    except _DAMAGED as error:
        raise _unreadable(file, error) from error


def _unpack(arrays: dict[str, NDArray[Any]]) -> tuple[Generation, ...]:
    context = _split(arrays["context_ids"], arrays["context_lengths"])
    tokens = _split(arrays["token_ids"], arrays["token_lengths"])
    logprobs = _split(arrays["logprobs"], arrays["token_lengths"])
    sizes = arrays["route_lengths"]
    routes = _split(arrays["routes"], np.maximum(sizes, 0))
    return tuple(
        Generation(
            **call
            | {
                "weight_versions": tuple(WeightSpan(*span) for span in call["weight_versions"]),
                "timings": Timings(**call["timings"]),
            },
            context_ids=context[index],
            token_ids=tokens[index],
            logprobs=logprobs[index],
            routes=routes[index] if sizes[index] >= 0 else None,
        )
        for index, call in enumerate(json.loads(arrays["calls"].tobytes()))
    )


def _join(pieces: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.empty(0, kind)


def _split(whole: NDArray[Any], sizes: NDArray[Any]) -> list[NDArray[Any]]:
    if len(whole) != sizes.sum():
        raise ValueError(f"{len(whole)} rows where {sizes.sum()} belong")
    return np.split(whole, np.cumsum(sizes)[:-1]) if len(sizes) else []


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def _unreadable(path: Path, error: Exception) -> RunError:
    return RunError(f"{path} cannot be read ({error})", "run the trial again")
