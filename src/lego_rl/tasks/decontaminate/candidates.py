"""What is compared: every task of an index, and every task of a reference, by all that it says of where it comes from.

Invariant: nothing that a task says is overruled by something else that it says. If its id, its image or its column
names a repository, it is of that repository as far as contamination goes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from lego_rl.tasks.decontaminate.names import Name, id_readings, image_readings
from lego_rl.tasks.decontaminate.normal import issue_digest, patch_digest
from lego_rl.tasks.decontaminate.reference_task import ReferenceTask
from lego_rl.tasks.decontaminate.repositories import canonical, flat
from lego_rl.tasks.index.file import Index


@dataclass(frozen=True)
class Origin:
    """Where one task says that it comes from.

    Attributes:
        instance_id: Its id.
        repo: Its column.
        base_commit: Its column.
        pull_request: Its column.
        image: Its column.
        issue_digest: Of its issue text's words.
        patch_digest: Of the lines that its patch changes.
    """

    instance_id: str
    repo: str | None = None
    base_commit: str | None = None
    pull_request: int | None = None
    image: str | None = None
    issue_digest: str | None = None
    patch_digest: str | None = None

    @cached_property
    def id_names(self) -> tuple[Name, ...]:
        """What its id says, in every way to read it."""
        return id_readings(self.instance_id)

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """The same, and what the name of its image says."""
        return self.id_names + (image_readings(self.image) if self.image else ())

    @cached_property
    def repositories(self) -> frozenset[str]:
        """Canonical names of every repository that it names."""
        said = {name.repository for name in self.names} | {canonical(self.repo) if self.repo else None}
        return frozenset(name for name in said if name)

    @cached_property
    def flat(self) -> frozenset[str]:
        """The same without a sign between owner and name, and those of which no more is known."""
        return frozenset({name.flat for name in self.names if name.flat} | set(map(flat, self.repositories)))

    @cached_property
    def commits(self) -> frozenset[str]:
        """Every commit that it names, full or short, in small letters."""
        said = {self.base_commit.strip().lower() if self.base_commit else None} | {name.commit for name in self.names}
        return frozenset(commit for commit in said if commit)

    @cached_property
    def numbers(self) -> frozenset[int]:
        """Every number of a pull request or an issue that it names."""
        return frozenset(n for n in (self.pull_request, *(name.number for name in self.names)) if n is not None)

    @property
    def is_placed(self) -> bool:
        """Whether it names a repository at all."""
        return bool(self.flat)


def origins_of(index: Index) -> list[Origin]:
    """``[tasks]`` of an index."""
    names = ("repo", "base_commit", "pull_request", "image", "issue_digest", "patch_digest")
    columns = [index.column(name).to_pylist() for name in names]
    return [Origin(*row) for row in zip(index.ids, *columns, strict=True)]


def origins_of_reference(tasks: Iterable[ReferenceTask]) -> Sequence[Origin]:
    """``[tasks]`` of a reference."""
    return [
        Origin(
            task.instance_id,
            task.repo,
            task.base_commit,
            task.pull_request,
            task.image,
            None if task.issue is None else issue_digest(task.issue),
            None if task.patch is None else patch_digest(task.patch),
        )
        for task in tasks
    ]
