"""What is the task's own because a link of the task's leads to it.

Invariant: a place is the task's own behind a link where it would be at the place of the link. But what a folder of
tests links of the product, so that tests can import or read it, stays the product's.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from lego_rl.sandbox.ownership.links import Links
from lego_rl.sandbox.ownership.modules.module_path import ModulePath


@dataclass(frozen=True)
class Linked:
    """Decides for one task.

    Attributes:
        links: The links of its work tree.
        module_path: Where modules of the test run can lie.
        support: Folders of tests and what they use.
        is_named: Whether a path is the task's own by its name, wherever it is.
    """

    links: Links
    module_path: ModulePath
    support: frozenset[str]
    is_named: Callable[[str], bool]

    def aliases(self, path: str) -> Iterator[str]:
        """Paths by which the task reaches a path as its own, or as what it is for everybody."""
        yield from (each for each in self.links.aliases(path) if not self._is_linked_product(each, path))

    def ways(self, owned: Iterable[str]) -> frozenset[str]:
        """Links that lead to what is the task's own, and the folders in which that lies.

        Args:
            owned: Paths of the task's own, with links among the folders above them.
        """
        if not self.links.all:
            return frozenset()
        named = (link for link in self.links.all if self.is_named(link) or is_below_any(link, self.support))
        return frozenset(way for path in {*owned, *self.support, *named} for way in self.links.on_the_way(path))

    def _is_linked_product(self, alias: str, path: str) -> bool:
        if is_below_any(path, self._real_support) or not is_below_any(alias, self.support) or self.is_named(alias):
            return False
        return self.module_path.is_product(path)

    @cached_property
    def _real_support(self) -> frozenset[str]:
        """Where the folders of tests are, if one of them is a link."""
        return frozenset(self.links.behind(f"{folder}/x").removesuffix("/x") for folder in self.support)


def is_at_or_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; ``.`` is the work tree."""
    return folder in (".", path) or path.startswith(f"{folder}/")


def is_below_any(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders or lies in one."""
    return any(is_at_or_below(path, folder) for folder in folders)
