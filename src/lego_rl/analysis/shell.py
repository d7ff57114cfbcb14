"""What a shell command does: it is split into simple commands, and each is known by its program.

Invariant: which programs do what is data (``tools/shell.toml``). What only filters another command's output does
nothing by itself, and neither does what is not known.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from lego_rl.analysis.actions import Action, Kind, edit
from lego_rl.analysis.words import SimpleCommand, simple_commands
from lego_rl.documents import read_toml
from lego_rl.settings import Settings

_MOST_DEPTH = 4
"""Shells within shells that are looked into."""
_MOST_KEPT = 1_024
"""Commands whose actions are kept."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_NUMBER = re.compile(r"[\d.]+[smhd]?\Z")
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.MULTILINE)
_DIFFED = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
_WRITES = re.compile(
    r"""open\(\s*(?:r?['"]([^'"]+)['"]|[^,()]+)\s*,\s*(?:mode\s*=\s*)?['"][wax]|\.write_(?:text|bytes)\("""
)
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_tests?|tests?|runtests)\.(?:py|sh|js|ts|mjs|rb)\Z")
_SHELLS = {"bash", "sh", "zsh", "dash", "ash"}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")
_SCRIPT_FIRST = {"sed", "awk", "gawk"}
"""Their first argument is a program of their own."""


class Programs(Settings):
    """What programs do; ``tools/shell.toml``."""

    read: frozenset[str]
    """They show a file."""
    search: frozenset[str]
    """They look for files, or for text in files."""
    edit: frozenset[str]
    """They write the files that they name."""
    test: frozenset[str]
    """They run tests."""
    not_a_test: frozenset[str]
    """Arguments with which they do not."""
    before: frozenset[str]
    """They run the program that follows."""
    before_after_word: frozenset[str]
    """Likewise, with a subcommand."""


@cache
def programs() -> Programs:
    """The table."""
    text = (files("lego_rl.analysis") / "tools" / "shell.toml").read_text(encoding="utf-8")
    return Programs.model_validate(read_toml(text))


@lru_cache(_MOST_KEPT)
def shell_actions(command: str) -> tuple[Action, ...]:
    """Everything that a command does that is known, in order; empty if nothing is. Agents give many commands twice."""
    return tuple(_actions(command, "", _MOST_DEPTH))


def patched_files(patch: str) -> list[str]:
    """The files of a patch, in the form of ``apply_patch`` or of ``diff -u``."""
    return _PATCHED.findall(patch) or [path for path in _DIFFED.findall(patch) if path != "/dev/null"]


def _actions(command: str, folder: str, depth: int) -> Iterator[Action]:
    for each in simple_commands(command):
        words = _program(each.words)
        if words[:1] == ["cd"]:
            folder = posixpath.join(folder, words[1]) if len(words) > 1 else folder
            continue
        if depth and words and posixpath.basename(words[0]) in _SHELLS:
            script = _after_option(words, "c")
            if script is not None or each.document:
                yield from _actions(script if script is not None else each.document, folder, depth - 1)
                continue
        for action in _of_program(each, words):
            relative = action.path and not action.path.startswith(("/", "~"))
            yield Action(
                action.kind, posixpath.normpath(posixpath.join(folder, action.path)) if relative else action.path
            )


def _program(words: Sequence[str]) -> list[str]:
    """A command without assignments and without programs that only run another."""
    known, rest = programs(), list(words)
    while rest:
        if _ASSIGNMENT.match(rest[0]):
            del rest[0]
        elif " ".join(rest[:2]) in known.before_after_word:
            del rest[:2]
        elif rest[0] in known.before:
            del rest[0]
            while rest and (rest[0].startswith("-") or _NUMBER.match(rest[0])):
                del rest[0]
        else:
            break
    return rest


def _of_program(command: SimpleCommand, words: Sequence[str]) -> Iterator[Action]:
    yield from map(edit, command.written)
    if not words:
        return
    name, rest = posixpath.basename(words[0]), list(words[1:])
    if _PYTHON.match(name) or name == "coverage":
        yield from _of_python(command, rest)
        return
    pair = f"{name} {next(_plain(rest), '')}"
    known = programs()
    in_place = name in {"sed", "perl"} and any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in rest)
    if pair in known.edit or name in known.edit or in_place:
        paths = _edited(name, rest, command.document)
        yield from map(edit, paths) if paths else [Action(Kind.EDIT)]
    elif pair in known.test or name in known.test or _TEST_FILE.search(words[0]):
        if not known.not_a_test.intersection(rest):
            yield Action(Kind.TEST)
    elif (pair in known.search or name in known.search) and not command.piped:
        yield Action(Kind.SEARCH)
    elif name in known.read and not command.written:
        yield from (Action(Kind.READ, path) for path in _read(name, rest))


def _of_python(command: SimpleCommand, rest: list[str]) -> Iterator[Action]:
    """Python runs a module, a file, a text or a here-document."""
    while rest and rest[0].startswith("-") and rest[0] not in {"-m", "-c", "-"}:
        del rest[: 2 if rest[0] in {"-W", "-X"} else 1]
    match rest:
        case ["run", *further]:  # coverage run
            yield from _of_python(command, further)
        case ["-m", module, *arguments]:
            if module == "coverage":
                yield from _of_python(command, arguments)
            elif programs().test.intersection({module, f"{module} {next(_plain(arguments), '')}"}):
                yield from [] if programs().not_a_test.intersection(arguments) else [Action(Kind.TEST)]
        case ["-c", text, *_]:
            yield from _written_by(text)
        case [path, *arguments] if path != "-":
            script = posixpath.basename(path)
            names = {script, f"{script} {next(_plain(arguments), '')}"}
            if _TEST_FILE.search(path) or programs().test.intersection(names):
                yield Action(Kind.TEST)
        case _:
            yield from _written_by(command.document)


def _written_by(script: str) -> Iterator[Action]:
    """The file that a script in Python opens to write, where it does."""
    found = _WRITES.search(script)
    if found is not None:
        yield edit(found[1] or "")


def _edited(name: str, rest: Sequence[str], document: str) -> list[str]:
    if name in {"apply_patch", "applypatch"}:
        return patched_files("\n".join([*rest, document]))
    if name in {"patch", "git"}:
        return patched_files(document)
    plain = list(_plain(rest))
    return plain[1:] if name in {"sed", "perl"} else plain  # the first is what they are to do


def _read(name: str, rest: Sequence[str]) -> list[str]:
    """The files that a command shows; none where it shows another command's output."""
    plain = list(_plain(rest))
    if name in _SCRIPT_FIRST:
        return plain[1:]
    return [word for word in plain if not _NUMBER.match(word)]


def _plain(words: Iterable[str]) -> Iterator[str]:
    """Arguments that are no options."""
    return (word for word in words if word and not word.startswith(("-", "+")))


def _after_option(words: Sequence[str], letter: str) -> str | None:
    """What follows an option of one letter, alone or among others."""
    for at, word in enumerate(words[:-1]):
        if re.match(rf"-[a-z]*{letter}\Z", word):
            return words[at + 1]
    return None
