"""A task of an evaluation set, as far as its set says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReferenceTask:
    """A task that must not be trained on.

    Attributes:
        instance_id: Its id.
        repo: ``owner/name`` as its set spells it.
        base_commit: Full or short.
        pull_request: Its number.
        image: Of its environment.
        issue: Its issue text.
        patch: Its gold patch.
    """

    instance_id: str
    repo: str | None = None
    base_commit: str | None = None
    pull_request: int | None = None
    image: str | None = None
    issue: str | None = None
    patch: str | None = None
