"""Runs in a sandbox: which modules its packages hold, wherever in the file system these are. Any Python from 3.6 on.

Reads a list of dotted names from its input and prints those that it found; its argument is the work tree, of which only
a virtual environment counts.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

NOT_SEARCHED = ("/proc", "/sys", "/dev")
PACKAGES = ("site-packages", "dist-packages")
SUFFIXES = (".py", ".pyc", ".so")


def package_folders(top: str) -> "Iterator[str]":
    """Every folder of installed packages below `top`."""
    waiting = [top]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and entry.path not in NOT_SEARCHED:
                waiting.append(entry.path)
                if entry.name in PACKAGES:
                    yield entry.path


def named_in(folder: str) -> "Iterator[str]":
    """Folders that the path files of a folder of packages name."""
    for name in names_in(folder):
        if name.endswith(".pth"):
            try:
                lines = Path(folder, name).read_text(errors="replace").splitlines()
            except OSError:
                continue
            yield from (str(Path(folder, line.strip())) for line in lines if not line.startswith("import"))


def names_in(folder: str) -> "list[str]":
    """What a folder has in it; nothing where it cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208  # Nothing but the names is wanted.
    except (OSError, ValueError):
        return []


def has(folder: str, dotted: str) -> bool:
    """Whether a module or package can be imported from a folder."""
    above, _, last = dotted.replace(".", "/").rpartition("/")
    names = names_in(str(Path(folder, above)))
    return any(name == last or (name.startswith(f"{last}.") and name.endswith(SUFFIXES)) for name in names)


def main(workdir: str) -> None:
    """Print what there is of the modules that are asked for."""
    packages = list(package_folders("/"))
    more = [folder for path in packages for folder in named_in(path)] + [folder for folder in sys.path if folder]
    own = f"{workdir.rstrip('/')}/"
    folders = packages + [folder for folder in more if not f"{os.path.realpath(folder)}/".startswith(own)]
    print(json.dumps([name for name in json.load(sys.stdin) if any(has(folder, name) for folder in folders)]))


if __name__ == "__main__":
    main(sys.argv[1])
