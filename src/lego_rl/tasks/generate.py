"""`generate`: one task from (seed, family, index, split), the same on every machine and in every process."""

import random

from lego_rl.errors import ConfigError
from lego_rl.tasks.bugtask import Bug, BugTask
from lego_rl.tasks.families import FAMILIES, TRAINED, UNSEEN
from lego_rl.tasks.families.base import Defect, Family
from lego_rl.tasks.hidden_tests import write_tests
from lego_rl.tasks.issue import write_issue
from lego_rl.tasks.names import Namer, Split
from lego_rl.tasks.repository import Repository, lay_out


def generate(seed: int, family: str, index: int, split: Split = "train") -> BugTask:
    """Generate one task.

    Args:
        seed: Of the whole pool.
        family: A name in `FAMILIES`; the two unseen families exist in split ``unseen`` only.
        index: Number within the family and split, from 0.
        split: Which share of the function names to draw from.

    Raises:
        ConfigError: There is no such family in this split.
    """
    kind = _family(family, split)
    rng = random.Random(f"{seed}/{split}/{family}/{index}")
    while True:
        names = Namer(rng, split)
        defect = kind.draw(names, names.function())
        repository = lay_out(names, defect)
        bug = _locate(repository, defect)
        bystander = rng.choice(repository.strangers())
        tests = write_tests(repository, defect, bystander)
        if bug is not None and tests is not None:
            break
    return BugTask(
        id=f"{family.replace('_', '-')}-{split}-{index:03d}",
        family=family,
        split=split,
        instruction=write_issue(rng, defect, bystander[1].name),
        files=repository.files(),
        bug=bug,
        tests={tests.path: tests.text},
        fail_to_pass=tests.fail_to_pass,
        pass_to_pass=tests.pass_to_pass,
    )


def families_of(split: Split) -> tuple[Family, ...]:
    """The families that a split has instances of."""
    return UNSEEN if split == "unseen" else TRAINED


def _family(name: str, split: Split) -> Family:
    known = [family.name for family in families_of(split)]
    if name not in known:
        raise ConfigError(f"split {split} has no bug family {name!r}", f"use one of {', '.join(known)}")
    return FAMILIES[name]


def _locate(repository: Repository, defect: Defect) -> Bug | None:
    """Find the bug's line; ``None`` where its text, or the function's name after ``def``, is not unique."""
    changed = [
        (before, after) for before, after in zip(defect.wrong.lines, defect.right.lines, strict=True) if before != after
    ]
    (before, after) = changed[0]
    text = repository.target.text()
    if len(changed) != 1 or text.count(before.strip()) != 1:
        return None
    line = text.split("\n").index(before) + 1
    return Bug(repository.target.path, line, defect.wrong.name, before, after)
