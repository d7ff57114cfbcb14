"""How live objects reach an agent that Harbor makes from an import path.

Harbor writes an agent's keyword arguments into its configuration files, so they hold nothing but an unguessable key,
and the objects stay in this process. A key is good for exactly as long as its trial runs.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

_LIVE: dict[str, object] = {}


@contextmanager
def published(trial: object) -> Iterator[str]:
    """Make an object reachable by the key that is yielded, until the block ends."""
    key = secrets.token_urlsafe(24)
    _LIVE[key] = trial
    try:
        yield key
    finally:
        del _LIVE[key]


def reach[T](key: str, kind: type[T]) -> T:
    """The object published under a key.

    Raises:
        LookupError: No running trial has this key, or it published another kind of object.
    """
    trial = _LIVE.get(key)
    if not isinstance(trial, kind):
        raise LookupError("no running trial of this process has this key")
    return trial
