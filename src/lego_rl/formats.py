"""Numbers of the formats that files are written in, so that no version of this package misreads those of another.

Invariant: whoever reads a numbered file asks here first. A file of another number, or of none, is refused and nothing
in it guessed at; a change of what a file means is a new number.
"""

from pathlib import Path

from lego_rl.errors import RunError


def check_format(file: Path, found: object, known: int) -> None:
    """Refuse a file of another format.

    Args:
        file: The file.
        found: The number in it; ``None`` if there is none.
        known: The number that is read here.

    Raises:
        RunError: They differ.
    """
    if found == known and type(found) is int:
        return
    if found is None:
        raise RunError(
            f"{file} has no format number: it was written before there were any",
            "read it with the version of lego-rl that wrote it",
        )
    newer = isinstance(found, int) and found > known
    raise RunError(
        f"{file} has format {found!r}, this version of lego-rl reads {known}",
        "update lego-rl" if newer else "read it with the version of lego-rl that wrote it",
    )
