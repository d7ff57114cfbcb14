"""What a task directory says of where it comes from: Lego-RL's own, and those of published Harbor sets.

Read are ``[metadata]`` of ``task.toml`` and, where it says nothing, the row that adapters of SWE-bench sets leave in
``tests/config.json``; the image is the one that is named, or the last ``FROM`` of the Dockerfile.
"""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lego_rl.errors import TaskError
from lego_rl.tasks.decontaminate.normal import issue_digest, patch_digest
from lego_rl.tasks.index.schema import IndexRow
from lego_rl.tasks.task import Task

_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.MULTILINE | re.IGNORECASE)
_PULL = re.compile(r"/pull/(\d+)")


class Provenance(BaseModel):
    """Where a task comes from, in the words of ``[metadata]``.

    Attributes:
        instance_id: Its id in the set that it is of.
        data_source: That set.
        repo: ``owner/name``.
        base_commit: The commit that an agent starts from.
        pull_request: Number of the pull request that it was made from.
        created_at: When.
        licence: Of the repository's code.
        image: Of its environment, where the source names one.
        source_format: The format of the row that it was converted from.
        source_digest: SHA-256 of that row.
    """

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    instance_id: str | None = None
    data_source: str | None = None
    repo: str | None = None
    base_commit: str | None = None
    pull_request: int | None = Field(default=None, ge=1)
    created_at: str | None = None
    licence: str | None = None
    image: str | None = None
    source_format: str | None = None
    source_digest: str | None = None

    @field_validator("created_at", mode="before")
    @classmethod
    def _time(cls, value: object) -> object:
        """TOML has times of its own."""
        return value.isoformat() if hasattr(value, "isoformat") else value


def index_row(folder: Path, data_source: str) -> IndexRow:
    """The row of a task directory.

    Args:
        folder: The Harbor task directory.
        data_source: The set that it is of, where the task does not say.

    Raises:
        TaskError: The directory is incomplete or contradicts itself; the message names it.
    """
    task = Task.load(folder)
    config = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    said, left = _provenance(config.get("metadata", {}), folder / "task.toml"), _adapter_row(folder)
    patch = gold_patch(folder)
    digests: dict[str, Any] = {
        "issue_digest": issue_digest(task.instruction),
        "patch_digest": patch and patch_digest(patch),
    }
    defaults = {"instance_id": task.id, "data_source": data_source, "image": _image(folder, config)}
    found: dict[str, Any] = {
        name: getattr(said, name) or getattr(left, name) or defaults.get(name) for name in Provenance.model_fields
    }
    return IndexRow(path=folder, split=task.split, family=task.family, **found, **digests)


def gold_patch(folder: Path) -> str | None:
    """The patch that solves a task: ``solution/*.patch``, else the one in the adapter's row, else ``solve.sh``, which
    may hold it in a here-document."""
    solution = folder / "solution"
    names = sorted(os.listdir(solution)) if solution.is_dir() else []  # noqa: PTH208  (of every task of a large pool)
    patches = [name for name in names if name.endswith(".patch")]
    if patches:
        return "".join((solution / name).read_text(encoding="utf-8", errors="replace") for name in patches)
    row = _read_adapter_row(folder)
    if isinstance(row.get("patch"), str):
        return str(row["patch"])
    text = (solution / "solve.sh").read_text(encoding="utf-8", errors="replace") if "solve.sh" in names else ""
    return text[text.index("\n--- ") + 1 :] if "\n--- " in text else None


def _provenance(metadata: object, file: Path) -> Provenance:
    try:
        return Provenance.model_validate(metadata)
    except ValidationError as error:
        first = error.errors()[0]
        raise TaskError(
            f"{file}: metadata.{'.'.join(map(str, first['loc']))}: {first['msg']}", "mend the file"
        ) from error


def _read_adapter_row(folder: Path) -> dict[str, Any]:
    try:
        row = json.loads((folder / "tests" / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it is another tool's file, and need not be a row
        return {}
    return row if isinstance(row, dict) else {}


def _adapter_row(folder: Path) -> Provenance:
    row = _read_adapter_row(folder)
    names = ("instance_id", "repo", "base_commit", "created_at")
    found: dict[str, Any] = {name: row[name] for name in names if isinstance(row.get(name), str)}
    pull = _PULL.search(json.dumps(row.get("meta", ""))) if row else None
    return Provenance(**found, pull_request=int(pull[1]) if pull else None)


def _image(folder: Path, config: dict[str, Any]) -> str | None:
    named = config.get("environment", {}).get("docker_image")
    if isinstance(named, str):
        return named
    dockerfile = folder / "environment" / "Dockerfile"
    found = _FROM.findall(dockerfile.read_text(encoding="utf-8", errors="replace")) if dockerfile.is_file() else []
    return found[-1] if found else None
