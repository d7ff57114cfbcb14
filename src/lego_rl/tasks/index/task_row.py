"""What a task directory says of where it comes from: Lego-RL's own, and those of published Harbor sets.

Read are ``[metadata.source]`` of ``task.toml`` (`lego_rl.tasks.provenance`), then ``repo`` and ``base_commit`` of
``[metadata]``, then the row that adapters of SWE-bench sets leave in ``tests/config.json``; the image is the one that
is named, or the last ``FROM`` of the Dockerfile.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lego_rl.documents import read_json, read_toml
from lego_rl.tasks.content import naming_digest, texts_digest
from lego_rl.tasks.decontaminate.normal import issue_digest, patch_digest
from lego_rl.tasks.index.schema import IndexRow
from lego_rl.tasks.provenance import Provenance, pull_request_at
from lego_rl.tasks.task import Task

_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.MULTILINE | re.IGNORECASE)


def index_row(folder: Path, data_source: str) -> IndexRow:
    """The row of a task directory; of one too whose tests have yet to be measured.

    Args:
        folder: The Harbor task directory.
        data_source: The set that it is of, where the task does not say.

    Raises:
        TaskError: The directory is incomplete or contradicts itself; the message names it.
    """
    task = Task.load_unlisted(folder)
    config = read_toml((folder / "task.toml").read_text(encoding="utf-8"))
    metadata = {name: value for name, value in config.get("metadata", {}).items() if name in ("repo", "base_commit")}
    rest = {"instance_id": task.id, "data_source": data_source, "image": _image(folder, config)}
    found: dict[str, Any] = {}
    for said in (_of_source(task.source), metadata, _of_adapter(folder), rest):  # the first that says something
        found |= {name: value for name, value in said.items() if value and name not in found}
    patch = gold_patch(folder)
    return IndexRow(
        path=folder,
        split=task.split,
        family=task.family,
        issue_digest=issue_digest(task.instruction),
        patch_digest=patch and patch_digest(patch),
        content_digest=task.content_digest,
        naming_digest=naming_digest(folder),
        texts_digest=texts_digest(task.instruction, patch),
        **found,
    )


def gold_patch(folder: Path) -> str | None:
    """The patch that solves a task: ``solution/*.patch``, else the one in the adapter's row, else ``solve.sh``, which
    may hold it in a here-document."""
    solution = folder / "solution"
    names = sorted(os.listdir(solution)) if solution.is_dir() else []  # noqa: PTH208  (of every task of a large pool)
    patches = [name for name in names if name.endswith(".patch")]
    if patches:
        return "".join((solution / name).read_text(encoding="utf-8", errors="replace") for name in patches)
    row = _adapter_row(folder)
    if isinstance(row.get("patch"), str):
        return str(row["patch"]).encode(errors="replace").decode()  # JSON can spell half of a character
    text = (solution / "solve.sh").read_text(encoding="utf-8", errors="replace") if "solve.sh" in names else ""
    return text[text.index("\n--- ") + 1 :] if "\n--- " in text else None


def _of_source(source: Provenance | None) -> Mapping[str, Any]:
    if source is None:
        return {}
    same = ("instance_id", "data_source", "repo", "base_commit", "pull_request", "created_at", "licence", "image")
    return {name: getattr(source, name) for name in same} | {
        "source_format": source.format,
        "source_digest": source.row_sha256,
        "unmeasured": source.unmeasured,
    }


def _adapter_row(folder: Path) -> Mapping[str, Any]:
    try:
        row = read_json((folder / "tests" / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it is another tool's file, and need not be a row
        return {}
    return row if isinstance(row, dict) else {}


def _of_adapter(folder: Path) -> Mapping[str, Any]:
    row = _adapter_row(folder)
    names = ("instance_id", "repo", "base_commit", "created_at")
    meta = row.get("meta")
    address = meta.get("pr_url") if isinstance(meta, dict) else None
    return {name: row[name].strip() for name in names if isinstance(row.get(name), str) and _is_text(row[name])} | {
        "pull_request": pull_request_at(address) if isinstance(address, str) else None
    }


def _is_text(value: str) -> bool:
    """Whether it can be written down: JSON can spell half of a character."""
    return value.isprintable()


def _image(folder: Path, config: Mapping[str, Any]) -> str | None:
    named = config.get("environment", {}).get("docker_image")
    if isinstance(named, str):
        return named
    dockerfile = folder / "environment" / "Dockerfile"
    found = _FROM.findall(dockerfile.read_text(encoding="utf-8", errors="replace")) if dockerfile.is_file() else []
    return found[-1] if found else None
