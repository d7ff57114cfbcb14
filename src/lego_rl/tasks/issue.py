"""The issue text: which function is wrong, and what it should do, in two to four short sentences."""

import random

from lego_rl.tasks.families.base import Defect

_OPENERS = (
    "`{f}` is wrong.",
    "There is a bug in `{f}`.",
    "The function `{f}` gives a wrong result.",
    "We found a bug in `{f}`.",
    "Something is off in `{f}`.",
)
_CLOSERS = ("Please fix it.", "Fix the bug.", "Please fix this line.", "Can you fix it?", "")


def write_issue(rng: random.Random, defect: Defect) -> str:
    """Phrase an issue about the defect."""
    opener = rng.choice(_OPENERS).format(f=defect.wrong.name)
    return " ".join(part for part in (opener, defect.complaint, rng.choice(_CLOSERS)) if part) + "\n"
