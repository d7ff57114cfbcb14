"""Names of task directories, by one rule for whoever writes one.

Invariant: a task's name is that of no file that a pool has of its own. Beside the tasks lie the list of skipped rows,
validation's findings, accounts of made tasks, indices and outcomes; all of them are called by their kind, and so no
task is. What a pool keeps in folders begins with a dot, as no task does.
"""

import re

MAX_ID = 200
FILE_SUFFIXES = (".json", ".jsonl", ".parquet", ".partial")
"""How the files of a pool end, in whatever case; ``.partial`` while they are written (`lego_rl.durable`)."""

_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_ID - 1}}}")
"""Names that a directory, Harbor and every file system take as they are."""


def fault_of_id(name: str) -> str | None:
    """Why a name cannot be that of a task directory, in words that can follow ``its id``; ``None`` where it can."""
    if _ID.fullmatch(name) is None:
        return (
            f"{name[:MAX_ID]!r} cannot be the name of a directory: it needs at most {MAX_ID} letters, digits, dots, "
            "dashes and underscores, a letter or digit first"
        )
    if name.lower().endswith(FILE_SUFFIXES):
        return f"{name!r} is the name of a file: in a pool, what ends in {', '.join(FILE_SUFFIXES)} is its own"
    return None
