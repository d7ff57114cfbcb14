"""What is the task's own, whatever a patch says: its tests, and whatever decides which tests run, or how.

Invariant: a patch loses these paths and nothing else, each with a reason; it is never refused for containing them, so
that an honest change to ``setup.cfg`` or a test of the agent's own costs nothing. Where a task says that a path is the
agent's (``[metadata] editable``), it is.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.comparison import is_folder
from lego_rl.sandbox.ownership.known.deciding_files import CONFIGURATION, ENVIRONMENT, MERGED
from lego_rl.sandbox.ownership.known.test_names import is_test
from lego_rl.sandbox.ownership.linked import Linked, is_below_any
from lego_rl.sandbox.ownership.links import Links
from lego_rl.sandbox.ownership.merge.configuration import merge_all
from lego_rl.sandbox.ownership.merge.setup_py import only_describes
from lego_rl.sandbox.ownership.modules.module_path import ModulePath
from lego_rl.sandbox.ownership.modules.shadowing import Shadowing
from lego_rl.sandbox.ownership.own_tests.folders_of_tests import FoldersOfTests
from lego_rl.sandbox.ownership.own_tests.kept_folders import KeptFolders
from lego_rl.sandbox.ownership.own_tests.node_names import NodeNames
from lego_rl.sandbox.ownership.own_tests.remade import Remade
from lego_rl.sandbox.ownership.own_tests.reported_names import ReportedNames
from lego_rl.sandbox.ownership.own_tests.strays import Strays, strays_of
from lego_rl.sandbox.ownership.replacements import rolled_back_together
from lego_rl.sandbox.ownership.run.declared_run import DeclaredRun
from lego_rl.sandbox.ownership.run.script_run import declared_by_script
from lego_rl.sandbox.ownership.split import Reason, Split
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.reports.junit import dotted, junit_key
from lego_rl.tasks.task import Task, TestSpec


@dataclass(frozen=True)
class _Folder:
    """What holds for everything below a folder on the way to a change.

    Attributes:
        is_there: The pristine tree has a folder here.
        is_blocked: It has something else here, or above.
        in_support: It is in a folder of tests and what they use.
        reason: Why all of it is the task's own; ``None`` where it is not.
    """

    is_there: bool = True
    is_blocked: bool = False
    in_support: bool = False
    reason: Reason | None = None


@dataclass(frozen=True)
class Ownership:
    """Decides for one task. What is asked of the pristine tree is asked once for each folder on the way to a change.

    Attributes:
        pristine: The pristine work tree.
        module_path: Where modules of the test run can lie.
        test_files: Files that hold the task's tests, relative to the work tree.
        hidden: All files that are laid over the work tree for the tests.
        class_names: Names of their modules and classes in a report.
        run: What the task says of its test run.
        editable: Files and folders that the task leaves to the agent.
        installed: Modules that the image has outside of the work tree, of those that `asked` names.
        strays: Tells new files that pytest would take for tests; ``None`` where it looks for none by itself.
    """

    pristine: Path
    module_path: ModulePath
    test_files: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    class_names: frozenset[str] = frozenset()
    run: DeclaredRun = field(default_factory=DeclaredRun)
    editable: frozenset[str] = frozenset()
    installed: frozenset[str] = frozenset()
    strays: Strays | None = None

    @classmethod
    def of(cls, task: Task, pristine: Path, env: Mapping[str, str]) -> "Ownership":
        """The files that a specification lists, those that its test ids name, and what its command or script runs.

        Args:
            task: The task.
            pristine: Its pristine work tree.
            env: The variables that its tests have: the image's and the task's.
        """
        editable = frozenset(task.editable)
        if not isinstance(task.tests, TestSpec):
            tree = TaskTree(pristine)
            run, files = declared_by_script(task, tree, env)
            path = ModulePath.of_script(task, tree, run.module_folders, files)
            strays = strays_of(task, tree, files, run)
            return cls(pristine=pristine, module_path=path, test_files=files, run=run, editable=editable, strays=strays)
        spec = task.tests
        ids = (*spec.fail_to_pass, *spec.pass_to_pass)
        tree = TaskTree(pristine, task.path / "tests" / "files")
        hidden = frozenset(tree.hidden_files())
        tests = (file for file in hidden if is_test(PurePosixPath(file).name))
        files = frozenset((*spec.test_files, *(test.partition("::")[0] for test in ids), *tests))
        names = frozenset((*map(dotted, files), *(junit_key(test)[0] for test in ids)))
        run = DeclaredRun.of(spec.command, tree, env, task.workdir, files)
        path = ModulePath.of_command(task, spec, tree, run, files)
        strays = strays_of(task, tree, files, run)
        return cls(
            pristine=pristine,
            module_path=path,
            test_files=files,
            hidden=hidden,
            class_names=names,
            run=run,
            editable=editable,
            strays=strays,
        )

    def knowing(self, installed: frozenset[str]) -> "Ownership":
        """The same, with what of the modules that `asked` names the image has outside of the work tree."""
        return replace(self, installed=installed) if installed else self

    def split(self, patch: Patch) -> Split:
        """Divide a patch into what is applied and what is rolled back; of a configuration file it may be some of each.

        Raises:
            OSError: The pristine tree cannot be read.
        """
        alone = {change.path: self.owns(change) for change in patch.changes}
        if self.strays is not None:
            applied = [change for change in patch.changes if alone[change.path] is None]
            alone.update(dict.fromkeys(self.strays.of(applied), Reason.STRAY))
        reasons = rolled_back_together(patch.changes, alone, self.pristine)
        kept = [change for change in patch.changes if reasons[change.path] is None]
        read_as = {change.path: name for change in kept if (name := self._read_as(change.path)) is not None}
        merged = merge_all([change for change in kept if change.path in read_as], self.pristine, read_as)
        applied, rolled_back = [], {path: reason for path, reason in reasons.items() if reason is not None}
        for change in kept:
            part, reason = merged.get(change.path, (change, None))
            if part is not None:
                applied.append(part)
            if reason is not None:
                rolled_back[change.path] = reason
        return Split(tuple(applied), rolled_back)

    def owns(self, change: Change) -> Reason | None:
        """Why `change` would alter what is the task's own, ``None`` where it does not; parts of files are not told."""
        if self._is_editable(change.path):
            return None
        is_new = self._is_new(change.path)
        found = next(self._reasons(change, is_new=is_new), None)
        if found is not None:
            return found
        if change.path in self._ways:
            return Reason.IN_THE_WAY
        return next(self._reasons_by_links(change, is_new=is_new), None)

    def _reasons_by_links(self, change: Change, *, is_new: bool) -> Iterator[Reason]:
        for alias in self._linked.aliases(change.path):
            is_new_there = is_new and self.links.leads_to(alias) is None
            yield from self._reasons(replace(change, path=alias), is_new=is_new_there)

    def asked(self, patch: Patch) -> frozenset[str]:
        """Modules that the tests or their runner import, and that only the patch has in the work tree.

        Where the image has one of them elsewhere, that is the one that is meant (`knowing`).
        """
        new = (change for change in patch.changes if change.kind != "deleted" and not self._is_editable(change.path))
        return frozenset(name for change in new if self._is_new(change.path) for name in self._shadowing.asked(change))

    def _is_new(self, path: str) -> bool:
        folder = self._folder(path.rpartition("/")[0])
        return not (folder.is_blocked or (folder.is_there and os.path.lexists(self.pristine / path)))

    def _is_editable(self, path: str) -> bool:
        return is_below_any(path, self.editable)

    def _read_as(self, path: str) -> str | None:
        """The path, or one that leads there, of a configuration file that is merged; ``None`` where it is none."""
        names = MERGED | self.run.manifests
        found = (each for each in (path, *self._linked.aliases(path)) if each.rpartition("/")[2] in names)
        return None if self._is_editable(path) else next(found, None)

    def _is_named(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return name in MERGED | ENVIRONMENT or self._reason_for(path, name) is not None

    @cached_property
    def _ways(self) -> frozenset[str]:
        return self._linked.ways({*self.test_files, *self.hidden, *self.run.files})

    def _reasons(self, change: Change, *, is_new: bool) -> Iterator[Reason]:
        above, _, name = change.path.rpartition("/")
        folder = self._folder(above)
        reason = folder.reason or self._reason_for(change.path, name)
        if reason is not None and not (
            reason is Reason.DECIDES and only_describes(change, self.pristine / change.path)
        ):
            yield reason
        if is_new and change.kind != "deleted" and self._node is not None and self._node.comes_first(change.path):
            yield Reason.COMES_FIRST
        if self._is_program(change, is_new=is_new):
            yield Reason.PROGRAM
        inside = self._tests.inside(change.path)
        if inside is not None and self.run.runners.take_for_test(inside):
            yield Reason.OWN_TEST
        if is_new and change.kind == "symlink" and change.path in self.run.above:
            yield Reason.IN_THE_WAY
        if change.kind != "deleted":
            if folder.is_there and self._kept.has(change.path):
                yield Reason.IN_THE_WAY
            if self._reported.are_of(change.path, is_there=not is_new and (self.pristine / change.path).is_file()):
                yield Reason.NAMED_ALIKE
        in_support = folder.in_support or change.path in self._tests.support
        yield from self._tests.reasons(change, in_support=in_support, is_new=is_new)
        if change.kind != "deleted" and (shadows := self._shadowing.reason(change, is_new=is_new)) is not None:
            yield shadows

    def _folder(self, path: str) -> _Folder:
        """What is known of a folder, by what is known of the one above; the work tree's own path is empty."""
        found = self._folders.get(path)
        if found is None:
            above, _, name = path.rpartition("/")
            parent = self._folder(above)
            is_there = parent.is_there and is_folder(self.pristine / path)
            reason = parent.reason or (Reason.DECIDES if name in MERGED else None) or self._reason_for(path, name)
            if reason is None and not is_there and self._shadowing.takes_name(path):
                reason = Reason.SHADOWS
            found = self._folders[path] = _Folder(
                is_there,
                parent.is_blocked or (parent.is_there and not is_there and os.path.lexists(self.pristine / path)),
                parent.in_support or path in self._tests.support,
                reason,
            )
        return found

    @cached_property
    def links(self) -> Links:
        """The task's own links in its work tree."""
        return Links(self.pristine, self.module_path.workdir)

    @cached_property
    def _linked(self) -> Linked:
        return Linked(self.links, self.module_path, self._tests.support, self._is_named)

    @cached_property
    def _folders(self) -> dict[str, _Folder]:
        return {"": _Folder()}

    def _reason_for(self, path: str, name: str) -> Reason | None:
        """Why a path, and whatever stands below it, is the task's own by its name alone."""
        if name in CONFIGURATION or self.run.runs(path):
            return Reason.DECIDES
        if self.run.launched.reads_variables(path, self._tests.above | self._tests.support):
            return Reason.VARIABLES
        if path in self.test_files or path in self.hidden:
            return Reason.TEST_FILE
        if self._remade.leads_to_tests(path):
            return Reason.REMADE
        return Reason.OWN_TEST if self.run.runners.take_for_test(path) else None

    def _is_program(self, change: Change, *, is_new: bool) -> bool:
        is_link = change.kind == "symlink"
        runs = (is_link or change.executable) and self.run.launched.finds(change.path, is_link=is_link, is_new=is_new)
        return runs or change.path in self.run.programs

    @cached_property
    def _tests(self) -> FoldersOfTests:
        return FoldersOfTests(self.module_path, self.test_files, self._collected)

    @property
    def _collected(self) -> frozenset[str]:
        return self.run.collected | frozenset(self.strays.patterns if self.strays is not None else ())

    @cached_property
    def _node(self) -> NodeNames | None:
        is_node = "package.json" in self.run.manifests
        return NodeNames(self.pristine, self.test_files | self.hidden, self._tests) if is_node else None

    @cached_property
    def _remade(self) -> Remade:
        return Remade(self.pristine, self.run, self.test_files | self.hidden, self._tests)

    @cached_property
    def _reported(self) -> ReportedNames:
        return ReportedNames(self.class_names)

    @cached_property
    def _kept(self) -> KeptFolders:
        on_path = frozenset(map(str, self.module_path.certain))
        return KeptFolders(self.pristine, on_path, self.hidden, frozenset(self._tests.above))

    @cached_property
    def _shadowing(self) -> Shadowing:
        own = self.test_files | self.hidden | self.run.files
        tests = self._tests
        return Shadowing(
            pristine=self.pristine,
            path=self.module_path,
            own=own,
            support=tests.support,
            shipped=tests.shipped,
            installed=self.installed,
            run_imports=self.run.imports,
        )
