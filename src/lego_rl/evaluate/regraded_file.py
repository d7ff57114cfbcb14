"""What grading a run again found, on the disk, beside its trials.

Invariant: the file of a source holds whole passes only. Until a pass is whole, each of its verdicts is a line of a
second file, from which a pass that was stopped goes on; a line counts for the reward that its trial had then.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lego_rl.documents import DocumentError, read_json
from lego_rl.durable import append_line, write_text
from lego_rl.errors import RunError
from lego_rl.evaluate.made_from import From
from lego_rl.evaluate.regrade import Regraded, Stored, delta_of
from lego_rl.evaluate.results import RegradeDelta

_NAMES = {From.PATCH: "regraded.json", From.REPORT: "regraded-from-report.json"}
"""One a source: reports that are read again say nothing of flaky tests, and take no pass over patches' place."""


@dataclass(frozen=True)
class RegradedFile:
    """The file of a run.

    Attributes:
        folder: The run's.
        source: What its verdicts are made from.
    """

    folder: Path
    source: From

    @property
    def path(self) -> Path:
        """Where whole passes are."""
        return self.folder / _NAMES[self.source]

    @property
    def _pending(self) -> Path:
        return self.path.with_suffix(".jsonl")

    def delta(self) -> RegradeDelta | None:
        """What the last whole pass came to; ``None`` where there was none.

        Raises:
            RunError: The file is damaged.
        """
        found = self._read()
        return None if found is None else delta_of(found)

    def known(self, trials: Sequence[Stored]) -> dict[str, Regraded]:
        """Verdicts of the last whole pass that hold of trials as they are, by trial.

        Raises:
            RunError: The file is damaged.
        """
        return _of(self._read() or (), trials)

    def begun(self, trials: Sequence[Stored]) -> dict[str, Regraded]:
        """Verdicts of a pass that was stopped, likewise."""
        if not self._pending.is_file():
            return {}
        found = []
        for line in self._pending.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(_ONE.validate_json(line))
            except ValidationError:  # half a line, of a process that was killed
                continue
        return _of(found, trials)

    def add(self, one: Regraded) -> None:
        """Write down a verdict of a pass that is not whole yet.

        Raises:
            OSError: The disk does not take it.
        """
        append_line(self._pending, _ONE.dump_json(one).decode())

    def finish(self, found: Sequence[Regraded]) -> None:
        """Write a whole pass down.

        Raises:
            OSError: The disk does not take it.
        """
        content = {
            "from": self.source.value,
            "delta": asdict(delta_of(found)),
            "trials": [asdict(each) for each in found],
        }
        write_text(self.path, json.dumps(content, indent=1) + "\n")
        self._pending.unlink(missing_ok=True)

    def _read(self) -> list[Regraded] | None:
        if not self.path.is_file():
            return None
        try:
            return _ALL.validate_python(read_json(self.path.read_bytes())["trials"])
        except (OSError, DocumentError, ValidationError, KeyError, TypeError) as error:
            said = " ".join(str(error).split())[:200]
            raise RunError(
                f"{self.path} cannot be read: {said}", "delete it, and make it with: lego-rl regrade"
            ) from error


def _of(found: Sequence[Regraded], trials: Sequence[Stored]) -> dict[str, Regraded]:
    """Those that were graded, of trials that have the reward that they had then."""
    rewards: Mapping[str, int] = {each.trial: each.reward for each in trials}
    return {each.trial: each for each in found if each.after is not None and rewards.get(each.trial) == each.before}


_ONE = TypeAdapter(Regraded)
_ALL = TypeAdapter(list[Regraded])
