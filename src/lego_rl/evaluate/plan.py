"""What an evaluation asks for, written down before its first trial: whoever reads its folder knows what is missing.

Invariant: ``plan.json`` of a folder never changes but for its size: a folder that was begun holds trials of its
protocol and its seed, and tasks, attempts and cells may only be added to. What was measured is never left out of a
report in silence.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lego_rl.durable import write_text
from lego_rl.errors import RunError

PLAN = "plan.json"
FORMAT = 1
_ELSEWHERE = "name another evaluation.dir"


@dataclass(frozen=True)
class PlannedCell:
    """One model in one harness.

    Attributes:
        model: Its name in the table.
        harness: Likewise.
        review: Rounds of review.
    """

    model: str
    harness: str
    review: int = 0

    @property
    def name(self) -> str:
        """Its folder's."""
        return f"{self.model}--{self.harness}"


@dataclass(frozen=True)
class Plan:
    """What is asked for.

    Attributes:
        protocol: Sampling and budget, as plain data.
        attempts: Trials a task.
        tasks: Names of all tasks, whichever shard tries them.
        cells: The table.
        excluded: Tasks whose own solution fails here → why.
        unvalidated: Tasks of which no finding says whether it does.
        seed: Seeds every draw.
        format: `FORMAT`.
    """

    protocol: Mapping[str, Any]
    attempts: int
    tasks: tuple[str, ...]
    cells: tuple[PlannedCell, ...]
    excluded: Mapping[str, str] = field(default_factory=dict)
    unvalidated: int = 0
    seed: int = 0
    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> "Plan | None":
        """The plan of a folder; ``None`` where it holds no evaluation.

        Raises:
            RunError: The file is damaged, or another version's.
        """
        path = folder / PLAN
        if not path.is_file():
            return None
        try:
            plan = _PLAN.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise RunError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}", "restore it") from error
        if plan.format != FORMAT:
            raise RunError(f"{path} has format {plan.format}, this version reads {FORMAT}", "evaluate again")
        return plan

    def check(self, folder: Path) -> None:
        """See that a folder may be gone on with, or begun.

        Raises:
            RunError: It holds an evaluation by another protocol or seed, or of tasks and attempts that this one lacks,
                or no evaluation and something else.
        """
        before = Plan.read(folder)
        if before is not None:
            self._check_grown(before, folder)
        elif folder.is_dir() and any(folder.iterdir()):
            raise RunError(f"{folder} holds something else than an evaluation", _ELSEWHERE)

    def begin(self, folder: Path) -> None:
        """Write the plan down; cells that a folder was begun with and that are no more asked for stay in it.

        Raises:
            RunError: See `check`.
        """
        self.check(folder)
        before = Plan.read(folder)
        kept = () if before is None else tuple(cell for cell in before.cells if cell not in self.cells)
        folder.mkdir(parents=True, exist_ok=True)
        whole = replace(self, cells=(*self.cells, *kept))
        write_text(folder / PLAN, _PLAN.dump_json(whole, indent=1).decode() + "\n")

    def _check_grown(self, before: "Plan", folder: Path) -> None:
        if dict(before.protocol) != dict(self.protocol):
            changed = sorted(key for key in self.protocol if before.protocol.get(key) != self.protocol[key])
            raise RunError(f"{folder} holds an evaluation with another {', '.join(changed)}", _ELSEWHERE)
        if before.seed != self.seed:
            raise RunError(f"{folder} holds an evaluation of seed {before.seed}, and not {self.seed}", _ELSEWHERE)
        if before.attempts > self.attempts:
            raise RunError(
                f"{folder} holds an evaluation of {before.attempts} attempts, and not {self.attempts}",
                f"set evaluation.attempts to at least {before.attempts}, or {_ELSEWHERE}",
            )
        if gone := sorted(set(before.tasks) - set(self.tasks)):
            raise RunError(
                f"{folder} holds an evaluation of {len(gone)} tasks that are not asked for now, such as {gone[0]}",
                f"ask for its tasks, too, or {_ELSEWHERE}",
            )
        rounds = {cell.name: cell.review for cell in before.cells}
        if other := [cell for cell in self.cells if rounds.get(cell.name, cell.review) != cell.review]:
            raise RunError(
                f"{folder} holds {other[0].name} with {rounds[other[0].name]} rounds of review, and not "
                f"{other[0].review}",
                f"give the harness another label, or {_ELSEWHERE}",
            )

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


_PLAN = TypeAdapter(Plan)
