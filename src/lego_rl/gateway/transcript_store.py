"""A transcript on disk: ``chat-calls.json`` and ``trajectory.json.bz2`` (ATIF).

Invariant: what is read equals what was written. There is no ``tokens.npz``, so whatever reads training sequences from a
trial's files finds none.
"""

import json
from pathlib import Path

from harbor.models.trajectories import Trajectory as AtifTrajectory
from pydantic import TypeAdapter

from lego_rl.documents import read_json
from lego_rl.errors import RunError
from lego_rl.formats import check_format
from lego_rl.gateway import atif
from lego_rl.gateway.store import TRAJECTORY_FILE, read_text, write_text
from lego_rl.gateway.transcript import ChatCall, Transcript

CHAT_CALLS_FILE = "chat-calls.json"
_FORMAT = 1
_CALLS = TypeAdapter(tuple[ChatCall, ...])


def write_transcript(transcript: Transcript, folder: Path, *, harness: str, version: str, session_id: str) -> None:
    """Write both files into an existing folder.

    Args:
        transcript: What the gateway wrote down.
        folder: The trial's.
        harness: Name of the harness, for readers of ATIF.
        version: Its version.
        session_id: The trial's id.
    """
    write_text(atif.to_atif(transcript, harness=harness, version=version, session_id=session_id), folder)
    content = {"format": _FORMAT, "calls": _CALLS.dump_python(transcript.calls, mode="json")}
    (folder / CHAT_CALLS_FILE).write_text(json.dumps(content), encoding="ascii")


def read_transcript(folder: Path) -> Transcript:
    """Read a trial's transcript.

    Raises:
        RunError: A file is missing or damaged, or has another format.
    """
    path = folder / TRAJECTORY_FILE
    try:
        document = AtifTrajectory.model_validate_json(read_text(folder))
        check_format(path, atif.format_of(document), atif.FORMAT)
        conversations, tools, accounting = atif.from_atif(document)
        path = folder / CHAT_CALLS_FILE
        content = read_json(path.read_text(encoding="ascii"))
        check_format(path, content.get("format"), _FORMAT)
        calls = _CALLS.validate_python(content["calls"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{path} cannot be read ({error})", "restore it from a copy, or run the trial again") from error
    return Transcript(calls, conversations, tools, accounting)
