"""A git checkout as a source: its `HEAD`, and the steps that led there.

Invariant: the object files are read, and of the settings the addresses of the remotes, as text: no hook, filter or
setting has a say in what a tree is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dulwich.diff_tree import tree_changes
from dulwich.errors import NotGitRepository
from dulwich.object_store import iter_tree_contents
from dulwich.objects import Blob, Commit, ObjectID
from dulwich.repo import Repo

from lego_rl.errors import TaskError
from lego_rl.tasks.make.origin import remotes_of
from lego_rl.tasks.make.tree import Step, Tree, bounded, is_code, is_kept, is_test

_REGULAR = frozenset({0o100644, 0o100755, 0o100664})


def is_checkout(path: Path) -> bool:
    """Whether a folder is a work tree of git."""
    return (path / ".git").exists()


@dataclass(frozen=True)
class Checkout:
    """See `Source`. What is not committed does not count.

    Attributes:
        name: The folder's name.
        head: Id of the commit that is checked out.
        remotes: Addresses of where it was cloned from.
        distribution: Of none.
    """

    name: str
    head: ObjectID
    _repo: Repo
    remotes: tuple[str, ...] = ()
    distribution: str = ""

    @classmethod
    def open(cls, path: Path) -> "Checkout":
        """Open a work tree.

        Raises:
            TaskError: It is none, or has no commit.
        """
        try:
            repo = Repo(str(path))
            return cls(path.resolve().name, repo.head(), repo, remotes_of(Path(repo.commondir())))
        except NotGitRepository as error:
            raise TaskError(f"{path} is no git work tree: {error}", "name the top folder of a checkout") from error
        except KeyError as error:
            raise TaskError(f"{path} has no commit", "commit something first") from error

    @property
    def label(self) -> str:
        """See `Source`."""
        return self.head.decode()[:12]

    def newest(self) -> Tree:
        """See `Source`; links and submodules are left out."""
        return self._tree(self._commit(self.head))

    def steps(self) -> Iterator[Step]:
        """See `Source`: the commits of the first parents' line that touch both code and tests."""
        here = self.head
        while True:
            try:
                commit = self._commit(here)
                if not commit.parents:
                    return
                before = self._commit(commit.parents[0])
            except KeyError:  # a shallow clone ends here
                return
            if self._touches_both(before, commit):
                yield Step(before.id.decode()[:12], here.decode()[:12], self._tree(before), self._tree(commit))
            here = commit.parents[0]

    def _commit(self, id_: ObjectID) -> Commit:
        found = self._repo.object_store[id_]
        if not isinstance(found, Commit):
            raise KeyError(id_)
        return found

    def _touches_both(self, before: Commit, after: Commit) -> bool:
        changes = tree_changes(self._repo.object_store, before.tree, after.tree)
        sides = (side for change in changes for side in (change.old, change.new) if side is not None)
        paths = {side.path.decode(errors="replace") for side in sides if side.path is not None}
        return any(map(is_code, paths)) and any(map(is_test, paths))

    def _tree(self, commit: Commit) -> Tree:
        return bounded(self._files(commit), f"commit {commit.id.decode()[:12]} of {self.name}")

    def _files(self, commit: Commit) -> Iterator[tuple[str, bytes]]:
        for entry in iter_tree_contents(self._repo.object_store, commit.tree):
            path = entry.path.decode("utf-8", errors="replace")
            if entry.mode in _REGULAR and is_kept(path) and "�" not in path:
                blob = self._repo.object_store[entry.sha]
                if isinstance(blob, Blob):
                    yield path, blob.as_raw_string()
