"""Configuration files that hold more than how tests run: the task's own sections stay, the rest is the agent's.

Invariant: what is merged holds, for every reader of the file, exactly the pristine sections that decide which tests run
and how. What cannot be read, or read in two ways, is the pristine file. So an honest change of dependencies, of package
data or of a linter counts, and one of ``addopts`` does not.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import tomli_w

from lego_rl.sandbox.ownership.known.deciding_files import INI_FILES, TOML_FILES
from lego_rl.sandbox.ownership.merge.installed_parts import OPTIONS, SECTIONS, TABLES, at, is_own_value, tables_in
from lego_rl.sandbox.ownership.merge.manifests import MANIFESTS, ManifestError
from lego_rl.sandbox.ownership.merge.manifests import merged as merge_manifest
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.ownership.texts.ini_texts import (
    Sections,
    UnreadableError,
    ini_text,
    lines,
    read_iniconfig,
    read_standard,
    values_of,
    write_ini,
)
from lego_rl.sandbox.ownership.texts.toml_keys import read_toml
from lego_rl.sandbox.verdict import Change

MAX_BYTES = 1 << 17
"""Of a configuration file that is merged; a larger one is rolled back."""
MAX_LINE_BYTES = 2_000
"""Of a line of an INI file before its ``=``: to find that takes a time that grows with the square of them."""
MAX_ALL_BYTES = 1 << 19
"""Of all such files of a patch together; what is beyond is rolled back. Reading them ends with no timeout."""

_PYTESTS_ALONE = frozenset({"pytest.ini", ".pytest.ini"})
"""Files that end pytest's search for its options, whatever is in them."""
_OWN_SECTIONS = SECTIONS | {"pytest", "tool:pytest", "aliases", "nosetests", "tool:nose", "DEFAULT"}
_OWN_SECTION_STARTS = ("tox", "testenv", "coverage:", "pytest", "tool:pytest")
_OWN_OPTIONS = OPTIONS | {("options.entry_points", "pytest11")}
_OWN_TABLES = (
    *TABLES,
    ("tool", "tox"), ("tool", "coverage"), ("tool", "nox"), ("tool", "poe"), ("tool", "taskipy"),
    ("tool", "hatch", "envs"), ("tool", "pdm", "scripts"), ("tool", "rye", "scripts"), ("tool", "pixi", "tasks"),
    ("project", "entry-points", "pytest11"), ("tool", "poetry", "plugins", "pytest11"),
)  # fmt: skip


type _Table = dict[str, object]


def merge_all(
    changes: Sequence[Change], pristine: Path, read_as: Mapping[str, str]
) -> dict[str, tuple[Change | None, Reason | None]]:
    """`merge` for every changed configuration file of a patch, by path.

    There is room for so much: first for files that the task has, then for the smallest new ones.

    Args:
        changes: Of files that are read by a name in `MERGED` or `MANIFESTS`.
        pristine: The pristine work tree.
        read_as: Path of each → the path by which it is read: its own, or that of a link that leads to it.

    Raises:
        OSError: A file of the task cannot be read.
    """
    left, merged = MAX_ALL_BYTES, dict[str, tuple[Change | None, Reason | None]]()
    places = {change.path: pristine / change.path for change in changes}
    own = {path for path, place in places.items() if place.is_file() and not place.is_symlink()}
    for change in sorted(changes, key=lambda each: (each.path not in own, len(each.content), each.path)):
        if len(change.content) > left:
            merged[change.path] = None, Reason.TOO_MUCH
            continue
        left -= len(change.content)
        content = places[change.path].read_bytes() if change.path in own else None
        part, reason = merge(replace(change, path=read_as[change.path]), content)
        merged[change.path] = part and replace(part, path=change.path), reason
    return merged


def merge(change: Change, pristine: bytes | None) -> tuple[Change | None, Reason | None]:
    """Merge a changed configuration file with the pristine one.

    Args:
        change: The agent's change of a file whose name is in `MERGED` or `MANIFESTS`.
        pristine: The file as the task has it; ``None`` where it has none.

    Returns:
        The change to apply, ``None`` for none, and why something of it is rolled back, ``None`` for nothing.
    """
    if change.kind == "symlink":
        return None, Reason.DECIDES
    content = b"" if change.kind == "deleted" else change.content
    name = change.path.rpartition("/")[2]
    read = ini_text if name in INI_FILES else _text
    try:
        _check_size(content, MAX_LINE_BYTES if name in INI_FILES else MAX_BYTES)
        merged = _merge_text(name, read(pristine or b""), read(content))
        kept = b"" if merged is None else merged.encode(errors="surrogateescape")
    except (UnreadableError, ManifestError, UnicodeEncodeError):  # JSON can say half a character, which no file can
        return None, Reason.UNREADABLE
    if merged is None:
        return change, None
    if pristine is not None and merged == read(pristine):
        return None, Reason.DECIDES
    return replace(change, kind="file", content=kept), Reason.DECIDES_IN_PART


