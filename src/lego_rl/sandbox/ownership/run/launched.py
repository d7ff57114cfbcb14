"""Programs and variables that a test run takes from the work tree by their names alone.

A file called ``make`` is one more file of the product, wherever it is not what a command would find; and a ``.env`` is
read from the folder that a program is started in, from one around a test, or from one above those.

Invariant: only the task's own files and words are asked. Where a change puts something new into a folder for programs,
or a link, it is taken for what it is called.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.deciding_files import ENVIRONMENT
from lego_rl.sandbox.ownership.known.program_names import PROGRAMS, is_common
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree
from lego_rl.sandbox.ownership.texts.words import path_words

FOLDERS_OF_PROGRAMS = frozenset({"", ".", "bin", "sbin", ".bin", "Scripts"})
"""Last parts of the paths of folders that are put on ``PATH``; the work tree itself is the empty one."""

SPEAKS_OF_PATH = re.compile(r"(?<![A-Za-z_])PATH(?![A-Za-z_])")


def folders_of_path(text: str, folder: str, tree: TaskTree) -> set[str]:
    """Folders that a text may put on ``PATH``: all that it names, where it speaks of it.

    Args:
        text: A script, a Makefile or a program.
        folder: Where it lies.
        tree: The task's files.
    """
    words = path_words(text) if SPEAKS_OF_PATH.search(text) else ()
    named = {str(PurePosixPath(place, word)) for word in words for place in (".", folder)}
    return set(filter(tree.leads_to_folder, named))


@dataclass(frozen=True)
class Launched:
    """What a task's commands say of it.

    Attributes:
        path: Folders of the work tree that can be on ``PATH``.
        programs: Paths at which commands name a program with which tests are run.
        entered: Folders that commands are run in; the work tree itself is ``.``.
    """

    path: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    entered: frozenset[str] = field(default_factory=lambda: frozenset({"."}))

    def finds(self, path: str, *, is_link: bool, is_new: bool) -> bool:
        """Whether an executable or a link would be run in place of a program that runs the tests.

        Args:
            path: Where it is.
            is_link: Whether it is a link.
            is_new: Whether the task has nothing there.
        """
        folder, _, name = path.rpartition("/")
        is_on_path = (folder or ".") in self.path
        if PROGRAMS.fullmatch(name) is None:
            return is_new and is_on_path and is_common(name)
        by_name = is_link or (is_new and folder.rpartition("/")[2] in FOLDERS_OF_PROGRAMS)
        return by_name or path in self.programs or is_on_path

    def reads_variables(self, path: str, tests: Iterable[str]) -> bool:
        """Whether a file of one of the names in `ENVIRONMENT` sets the environment of the tests.

        Args:
            path: Where it is.
            tests: Folders that tests lie in or below; ``.`` is the work tree.
        """
        folder, _, name = path.rpartition("/")
        if name not in ENVIRONMENT:
            return False
        around = {str(each) for place in (*self.entered, *tests) for each in PurePosixPath(place, "x").parents}
        return (folder or ".") in around
