"""How much programs of this machine had to wait for each other.

Source: the kernel's Documentation/accounting/psi.rst. In each file ``some`` has the microseconds in which at least one
program waited for a processor, for a disk or for memory.
"""

import time
from pathlib import Path

FILES = tuple(Path("/proc/pressure", name) for name in ("cpu", "io", "memory"))
LOW = 0.2
"""Share of the time. A program that has everything to itself for the rest of it is not kept from its work by others."""


class Pressure:
    """The pressure since it was made."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._before = _waited()

    def was_low(self) -> bool:
        """Whether nothing of the machine was scarce; not where the kernel does not say."""
        after = _waited()
        if self._before is None or after is None:
            return False
        seconds = time.monotonic() - self._since
        return all(now - then < LOW * seconds for then, now in zip(self._before, after, strict=True))


def _waited() -> list[float] | None:
    """Seconds in which somebody waited, of each of `FILES`; ``None`` where the kernel does not say."""
    try:
        return [int(path.read_text().partition("total=")[2].split()[0]) / 1e6 for path in FILES]
    except (OSError, IndexError, ValueError):
        return None
