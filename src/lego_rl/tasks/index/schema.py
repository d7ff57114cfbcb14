"""The columns of an index: verl's row shape, and where every task comes from.

Invariant: an index is read by its schema or not at all. Its rows drive stock verl (``prompt``, ``data_source``,
``ability``, ``reward_model``, ``extra_info``); the prompt is a pointer, for a harness reads the task itself. The
columns after them are for people and for `tasks.decontaminate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

VERSION = 3
"""Of the columns and of what they mean; in the metadata of the file."""

VERSION_KEY = b"lego_rl_index"
ABILITY = "software-engineering"
REWARD_STYLE = "lego-rl"

_PROVENANCE = (
    ("repo", pa.string()),
    ("base_commit", pa.string()),
    ("pull_request", pa.int64()),
    ("created_at", pa.string()),
    ("licence", pa.string()),
    ("image", pa.string()),
    ("source_format", pa.string()),
    ("source_digest", pa.string()),
    ("unmeasured", pa.list_(pa.string())),
    ("issue_digest", pa.string()),
    ("patch_digest", pa.string()),
    ("family", pa.string()),
    ("content_digest", pa.string()),
    ("naming_digest", pa.string()),
    ("texts_digest", pa.string()),
)

SCHEMA = pa.schema(
    [
        pa.field("data_source", pa.string(), nullable=False),
        pa.field("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])), nullable=False),
        pa.field("ability", pa.string(), nullable=False),
        pa.field("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())]), nullable=False),
        pa.field(
            "extra_info",
            pa.struct(
                [
                    ("index", pa.int64()),
                    ("split", pa.string()),
                    ("instance_id", pa.string()),
                    ("data_source", pa.string()),
                    ("harbor_task_path", pa.string()),
                ]
            ),
            nullable=False,
        ),
        *(pa.field(name, kind) for name, kind in _PROVENANCE),
    ],
    metadata={VERSION_KEY: str(VERSION).encode()},
)
"""Of the file."""


@dataclass(frozen=True)
class IndexRow:
    """One task of an index.

    Attributes:
        instance_id: Unique within an index.
        path: The Harbor task directory.
        data_source: The set that it is of, as verl groups its metrics.
        split: Which split of its pool it belongs to.
        repo: ``owner/name`` as its source spells it; ``None`` where nothing says.
        base_commit: The commit that an agent starts from.
        pull_request: Number of the pull request that it was made from.
        created_at: When, as its source says it.
        licence: Of the repository's code.
        image: Of its environment.
        source_format: The format of the row that it was converted from.
        source_digest: SHA-256 of that row.
        unmeasured: What nobody has tried yet (`tasks.provenance.Unmeasured`): a task with ``lists`` cannot be used.
        issue_digest: SHA-256 of the issue text's words (`tasks.decontaminate.normal`).
        patch_digest: SHA-256 of the lines that the gold patch changes.
        family: Kind of bug, or the repository's name.
        content_digest: SHA-256 of all that the directory held (`tasks.content`); ``None`` where nobody looked.
        naming_digest: Of the files in it that say where it comes from.
        texts_digest: Of its issue text and its gold patch as they stand.
    """

    instance_id: str
    path: Path
    data_source: str
    split: str = "default"
    repo: str | None = None
    base_commit: str | None = None
    pull_request: int | None = None
    created_at: str | None = None
    licence: str | None = None
    image: str | None = None
    source_format: str | None = None
    source_digest: str | None = None
    unmeasured: Sequence[str] = ()
    issue_digest: str | None = None
    patch_digest: str | None = None
    family: str | None = None
    content_digest: str | None = None
    naming_digest: str | None = None
    texts_digest: str | None = None


def table_of(rows: Sequence[IndexRow]) -> pa.Table:
    """Rows as a table of `SCHEMA`, paths as they are."""
    ids = pa.array([row.instance_id for row in rows], pa.string())
    sources = pa.array([row.data_source for row in rows], pa.string())
    roles = pa.array(["user"] * len(rows), pa.string())
    words = pa.array([f"Lego-RL task {row.instance_id}" for row in rows], pa.string())
    messages = pa.StructArray.from_arrays([roles, words], names=["role", "content"])
    prompt = pa.ListArray.from_arrays(pa.array(range(len(rows) + 1), pa.int32()), messages)
    styles = pa.array([REWARD_STYLE] * len(rows), pa.string())
    columns = [
        sources,
        prompt,
        pa.array([ABILITY] * len(rows), pa.string()),
        pa.StructArray.from_arrays([styles, ids], names=["style", "ground_truth"]),
        pa.StructArray.from_arrays(
            [
                pa.array(range(len(rows)), pa.int64()),
                pa.array([row.split for row in rows], pa.string()),
                ids,
                sources,
                pa.array([str(row.path) for row in rows], pa.string()),
            ],
            names=["index", "split", "instance_id", "data_source", "harbor_task_path"],
        ),
        *(pa.array([getattr(row, name) for row in rows], kind) for name, kind in _PROVENANCE),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
