"""What an evaluation asks for, written down before its first trial: whoever reads its folder knows what is missing.

Invariant: ``plan.json`` of a folder never changes but for its size: a folder that was begun holds trials of its
protocol, and tasks and attempts may only be added to.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lego_rl.durable import write_text
from lego_rl.errors import RunError

PLAN = "plan.json"
FORMAT = 1


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
        format: `FORMAT`.
    """

    protocol: Mapping[str, Any]
    attempts: int
    tasks: tuple[str, ...]
    cells: tuple[PlannedCell, ...]
    excluded: Mapping[str, str] = field(default_factory=dict)
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

    def begin(self, folder: Path) -> None:
        """Write the plan down, if the folder holds nothing else.

        Raises:
            RunError: It holds an evaluation by another protocol, or none and something else.
        """
        before = Plan.read(folder)
        if before is None and folder.is_dir() and any(folder.iterdir()):
            raise RunError(f"{folder} holds something else than an evaluation", "name another evaluation.dir")
        if before is not None and dict(before.protocol) != dict(self.protocol):
            changed = sorted(key for key in self.protocol if before.protocol.get(key) != self.protocol[key])
            raise RunError(
                f"{folder} holds an evaluation with another {', '.join(changed)}", "name another evaluation.dir"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / PLAN, _PLAN.dump_json(self, indent=1).decode() + "\n")

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


_PLAN = TypeAdapter(Plan)
