"""What may stand in the files of a task: rules for texts that programs are given, for paths, and for keys.

Each raises `ValueError` with what is wrong, and gives back what it was given.
"""

import difflib

PROTECTING = ("editable", "visible", "base_commit", "history", "grading_history", "verifier_ports")
"""Keys of ``[metadata]`` that decide what an agent may see and what grading keeps."""
MAX_NAME_BYTES, MAX_PATH = 255, 2_048
MISSPELT = 0.85
"""How alike a key has to be to one of these to count as that, misspelt (0 to 1)."""


def passable(text: str) -> str:
    """A text that a program can be given, as an argument or in its environment."""
    if "\0" in text:
        raise ValueError("no program can be given a text with a null character")
    return text


def variable(name: str) -> str:
    """The name of an environment variable."""
    if not name or "=" in name:
        raise ValueError(f"{name!r} is no name of a variable")
    return passable(name)


def plain(path: str) -> str:
    """A path below the work directory, of a length that file systems have."""
    if max(len(part.encode(errors="replace")) for part in path.split("/")) > MAX_NAME_BYTES or len(path) > MAX_PATH:
        raise ValueError(f"{path[:80]!r}… is longer than the path of a file")
    if path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"{path!r} is not a path below the work directory")
    return passable(path)


def folder(path: str) -> str:
    """An absolute path that names a folder as it is."""
    if not path.startswith("/") or not {".", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"{path!r} is no absolute path without . and ..")
    return passable(path)


def literal(value: str) -> str:
    """The value of a variable, written out."""
    if "${" in value:
        raise ValueError("it takes a value from this machine, which tested code could read; write the value out")
    return passable(value)


def spelt(metadata: object) -> object:
    """A table of keys none of which looks like one of `PROTECTING`: ``[metadata]`` is anybody's, and what is unknown in
    it means nothing, so that one letter too many would leave out what it was to say."""
    for key in metadata if isinstance(metadata, dict) else ():
        near = [] if key in PROTECTING else difflib.get_close_matches(key, PROTECTING, n=1, cutoff=MISSPELT)
        if near:
            raise ValueError(f"{key} means nothing there: did you mean {near[0]}?")
    return metadata
