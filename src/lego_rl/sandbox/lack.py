"""What an error says of a lack, so that nobody else is blamed for it.

Invariant: neither a lack of this process's own nor one that other sandboxes can cause is evidence of anything.
"""

import errno
import os
import subprocess
from collections.abc import Iterator

from lego_rl.errors import SandboxError

_OF_A_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL)
_OF_RIGHTS = (errno.EACCES, errno.EPERM)
_OF_A_MACHINE = (*_OF_A_PROCESS, errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ETOOMANYREFS)
_WORDS = tuple(os.strerror(code).lower() for code in _OF_A_MACHINE)
"""How programs say it that Lego-RL starts, such as bubblewrap, and daemons that it asks."""


class RemoteError(SandboxError):
    """A machine beside this one could not do its part: how busy this one is does not explain it."""


def is_own(error: BaseException) -> bool:
    """Whether this process had no handle, no memory or no right to ask somebody, whose silence is then none."""
    return any(isinstance(each, OSError) and each.errno in (*_OF_A_PROCESS, *_OF_RIGHTS) for each in _chain(error))


def is_of_room(error: BaseException) -> bool:
    """Whether room on the disk, in memory or in the kernel's tables was not enough: all that sandboxes can fill."""
    return any(
        (isinstance(each, OSError) and each.errno in _OF_A_MACHINE) or any(word in str(each).lower() for word in _WORDS)
        for each in _chain(error)
    )


def is_of_time(error: BaseException) -> bool:
    """Whether something of this machine took too long, as everything does where sandboxes keep it busy."""
    return not isinstance(error, RemoteError) and any(
        isinstance(each, TimeoutError | subprocess.TimeoutExpired) for each in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it came from."""
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