def _merge_text(name: str, pristine: str, changed: str) -> str | None:
    if name in MANIFESTS:
        return merge_manifest(name, pristine, changed)
    return (_merge_toml if name in TOML_FILES else _merge_ini)(pristine, changed)


def _check_size(content: bytes, line_bytes: int) -> None:
    """Whether what an agent wrote is read at all; what the task has is read whatever its size."""
    names = (re.split(rb"[=:]", line, maxsplit=1)[0] for line in content.splitlines())
    if len(content) > MAX_BYTES or any(len(name) > line_bytes for name in names):
        raise UnreadableError("it is too large")


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(str(error)) from error


def _merge_ini(pristine: str, changed: str) -> str | None:
    """The merged text; ``None`` where the changed one has the pristine sections as it is."""
    readers = (read_standard, read_iniconfig)
    wanted = [_own_sections(read(pristine)) for read in readers]
    if [_own_sections(read(changed)) for read in readers] == wanted:
        return None
    sections = values_of(changed)
    kept: Sections = {
        name: {key: value for key, value in options.items() if not _is_own_option(name, key, lines(value))}
        for name, options in sections.items()
        if not _is_own_section(name)
    }
    values = values_of(pristine)
    for name, options in _own_sections(read_standard(pristine)).items():
        kept.setdefault(name, {}).update({key: values[name][key] for key in options})
    text = write_ini(kept)
    if [_own_sections(read(text)) for read in readers] != wanted:
        raise UnreadableError("its readers do not agree")
    return text


def _is_own_section(name: str) -> bool:
    return name in _OWN_SECTIONS or name.startswith(_OWN_SECTION_STARTS)


def _is_own_option(section: str, option: str, value: str) -> bool:
    is_named = _is_own_section(section) or (section, option) in _OWN_OPTIONS
    return is_named or is_own_value(section, option, value)


def _own_sections(sections: Sections) -> Sections:
    own = {
        name: {key: value for key, value in options.items() if _is_own_option(name, key, value)}
        for name, options in sections.items()
    }
    return {name: options for name, options in own.items() if options or _is_own_section(name)}


def _merge_toml(pristine: str, changed: str) -> str | None:
    """The merged text; ``None`` where the changed one has the pristine tables as it is."""
    wanted, document = read_toml(pristine), read_toml(changed)
    own = _own_tables(wanted)
    if _own_tables(document) == own:
        return None
    for path in _own_tables(document):
        _remove(document, path)
    for path, table in own.items():
        _place(document, path, table)
    try:
        return tomli_w.dumps(document)
    except (ValueError, TypeError, RecursionError) as error:
        raise UnreadableError(str(error)) from error


def _own_tables(document: _Table) -> Mapping[tuple[str, ...], object]:
    tool = document.get("tool")
    pytest_tables = [("tool", name) for name in tool if name.startswith("pytest")] if isinstance(tool, dict) else []
    found = {path: at(document, path) for path in (*pytest_tables, *tables_in(document), *_OWN_TABLES)}
    return {path: table for path, table in found.items() if table is not None}


def _remove(document: _Table, path: tuple[str, ...]) -> None:
    parent = at(document, path[:-1])
    if isinstance(parent, dict):
        del parent[path[-1]]


def _place(document: _Table, path: tuple[str, ...], table: object) -> None:
    here = document
    for name in path[:-1]:
        inner = here.setdefault(name, {})
        if not isinstance(inner, dict):
            raise UnreadableError(f"{name} is no table")
        here = inner
    here[path[-1]] = table


def pytest_options(name: str, content: bytes) -> Mapping[str, str] | None:
    """pytest's options in a configuration file, lists as words; ``None`` where it is a file for others.

    Raises:
        UnreadableError: It is none.
    """
    text = _text(content)
    if not name.endswith(".toml"):
        sections = read_iniconfig(text)
        found = sections.get("tool:pytest" if name == "setup.cfg" else "pytest")
        return {} if found is None and name in _PYTESTS_ALONE else found
    document = read_toml(text)
    table = at(document, ("tool", "pytest")) if name == "pyproject.toml" else document.get("pytest", document)
    if table is None:
        return None
    options = table.get("ini_options", table) if isinstance(table, dict) else {}
    if not isinstance(options, dict):
        return {}
    return {
        key: " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for key, value in options.items()
        if not isinstance(value, dict)
    }


def packaging_options(content: bytes) -> Mapping[str, Mapping[str, str]]:
    """What ``setup.cfg`` says of packages; nothing where it describes none.

    Raises:
        UnreadableError: It is no such file.
    """
    sections = read_standard(_text(content))
    return {
        name: options if name.startswith("options") else {}
        for name, options in sections.items()
        if name == "metadata" or name.startswith("options")
    }
