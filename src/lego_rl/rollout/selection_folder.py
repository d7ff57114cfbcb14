"""A selection of trials in a folder of its own, token-exact: what ``lego-rl sft`` reads beside run directories.

Invariant: a trial here is the very record that it was, ids, masks, log-probs and routes; ``selection.json`` is written
last, so a folder that has one is whole.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_rl.documents import read_json
from lego_rl.durable import write_text
from lego_rl.errors import RunError
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.selection import Selected
from lego_rl.rollout.store import TrialStore

SELECTION = "selection.json"
FORMAT = 1


@dataclass(frozen=True)
class SelectionFolder:
    """The folder.

    Attributes:
        path: Where it is.
    """

    path: Path

    @property
    def exists(self) -> bool:
        """Whether a selection is there."""
        return (self.path / SELECTION).is_file()

    @property
    def store(self) -> TrialStore:
        """Its records."""
        return TrialStore(self.path / "trials")

    def write(self, selected: Selected, said: Mapping[str, Any]) -> None:
        """Fill the folder.

        Args:
            selected: What was chosen.
            said: How, as plain data.

        Raises:
            RunError: The folder is there already, or cannot be written.
        """
        if self.path.exists():
            raise RunError(f"{self.path} is there already", "name another folder with --out")
        self.store.path.mkdir(parents=True)
        for record in selected.chosen:
            self.store.save(record)
        content = {
            "format": FORMAT,
            "trials": [record.spec.id for record in selected.chosen],
            "seen": selected.seen,
            "left_out": dict(selected.left_out),
            **said,
        }
        write_text(self.path / SELECTION, json.dumps(content, indent=1) + "\n")

    def records(self) -> Iterator[TrialRecord]:
        """Its records, in their order.

        Raises:
            RunError: The selection or a record is damaged.
        """
        try:
            content = read_json((self.path / SELECTION).read_text(encoding="utf-8"))
            names = [str(name) for name in content["trials"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{self.path / SELECTION} cannot be read: {error}", "export the selection again") from error
        yield from map(self.store.load, names)
