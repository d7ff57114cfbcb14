"""Shell scripts of rows, made fit for grading: without what applies patches, with the exit status of the tests.

Invariant: the only code that a command gets from its row is what the row's own tests need. Hidden tests come from
``tests/``, the agent's change from the grader, so whatever a script does to the work tree with git or patch is taken
out: it would undo the former, or, in OpenSWE's scripts, apply the fix itself. What cannot be told is refused, and what
is left is measured by ``lego-rl tasks validate``: the empty patch has to fail. `shell_scanner` reads scripts, and
`shell_rules` says what can be told.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.convert.shell_rules import Forbidden, check_line
from lego_rl.tasks.convert.shell_scanner import read_line, read_script
from lego_rl.tasks.convert.shell_words import Line
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
    + r"|(?:[\w./~-]*/)?patch(?=[ \t]+(?:-|<|\S+\.(?:diff|patch))|[ \t]*(?:[;&|)\n]|$)))"
    + r"(?:(?!<<)(?:[^;&|\n()'\"`]|'[^'\n]*'|\"(?:[^\"\\\n]|\\.)*\"|\d?>&\d|&>))*",
    re.MULTILINE,
)
"""A command that changes the work tree by git or patch, or shows its history, which may be long, with its arguments."""
_DIFF = re.compile(r"^(?:diff --git |--- \S+\n\+\+\+ \S+\n@@ )", re.MULTILINE)
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
    text = script.replace("\r\n", "\n")
    if text.startswith("#!"):
        text = text.partition("\n")[2]
    never = Forbidden(forbidden)
    kept = (_kept(line, never) for line in read_script(text) if not line.text.lstrip().startswith("#"))
    return "".join(f"{line}\n" for line in kept)


def without_isolation(script: str) -> str:
    """A script whose installations of the work tree itself need no network: what they build with is in the image."""

    def offline(found: re.Match[str]) -> str:
        arguments = found["arguments"].split()
        own = any(re.fullmatch(r"['\"]?\.(\[[\w,-]+\])?['\"]?|\./?", word) for word in arguments)
        if not own or "--no-build-isolation" in arguments:
            return found[0]
        return found[0].replace("install", "install --no-build-isolation --no-deps", 1)

    return _INSTALL.sub(offline, script)


def _kept(line: Line, never: Forbidden) -> str:
    """What stays of one line and of the here-documents that begin in it."""
    if max(map(len, line.text.split("\n"))) > MAX_LINE:
        raise RowError(f"its script has a line of more than {MAX_LINE} characters")
    plain = _CHANGES_TREE.sub(lambda found: f"{found['before']}true ", line.text).rstrip()
    changed = plain != line.text.rstrip()
    if line.documents and any(_DIFF.search(body) for body in line.bodies) and not changed:
        return "true"  # it made the file of a patch
    bare = read_line(plain)
    if not changed:
        check_line(replace(bare, bodies=line.bodies), never)
        ends = (f"{body}{document.word}" for document, body in zip(line.documents, line.bodies, strict=True))
        return "\n".join([line.text, *ends])
    for document in reversed(bare.documents):  # it applied a patch, and its input was one
        plain = f"{plain[: document.start]}< /dev/null{plain[document.end :]}"
    check_line(read_line(plain), never)
    return plain
