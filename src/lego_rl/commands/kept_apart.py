"""What a command reads and what it writes are different files, whatever they are called.

Invariant: a command that was given a file to read never writes it, nor two results into one: both are refused before
anything is read. What is read and what is written are the same by their path, by a link, or by letter case where the
disk does not tell it; two results are also the same where they differ in letter case alone, on any disk. Nor is
anything written into a folder of which everything is read: the next run would read it back.
"""

import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from lego_rl.errors import ConfigError

_INDEX = ".parquet"
"""Results that may lie in the folder of a run: nothing reads them there."""


def keep_apart(read: Sequence[Path], written: Mapping[str, Path | None], whole: Sequence[Path] = ()) -> None:
    """See that nothing that is read is written, and nothing is written twice.

    Args:
        read: Files, pools, task and run directories that the command is given.
        written: Option → what it has the command write; ``None`` where it was not given.
        whole: Those of `read` of which every file is read, wherever it lies, where they are folders.

    Raises:
        ConfigError: Two are the same, or something would be written into a task directory, over a file of a run, or
            into a folder that is read as a whole.
    """
    given = {option: path for option, path in written.items() if path is not None}
    for option, path in given.items():
        for source in read:
            if _is_same(path, source):
                raise ConfigError(
                    f"{option} {path} is {source}, which is read", "name another place for what is written"
                )
            if (holder := _holder(path, source)) is not None:
                raise ConfigError(f"{option} {path} is of {holder}, which is read", "name a place outside of it")
        for folder in whole:
            if any(_is_same(above, folder) for above in Path(_name(path)).parents):
                raise ConfigError(
                    f"{option} {path} lies in {folder}, all of which is read", "name a place outside of it"
                )
    for (one, path), (other, second) in combinations(given.items(), 2):
        if _is_same(path, second) or _name(path).casefold() == _name(second).casefold():
            raise ConfigError(f"{one} {path} and {other} {second} are one file", "name another file for each")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return _name(one) == _name(other)


def _name(path: Path) -> str:
    return os.path.realpath(path)


def _holder(path: Path, source: Path) -> Path | None:
    """What is read at `source`, or below it, that a file belongs to: a task directory, or a run."""
    folder = Path(_name(source))
    for above in Path(_name(path)).parents:
        if not above.is_relative_to(folder):
            return None
        is_run = (above / "journal").is_file() and path.is_file() and path.suffix != _INDEX
        if is_run or (above / "task.toml").is_file():
            return above
    return None
