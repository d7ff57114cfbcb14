"""What a row's script may not do: apply a patch, write what the row's patches change, run what nobody can see.

Invariant: a command is let pass only where it can be told. Git may read and configure, and no more; patch may not run,
whatever runs it; what a shell is given to run is looked at as the script is, and where that is made while it runs, the
row is refused. What other programs do inside, those of the repository above all, is not looked at: that is measured by
``lego-rl tasks validate``.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import PurePosixPath

from lego_rl.tasks.convert import shell_programs as programs
from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.convert.shell_scanner import read_script
from lego_rl.tasks.convert.shell_words import Command, Line, Word


class Forbidden:
    """Paths of the work tree that a script must not write: those that the row's patches change.

    Args:
        paths: They.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(path.split("/") for path in paths if path)
        self._names = frozenset(path[-1] for path in self._paths)

    def refuse(self, target: str) -> None:
        """Whether a path is one of them, or may be, from some folder.

        Raises:
            RowError: It may.
        """
        parts = _parts(target)
        if not parts or (parts[-1] not in self._names and not {"*", "?", "["} & set(parts[-1])):
            return
        for path in self._paths:
            count = min(len(parts), len(path))
            if all(map(fnmatchcase, path[-count:], parts[-count:])):
                raise RowError(f"its script writes {'/'.join(path)}, which its patches change, by itself")

    def may_lie_in(self, folder: str) -> bool:
        """Whether one of them may lie below a folder."""
        if folder.startswith("/") and not folder.startswith("/testbed"):
            return False
        parts = _parts(folder.removeprefix("/testbed"))
        return any(path[: len(parts)] == parts for path in self._paths)


def check_line(line: Line, never: Forbidden) -> None:
    """Refuse a line of which it cannot be told that it applies no patch.

    Args:
        line: Of a script, with the bodies of its here-documents.
        never: What it must not write.

    Raises:
        RowError: It cannot be told.
    """
    for text in (*_texts(line), *line.bodies):
        for part in text.split("\n"):
            if _names_git_apply(part) or programs.PATCH_OPTION.search(part):
                raise _patches(part)
    for body in line.bodies:
        _check_code(body, never)
    for command in line.commands:
        bodies = [line.bodies[number] for number in command.documents if number < len(line.bodies)]
        _check(command, bodies, never, line.text)


def _texts(line: Line) -> list[str]:
    """What of a line may be run as it stands there, by a program that is not known."""
    others = [command for command in line.commands if not _is_saying(command)]
    if others and any(command.is_fed for command in line.commands):
        return [line.text]  # what one says another may run
    return [" ".join(word.text for word in command.words) for command in others]


def _check(command: Command, bodies: list[str], never: Forbidden, text: str) -> None:
    words = list(command.words)
    while words and (words[0].text in programs.KEYWORDS or _is_assignment(words[0])):
        _check_assigned(words.pop(0), text)
    for target in command.writes:
        never.refuse(target.text)
        if bodies and _is_unknown(target):
            raise RowError(f"its script writes a file whose name cannot be told: {text.strip()[:120]!r}")
    for body in bodies:
        if programs.SHELL_CODE.match(body) or any(target.text.endswith((".sh", ".bash")) for target in command.writes):
            _check_text(Word(body), never, text)
    if not words:
        return
    program = _program(words[0])
    for word in words[1:]:
        _check_assigned(word, text)
    if not words[0].is_plain and any(_is_of_patch(word.text) for word in words[1:]):
        raise _patches(text)
    if program == "trap" and len(words) > 1:
        _check_text(words[1], never, text)
    candidates = range(1) if program in programs.RUN_NOTHING or _looks_up(words) else range(len(words))
    for place in candidates:
        if place == 0 or _is_run_by_others(words[place]):
            _check_program(words[place:], command, bodies, never, text)
            _check_writing(words[place:], never, text)
            if _program(words[place]) in programs.RUN:
                break  # what follows is its own, and looked at


def _check_program(words: list[Word], command: Command, bodies: list[str], never: Forbidden, text: str) -> None:
    program = _program(words[0])
    if program == "git":
        _check_git(words, text)
    elif program in programs.PATCHES:
        raise _patches(text)
    elif program == "eval":
        if programs.ACTIVATES.fullmatch(" ".join(word.text for word in words[1:])) is None:
            _check_text(Word(" ".join(word.text for word in words[1:])), never, text)
    elif program in programs.SHELLS:
        _check_shell(words, command, bodies, never, text)
    elif program in ("source", "."):
        if len(words) < 2 or _is_stream(words[1]):
            raise _unseen(text)
    elif programs.INTERPRETERS.fullmatch(program):
        _check_interpreter(words, command, bodies, never, text)
    elif program in programs.DECODE and any(programs.DECODE[program].fullmatch(word.text) for word in words):
        raise _unseen(text)


def _check_git(words: list[Word], text: str) -> None:
    rest = iter(words[1:])
    for word in rest:
        if word.text in programs.WITH_VALUE:
            next(rest, None)
        elif word.text in ("--version", "--help"):
            return
        elif not word.text.startswith("-"):
            if not word.is_plain or word.text not in programs.READS:
                raise _patches(text)
            return


