"""Where pytest looks for tests by itself: in the folder that it is run in, or where ``testpaths`` says.

Invariant: what may tell it something else leaves it to the folder, in which more is left out of a change.
"""

import re
from collections.abc import Callable, Iterable

from lego_rl.sandbox.ownership.run.command_words import FINDS_TESTS, TAKES_VALUE, Statement, pytest_options_in
from lego_rl.sandbox.ownership.run.keeper import WILD
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree

_PYTEST = re.compile(r"(?:.*/)?py\.?test")
_CONFIGURES = re.compile(r"-[a-zA-Z]*[co]|--(?:config-file|override-ini|rootdir|pyargs)")


def keeps_configuration(words: Statement) -> bool:
    """Whether a command, or options, leave it to pytest's own configuration what that is and says."""
    others = (word for word in words if FINDS_TESTS.fullmatch(word) and not _PYTEST.fullmatch(word))
    return not any(others) and not any(map(_CONFIGURES.match, words))


def leaves_paths(options: Statement) -> bool:
    """Whether options of pytest neither name a path of tests nor change its configuration."""
    may_be_values = zip(("", *options), options, strict=False)
    is_path = any(not word.startswith("-") and before not in TAKES_VALUE for before, word in may_be_values)
    return keeps_configuration(options) and not is_path


def looked_in(tree: TaskTree, place: str, below: Callable[[str, str], Iterable[str]]) -> list[str]:
    """Folders in which pytest finds the tests where it is run in one of the work tree, and given no path.

    Args:
        tree: The task's files.
        place: The folder.
        below: What a word means in a folder, as paths of the work tree.
    """
    said = pytest_options_in(tree, place)
    named = said.get("testpaths", "").split()
    found = [each for word in named for each in below(word, place) if tree.leads_to_folder(each)]
    is_plain = not any(mark in word for word in named for mark in WILD)
    return found if found and is_plain and leaves_paths(tuple(said.get("addopts", "").split())) else [place]
