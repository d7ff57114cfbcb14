"""Runs in a sandbox: which modules the Pythons that may run the tests find installed. Any Python from 3.6 on.

Asked is what `PATH` and the task's own words name, and every virtual environment of the image. A Python of the host's
that is merely there runs no test, and what it has installed says nothing.

Reads from its input what is asked (`Search` in `installed` writes it) and prints the names that it found.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NOT_SEARCHED = ("/proc", "/sys", "/dev")
PACKAGES = ("site-packages", "dist-packages")
SUFFIXES = (".py", ".pyc", ".so")
MARKS = ("pyvenv.cfg", "conda-meta")
"""What the folder of a virtual environment has in it."""
PROGRAM = re.compile(r"(?:python|pypy)[0-9.]*")
MAX_PROGRAMS = 64
SECONDS = 10
"""For one of them to say where it looks."""


def environments(skipped: "list[str]", top: str = "/") -> "Iterator[str]":
    """Every folder below one that is a virtual environment, but for those in some folders."""
    waiting = [top]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.name in MARKS:
                yield os.path.dirname(entry.path)  # noqa: PTH120  # Nothing but the text is wanted.
            if entry.is_dir(follow_symlinks=False) and entry.path not in skipped:
                waiting.append(entry.path)


def programs(words: "list[str]", found: "list[str]") -> "Iterator[str]":
    """Paths of Pythons: what is called first, what words name, and those of environments."""
    named = ["python", "python3", *(word for word in words if PROGRAM.fullmatch(word))]
    yield from filter(None, map(shutil.which, named))
    paths = [word for word in words if word.startswith("/")]
    yield from (path for path in paths if PROGRAM.fullmatch(Path(path).name) and shutil.which(path))
    for place in (*(str(Path(each, "bin")) for each in found), *paths):
        yield from filter(None, (shutil.which(name, path=place) for name in ("python", "python3")))


def path_of(program: str, workdir: str) -> "list[str]":
    """Where a Python looks for modules; nothing where it does not say."""
    argv = [program, "-B", "-c", "import json, sys; print(); print(json.dumps([each for each in sys.path if each]))"]
    try:
        done = subprocess.run(  # It is the task's own, and nothing of an agent's is there yet.
            argv, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False
        )
        return list(json.loads(done.stdout.decode(errors="replace").strip().rpartition("\n")[2]))
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def packages_in(environment: str) -> "Iterator[str]":
    """The folders of packages of an environment, whose own Python may be missing, and what their path files name."""
    for folder in sorted(Path(environment).glob("lib*/python*/*-packages")):
        yield str(folder)
        yield from named_in(str(folder))


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


def main(names: "list[str]", words: "list[str]", workdir: str, skipped: "list[str]") -> None:
    """Print what there is of the modules that are asked for, outside of the sources of the work tree.

    Args:
        names: Dotted names of modules.
        words: What may name a Python: programs and absolute paths.
        workdir: The work tree, of which only folders of installed packages count.
        skipped: Folders of the host's, in which no virtual environment is the task's.
    """
    found = list(environments([*NOT_SEARCHED, *skipped]))
    asked = list(dict.fromkeys(programs(words, found)))[:MAX_PROGRAMS]
    folders = [folder for program in asked for folder in path_of(program, workdir)]
    folders += [folder for environment in found for folder in packages_in(environment)]
    own = f"{workdir.rstrip('/')}/"

    def is_source(folder: str) -> bool:
        return f"{os.path.realpath(folder)}/".startswith(own) and not set(PACKAGES).intersection(folder.split("/"))

    folders = [folder for folder in dict.fromkeys(folders) if not is_source(folder)]
    print(json.dumps([name for name in names if any(has(folder, name) for folder in folders)]))


if __name__ == "__main__":
    main(**json.load(sys.stdin))
