"""Shell scripts of rows, made fit for grading: without what applies patches, with the exit status of the tests.

Invariant: the only code that a command gets from its row is what the row's own tests need. Hidden tests come from
``tests/``, the agent's change from the grader, so whatever a script does to the work tree with git or patch is taken
out: it would undo the former, or, in OpenSWE's scripts, apply the fix itself. What cannot be told is refused, and what
is left is measured by ``lego-rl tasks validate``: the empty patch has to fail.
"""

import re
import shlex
from collections.abc import Iterable, Sequence

from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.reports.lines import END, START

MAX_COMMAND_BYTES = 100_000
"""Of a command, which is one argument of a program; Linux takes 128 KiB (execve(2))."""
MAX_SCRIPT_BYTES, MAX_LINE = 16 << 20, 20_000

_START_OF_COMMAND = r"(?P<before>^[ \t]*|[;&|({!][ \t]*|\b(?:if|then|do|else|elif|while|until|time|sudo)[ \t]+)"
_CHANGES_TREE = re.compile(
    _START_OF_COMMAND
    + r"(?:(?:timeout[ \t]+\S+|env|command)[ \t]+)*"
    + r"(?:(?:[\w./~-]*/)?git(?:[ \t]+-(?:[cC][ \t]+\S+|-?[\w=.-]+))*[ \t]+"
    + r"(?:apply|am|checkout|reset|restore|clean|stash|cherry-pick|revert|merge|pull|fetch|switch|status|show|diff|log)"
    + r"|(?:[\w./~-]*/)?patch(?=[ \t]+(?:-|<|\S+\.(?:diff|patch))))"
    + r"(?:(?!<<)(?:[^;&|\n()'\"]|'[^'\n]*'|\"(?:[^\"\\\n]|\\.)*\"|\d?>&\d|&>))*",
    re.MULTILINE,
)
"""A command that changes the work tree by git or patch, or shows its history, which may be long, with its arguments."""
_HEREDOC = re.compile(r"<<(?P<dash>-?)[ \t]*(?P<quote>['\"]?)(?P<word>[\w.-]+)(?P=quote)")
_WRITES_TO = re.compile(r"(?:>{1,2}|\btee(?:[ \t]+-a)?)[ \t]*['\"]?(?P<path>[^\s'\"<>;&|]+)")
_DIFF = re.compile(r"^(?:diff --git |--- \S+\n\+\+\+ \S+\n@@ )", re.MULTILINE)
_GIT, _APPLIES, _PATCH = re.compile(r"\bgit\b"), re.compile(r"\b(?:apply|am)\b"), re.compile(r"(?<![\w.-])patch[ \t]+-")
_INSTALL = re.compile(r"\bpip3?[ \t]+install\b(?P<arguments>(?:[ \t]+(?!-r\b)[^\s;&|<>]+)+)")
_UNSET = "unset PYTEST_DISABLE_PLUGIN_AUTOLOAD PYTEST_ADDOPTS CI"
"""What a row's own tests were never run with; plugins are part of its environment."""


def command_of(script: str, exit_status: str = "") -> str:
    """The command of a specification: the script, whose whole output becomes the report.

    Args:
        script: For bash; it ends with the exit status of the tests.
        exit_status: Shell words that end the command with another exit status, which only the output tells.

    Raises:
        RowError: The script is longer than a command can be, or no text.
    """
    after = f"; {exit_status}" if exit_status else ""
    command = f'{_UNSET}; bash -c {shlex.quote(script)} > "$LEGO_REPORT" 2>&1{after}'
    if "\0" in command:
        raise RowError("its test script holds a null character, which no command can")
    if len(command.encode(errors="replace")) > MAX_COMMAND_BYTES:
        raise RowError(f"its test script has more than {MAX_COMMAND_BYTES} bytes, which no command can")
    return command


def script_of(*, before: Iterable[str] = (), tests: Sequence[str], workdir: str) -> str:
    """A script that goes to the work tree, does what comes before the tests, and runs them between the markers."""
    return "\n".join(
        [
            *before,
            f"cd {shlex.quote(workdir)}",
            f"echo '{START}'",
            *tests,
            "LEGO_STATUS=$?",
            f"echo '{END}'",
            'exit "$LEGO_STATUS"',
        ]
    )


def one_after_the_other(commands: Iterable[str]) -> str:
    """A command that runs some in one shell, all of them, and ends with the highest of their exit statuses.

    The highest, for what only fails in one of them must not hide that another did not run its tests.
    """
    lines = [line for command in commands for line in (command, _NOTE_STATUS)]
    return "\n".join(["(", "LEGO_WORST=0", *lines, 'exit "$LEGO_WORST"', ")"])


