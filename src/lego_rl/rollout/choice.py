"""What a folder of rollouts is of, as ``rollout.json`` keeps it.

Invariant: a folder of rollouts is of one policy, sampled in one way, and of one shard. Which tasks, and how many trials
of each, may grow.
"""

from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

from lego_rl.durable import write_text
from lego_rl.errors import RunError
from lego_rl.rollout.store import RunDirectory

CHOICE_FILE = "rollout.json"
"""Its name in a run directory."""
_ELSEWHERE = "name another folder: --out of a rollout, evaluation.dir of an evaluation"


@dataclass(frozen=True)
class Choice:
    """What is rolled out.

    Attributes:
        policy: Names the policy, with how it is sampled and in which harness.
        harness: Name and version of the harness.
        temperature: Sampling temperature.
        shard: Which part of the tasks this run is of, ``i/n`` counted from 0.
    """

    policy: str
    harness: str
    temperature: float
    shard: str

    @classmethod
    def read(cls, directory: RunDirectory) -> "Choice | None":
        """What a run directory is of; ``None`` where it is none of rollouts.

        Raises:
            RunError: The file is damaged.
        """
        path = directory.path / CHOICE_FILE
        if not path.is_file():
            return None
        try:
            return _CHOICE.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            said = " ".join(str(error).split())[:200]
            raise RunError(f"{path} cannot be read: {said}", _ELSEWHERE) from error

    def check(self, directory: RunDirectory) -> None:
        """See that a run directory is of this, or of nothing yet.

        Raises:
            RunError: It is something else, or the folder holds a run of training.
        """
        begun = Choice.read(directory)
        if begun is not None:
            said, now = asdict(begun), asdict(self)
            if differing := [name for name in reversed(said) if said[name] != now[name]]:
                name = differing[0]
                raise RunError(
                    f"{directory.path} holds rollouts of another {name}: {said[name]}, and not {now[name]}",
                    _ELSEWHERE,
                )
        elif directory.recipe.exists():
            raise RunError(f"{directory.path} holds a run of training", _ELSEWHERE)

    def begin(self, directory: RunDirectory) -> None:
        """Write it down, or see that it is what was; raises as `check` does."""
        self.check(directory)
        if not (directory.path / CHOICE_FILE).is_file():
            write_text(directory.path / CHOICE_FILE, _CHOICE.dump_json(self, indent=1).decode() + "\n")


_CHOICE = TypeAdapter(Choice)
