"""What a task's tests are run by, as far as the task itself says so: scripts, plugins, folders of modules.

Invariant: only the task's own words are read, its command and its files, and nothing of them is executed. What the
command runs is read for what that runs, and so on until nothing new is found. A module that the tests import is what is
tested, and stays the agent's whoever runs it (`tested_code`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.launchers import MAKEFILES
from lego_rl.sandbox.ownership.known.runners import Runners
from lego_rl.sandbox.ownership.known.test_names import is_surely_tests_folder, support_folders
from lego_rl.sandbox.ownership.run.command_words import conftests
from lego_rl.sandbox.ownership.run.keeper import RunKeeper
from lego_rl.sandbox.ownership.run.launched import Launched
from lego_rl.sandbox.ownership.run.naming import Command, Naming
from lego_rl.sandbox.ownership.run.reader import RunReader
from lego_rl.sandbox.ownership.run.runner_files import named_by_runners, runners_of_its_own
from lego_rl.sandbox.ownership.run.tested_code import packages_of
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree


@dataclass(frozen=True)
class DeclaredRun:
    """What decides how the tests run besides the files that always do.

    Attributes:
        files: Paths of the work tree that the command runs, or that a program of it or pytest reads for what to do.
        patterns: The same as patterns with wildcards.
        module_folders: Folders of the work tree that are put on the module path; the work tree itself is ``.``.
        programs: Paths of the work tree where the command would find programs that it names.
        folders: Folders of the work tree that it names; the work tree itself where a program is left to find the tests.
        searched: Those in which a runner finds the tests by itself; the work tree itself, too, where nothing tells.
        launched: Where programs and environment files of the work tree are found by their names.
        runners: What runs the tests, as far as it is known.
        manifests: Names of files of which a part is the task's, as ``package.json``.
        imports: Modules that it runs, loads as plugins or imports, by name, wherever they are.
        lacking: Paths of programs and modules that it starts, and the task lacks.
        collected: Patterns of the names of files that its runners collect as tests, besides pytest.
    """

    files: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    module_folders: frozenset[str] = frozenset({"."})
    programs: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    searched: frozenset[str] = frozenset()
    launched: Launched = field(default_factory=Launched)
    runners: Runners = field(default_factory=Runners)
    manifests: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    collected: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        text: str,
        tree: TaskTree,
        env: Mapping[str, str],
        workdir: str,
        tests: Iterable[str],
        beside: tuple[bytes, ...] = (),
        naming: Naming | None = None,
    ) -> "DeclaredRun":
        """Read a command or script, the files that it leads to and the configuration of a task.

        Args:
            text: What runs the tests, in a shell.
            tree: The task's files.
            env: Environment variables of the tests.
            workdir: Where the work tree is inside.
            tests: The task's test files in the work tree.
            beside: Texts of Python files with tests that lie elsewhere.
            naming: What counts of what the text names; ``None`` where everything does.
        """
        tests = frozenset(tests)
        loaded = conftests(tree, tests)
        texts = (*beside, *(tree.read(file) for file in sorted({*tests, *loaded})), *packages_of(tree, tests))
        around = support_folders(tests)
        unsure = frozenset(each for each in around if not is_surely_tests_folder(PurePosixPath(each).name))
        keeper = RunKeeper(tree, workdir, texts, unsure)
        reader = RunReader(keeper, naming or Command())
        reader.environment(env)
        reader.read(text, ["."])
        reader.run(loaded)
        found = keeper.found
        runners = Runners(frozenset(found.runners))
        files = frozenset(found.files)
        return cls(
            files=files | named_by_runners(tree, runners) | runners_of_its_own(tree, files),
            patterns=frozenset(found.patterns),
            module_folders=frozenset(found.module_folders),
            programs=frozenset(found.programs),
            folders=frozenset(found.folders),
            searched=frozenset(found.searched or ({"."} if tests and tests.isdisjoint(files) else ())),
            launched=Launched(
                path=frozenset(found.path | found.may_be_path),
                programs=frozenset(found.launched),
                entered=frozenset(found.entered),
            ),
            runners=runners,
            manifests=frozenset(found.manifests | runners.manifests),
            imports=frozenset(found.imports),
            lacking=frozenset(found.lacking),
            collected=frozenset(found.collected),
        )

    @cached_property
    def has_makefile(self) -> bool:
        """Whether it leads to ``make``."""
        return any(PurePosixPath(file).name in MAKEFILES for file in self.files)

    @cached_property
    def above(self) -> frozenset[str]:
        """Folders that its files lie in, there or not: a link there would lead to others."""
        files = self.files | self.lacking
        return frozenset(str(folder) for file in files for folder in PurePosixPath(file).parents) - {"."}

    def runs(self, path: str) -> bool:
        """Whether a path is a file of the run."""
        is_named = (
            path in self.files or path in self.lacking or any(fnmatchcase(path, pattern) for pattern in self.patterns)
        )
        return is_named or self.runners.decide_by(path)