def _check_shell(words: list[Word], command: Command, bodies: list[str], never: Forbidden, text: str) -> None:
    for place, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-\w*c", word.text):
            if place + 1 >= len(words):
                raise _unseen(text)
            return _check_text(words[place + 1], never, text)
        if not word.text.startswith(("-", "+")) and words[place - 1].text not in ("-o", "+o", "-O", "+O"):
            if _is_stream(word):
                raise _unseen(text)
            return None
    for body in bodies:
        for line in read_script(body):
            check_line(line, never)
    if command.is_fed:
        raise _unseen(text)
    return None


def _check_interpreter(words: list[Word], command: Command, bodies: list[str], never: Forbidden, text: str) -> None:
    codes = list(bodies)
    operand = False
    for before, word in pairwise(words):
        if programs.INLINE.fullmatch(before.text):
            codes.append(word.text)
        elif found := programs.INLINE_HERE.fullmatch(word.text):
            codes.append(found["code"])
        if _is_stream(word):
            raise _unseen(text)
        operand = operand or word.text == "-m" or (word.text not in ("-",) and not word.text.startswith("-"))
    if command.is_fed and not operand:
        raise _unseen(text)
    for code in codes:
        if _names_git_apply(code) or programs.CODE_PATCHES.search(code):
            raise _patches(text)
        _check_code(code, never)


def _check_code(code: str, never: Forbidden) -> None:
    """Code of any language that names a file of the patches, and may write it."""
    if programs.CODE_WRITES.search(code):
        for found in programs.PATHS.finditer(code):
            never.refuse(found.group())


def _check_text(word: Word, never: Forbidden, text: str) -> None:
    """A text that a shell is given to run."""
    if not word.text.strip():
        return
    for line in read_script(word.text):
        for command in line.commands:
            first = next((each for each in command.words if not _is_assignment(each)), None)
            if first is not None and (not first.is_plain or first.text == "eval"):
                raise _unseen(text)
        check_line(line, never)


def _check_writing(words: list[Word], never: Forbidden, text: str) -> None:
    program = _program(words[0])
    in_place = program in ("sed", "perl", "ruby") and any(
        re.match(r"-\w*i|--in-place", word.text) for word in words[1:] if not word.text.startswith("--expr")
    )
    in_place = in_place or (program in ("awk", "gawk") and any(word.text == "inplace" for word in words))
    if not in_place and program not in programs.EDIT:
        return
    for word in words[1:]:
        never.refuse(word.text.removeprefix("of="))
    if program == "tee":
        return
    if _is_unknown(words[-1]) and (in_place or program in programs.EDIT - {"rm", "curl", "wget"}):
        raise RowError(f"its script writes a file whose name cannot be told: {text.strip()[:120]!r}")
    if program in programs.COPY and never.may_lie_in(words[-1].text):
        raise RowError(f"its script copies into what its patches change: {text.strip()[:120]!r}")


def _check_assigned(word: Word, text: str) -> None:
    """A name that stands for git or patch from here on."""
    if not _is_assignment(word):
        return
    # What a substitution runs is looked at by itself; one that asks where git is makes a name of it.
    value = programs.ASKS_NOTHING.sub("", word.text.partition("=")[2])
    if any(
        PurePosixPath(each).name in {"git", *programs.PATCHES} for each in re.split(r"[\s'\"()`;|&]+", value) if each
    ):
        raise _patches(text)


def _parts(path: str) -> list[str]:
    """Of a path; what a variable puts before it is left out."""
    return [part for part in path.split("/") if part not in ("", ".", "..") and "$" not in part and "`" not in part]


def _is_unknown(word: Word) -> bool:
    return "$" in word.text.rpartition("/")[2] or "`" in word.text


def _is_stream(word: Word) -> bool:
    return word.text in ("<(", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


def _is_assignment(word: Word) -> bool:
    return re.match(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=", word.text) is not None


def _names_git_apply(text: str) -> bool:
    git = programs.GIT.search(text)
    return git is not None and programs.APPLIES.search(text, git.end()) is not None


def _is_of_patch(word: str) -> bool:
    return word in ("apply", "am") or re.fullmatch(r"-p\d|--strip=\d|.*\.(?:patch|diff)", word) is not None


def _is_saying(command: Command) -> bool:
    """Whether texts are no more than texts to a command, and go into no file."""
    words = [word for word in command.words if word.text not in programs.KEYWORDS]
    says = not words or words[0].text in programs.RUN_NOTHING - programs.RUN_TEXT
    return says and all(target.text in programs.NOWHERE for target in command.writes)


def _looks_up(words: list[Word]) -> bool:
    """``command -v git`` asks whether it is there."""
    return words[0].text == "command" and len(words) > 1 and words[1].text in ("-v", "-V")


def _program(word: Word) -> str:
    return word.text.rpartition("/")[2]


def _is_run_by_others(word: Word) -> bool:
    """Whether a word that is not the first may be what a command runs: by its name, or where programs are."""
    program = _program(word)
    is_known = program in programs.RUN_BY_OTHERS or programs.INTERPRETERS.fullmatch(program) is not None
    return is_known and (word.text == program or re.match(r"/\S*bin/", word.text) is not None)


def _patches(text: str) -> RowError:
    return RowError(f"its script may apply a patch, and not in a way that can be taken out: {text.strip()[:120]!r}")


def _unseen(text: str) -> RowError:
    return RowError(f"its script runs what is not in it, which may apply a patch: {text.strip()[:120]!r}")
