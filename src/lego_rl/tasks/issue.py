"""The issue text: which function is wrong, what it should do, and a bystander that is fine, in short sentences."""

import random

from lego_rl.tasks.families.base import Defect

_OPENERS = ("`{f}` is wrong.", "There is a bug in `{f}`.", "`{f}` gives a wrong result.", "We found a bug in `{f}`.")
_ASIDES = ("`{d}` is fine.", "`{d}` works well.", "We saw it next to `{d}`.")
_CLOSERS = ("Please fix it.", "Fix the bug.", "")


def write_issue(rng: random.Random, defect: Defect, bystander: str) -> str:
    """Phrase an issue about the defect.

    Args:
        rng: Picks the phrasing.
        defect: What is wrong.
        bystander: A right function of another file that the issue also names, as reporters do.
    """
    opener = rng.choice(_OPENERS).format(f=defect.wrong.name)
    aside = rng.choice(_ASIDES).format(d=bystander)
    return " ".join(part for part in (opener, defect.complaint, aside, rng.choice(_CLOSERS)) if part) + "\n"