_NOTE_STATUS = 'LEGO_LAST=$?; [ "$LEGO_LAST" -le "$LEGO_WORST" ] || LEGO_WORST=$LEGO_LAST'

CONDA = ("source /opt/miniconda3/bin/activate", "conda activate testbed")
"""How SWE-bench's images make their environment the current one."""
TRACED = "set -uxo pipefail"
"""How SWE-bench's scripts begin: the markers are echoed because of it."""


def with_status(script: str) -> str:
    """A script with markers, ended with the exit status of what stands before the end marker; else as it is."""
    lines = script.rstrip("\n").split("\n")
    end = next((number for number, line in enumerate(lines) if END in line), None)
    if end is None:
        return script
    return "\n".join([*lines[:end], "LEGO_STATUS=$?", *lines[end:], 'exit "$LEGO_STATUS"'])


def without_patches(script: str, forbidden: Iterable[str] = ()) -> str:
    """A script without its shebang and without what changes the work tree by git or patch.

    Args:
        script: Of a row.
        forbidden: Paths of the work tree that it must not write either: those that the row's patches change.

    Raises:
        RowError: Something of it is left that cannot be told from applying a patch.
    """
    if len(script) > MAX_SCRIPT_BYTES:
        raise RowError(f"its script has more than {MAX_SCRIPT_BYTES >> 20} MiB")
    never = tuple(path for path in forbidden if path)
    kept: list[str] = []
    lines = script.replace("\r\n", "\n").split("\n")
    place = 1 if lines and lines[0].startswith("#!") else 0
    while place < len(lines):
        line, place = lines[place], place + 1
        while line.endswith("\\") and place < len(lines):
            line, place = f"{line[:-1]} {lines[place]}", place + 1
            if len(line) > MAX_LINE:
                break
        if len(line) > MAX_LINE:
            raise RowError(f"its script has a line of more than {MAX_LINE} characters")
        documents = list(_HEREDOC.finditer(line)) if not line.lstrip().startswith("#") else []
        bodies: list[str] = []
        for document in documents:
            body, place = _document(lines, place, document)
            bodies.append(body)
        kept += _kept(line, documents, bodies, never)
    text = "\n".join(kept)
    for line in text.split("\n"):
        if _may_apply(line):
            raise RowError(
                f"its script may apply a patch, and not in a way that can be taken out: {line.strip()[:120]!r}"
            )
    return text


def _may_apply(line: str) -> bool:
    if line.lstrip().startswith(("#", "echo", "printf")):
        return False
    git = _GIT.search(line)
    return _PATCH.search(line) is not None or (git is not None and _APPLIES.search(line, git.end()) is not None)


def without_isolation(script: str) -> str:
    """A script whose installations of the work tree itself need no network: what they build with is in the image."""

    def offline(found: re.Match[str]) -> str:
        arguments = found["arguments"].split()
        own = any(re.fullmatch(r"['\"]?\.(\[[\w,-]+\])?['\"]?|\./?", word) for word in arguments)
        if not own or "--no-build-isolation" in arguments:
            return found[0]
        return found[0].replace("install", "install --no-build-isolation --no-deps", 1)

    return _INSTALL.sub(offline, script)


def _document(lines: list[str], place: int, start: re.Match[str]) -> tuple[str, int]:
    """The body of a here-document that begins at a line, and the line after it."""
    for end in range(place, len(lines)):
        line = lines[end].lstrip("\t") if start["dash"] else lines[end]
        if line == start["word"]:
            return "\n".join([*lines[place:end], ""]), end + 1
    raise RowError(f"its script has a here-document without its end, {start['word']!r}")


def _kept(line: str, documents: list[re.Match[str]], bodies: list[str], never: tuple[str, ...]) -> list[str]:
    """What stays of one line and of the here-documents that begin in it."""
    comment = line.lstrip().startswith("#")
    plain = "" if comment else _CHANGES_TREE.sub(lambda found: f"{found['before']}true ", line).rstrip()
    changed = not comment and plain != line.rstrip()
    if not documents:
        return [plain] if plain or not line else []
    if changed or any(_DIFF.search(body) for body in bodies):
        # It applied a patch, or made the file of one.
        return [_HEREDOC.sub("< /dev/null", plain) if changed else "true"]
    for written in _WRITES_TO.finditer(line):
        path = written["path"].removeprefix("/testbed/").removeprefix("./")
        if path in never:
            raise RowError(f"its script writes {path}, which its patches change, by itself")
    parts = [line]
    for document, body in zip(documents, bodies, strict=True):
        parts += [*body.removesuffix("\n").split("\n"), document["word"]] if body else [document["word"]]
    return parts
