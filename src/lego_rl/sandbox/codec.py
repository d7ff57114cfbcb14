"""Patches and verdicts as JSON, for the record of a trial and for grading it again.

Invariant: reading what was written gives an equal value, whatever bytes and file names it holds.
"""

import base64
import json
import zlib
from pathlib import PurePosixPath
from typing import Any, get_args

from lego_rl.documents import read_json
from lego_rl.errors import RunError
from lego_rl.sandbox.records import is_plain
from lego_rl.sandbox.report import MAX_REPORT_BYTES
from lego_rl.sandbox.verdict import Change, GradingEnd, Patch, Verdict
from lego_rl.tasks.reports import TestStatus

_STATUSES = get_args(TestStatus.__value__)
_ENDS: dict[str, GradingEnd] = {end: end for end in get_args(GradingEnd.__value__)}


def patch_to_json(patch: Patch) -> str:
    """Contents are base64; a file name that is not UTF-8 keeps its bytes as lone surrogates, escaped."""
    changes = [
        {
            "path": change.path,
            "kind": change.kind,
            "content": base64.b64encode(change.content).decode(),
            "executable": change.executable,
        }
        for change in patch.changes
    ]
    said = {"dropped": patch.dropped, "more_dropped": patch.more_dropped, "too_large": patch.too_large}
    return json.dumps({"changes": changes, **said}, indent=1)


def patch_from_json(text: str) -> Patch:
    """Read a patch.

    Raises:
        RunError: It is none, or one of its paths leads out of a work tree.
    """
    try:
        raw = read_json(text)
        changes = tuple(_change(entry) for entry in raw["changes"])
        dropped = {str(path): str(reason) for path, reason in raw["dropped"].items()}
        more = {str(reason): int(count) for reason, count in raw["more_dropped"].items()}
        too_large = bool(raw["too_large"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"not a patch: {error!r}", "restore the trial's patch.json, or run the trial again") from error
    return Patch(changes, dropped, more, too_large)


def verdict_to_json(verdict: Verdict) -> str:
    """All fields, by name."""
    return json.dumps(
        {
            "reward": verdict.reward,
            "tests": verdict.tests,
            "rolled_back": verdict.rolled_back,
            "log": verdict.log,
            "seconds": verdict.seconds,
            "ended": verdict.ended,
            "report": base64.b64encode(zlib.compress(verdict.report)).decode(),
            "exit_status": verdict.exit_status,
        },
        indent=1,
    )


def verdict_from_json(text: str) -> Verdict:
    """Read a verdict.

    Raises:
        RunError: It is none; a reward other than 0 and 1 is not one.
    """
    try:
        raw = read_json(text)
        reward, tests = raw["reward"], dict(raw["tests"])
        if isinstance(reward, bool) or reward not in (0, 1) or not set(tests.values()) <= set(_STATUSES):
            raise ValueError("a reward is 0 or 1 and a status one of " + ", ".join(_STATUSES))
        return Verdict(
            reward=1 if reward == 1 else 0,
            tests=tests,
            rolled_back={str(path): str(reason) for path, reason in raw["rolled_back"].items()},
            log=str(raw["log"]),
            seconds=float(raw["seconds"]),
            ended=_ENDS[raw["ended"]],
            report=_decompressed(raw["report"]),
            exit_status=None if raw["exit_status"] is None else int(raw["exit_status"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise RunError(f"not a verdict: {error!r}", "grade the trial's patch again") from error


def _decompressed(text: str) -> bytes:
    """What was compressed, if it is no larger than a report may be."""
    reader = zlib.decompressobj()
    content = reader.decompress(base64.b64decode(text, validate=True), MAX_REPORT_BYTES)
    if not reader.eof:
        raise ValueError("the report is cut short or too large")
    return content


def _change(raw: dict[str, Any]) -> Change:
    kind, path = raw["kind"], str(raw["path"])
    if kind not in ("file", "symlink", "deleted") or not is_plain(path) or str(PurePosixPath(path)) != path:
        raise ValueError(f"{kind} {path!r} is no change")
    return Change(path, kind, base64.b64decode(raw["content"], validate=True), bool(raw["executable"]))
