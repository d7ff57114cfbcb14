"""Which words of a simple command are programs that it starts: the first one, or the script of an interpreter.

Invariant: only words are asked. A program is told by a ``/`` in it, since one without is looked up on ``PATH``; the
script of an interpreter need have none. What only passes a program on (``timeout 60 ./x``) is looked through.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.texts.shell_words import assignment

_KEYWORDS = frozenset({"do", "then", "else", "if", "elif", "while", "until", "!", "{", "run", "exec", "--"})
_PASSES_ON = frozenset({
    "exec", "env", "time", "timeout", "nice", "nohup", "setsid", "stdbuf", "ionice", "taskset", "chrt", "sudo", "xargs",
    "parallel", "command", "builtin", "eval", "trap", "unbuffer", "eatmydata", "xvfb-run", "dbus-run-session", "npx",
    "bunx", "busybox", "strace", "ltrace", "valgrind", "script", "watch", "flock", "catchsegv", "gosu", "runuser",
})  # fmt: skip
_INTERPRETERS = re.compile(
    r"(?:python|pypy|coverage|node|nodejs|ruby|perl|php|lua|luajit)[0-9.]*|(?:ba|da|z|k|a|fi)?sh|deno|bun|tsx|ts-node"
    r"|Rscript|julia|pwsh|tclsh|expect|guile|elixir|escript|osascript|uv|poetry|pipenv|pdm|hatch|rye|go|java|groovy"
)
_PYTHON = re.compile(r"(?:python|pypy|coverage)[0-9.]*")
_SHELL = re.compile(r"(?:ba|da|z|k|a|fi)?sh")
_TEXT_AFTER, _TEXT_AFTER_OTHERS = re.compile(r"-[A-Za-z]*c"), re.compile(r"-[A-Za-z]*[eE]|--eval|--print|-p|-r")
"""Options of Python and shells, and of other interpreters, after which a program is given as a text."""
_TAKES_VALUE = frozenset({"-W", "-X", "-o", "-O", "-d", "-I", "-C", "--project", "--directory", "-cp"})
_LOADS = frozenset({
    "--require", "--import", "--loader", "--experimental-loader", "--rcfile", "--init-file", "--preload", "-r",
})  # fmt: skip
"""Options whose value is run, too."""
_NODE = frozenset({"node", "nodejs", "tsx", "ts-node", "bun", "deno"})
_EXECUTES = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_NUMBER = re.compile(r"[0-9.]+[smhdk]?")


def started(words: Sequence[str]) -> frozenset[int]:
    """Where among the words of a command the paths of programs stand that it starts."""
    programs = [_program(words, 0)]
    programs += [at for at in range(1, len(words)) if words[at - 1] in _EXECUTES]
    scripts = {at for program in programs for at in _scripts(words, program) if at < len(words) and words[at]}
    return frozenset(scripts | {at for at in programs if at < len(words) and "/" in words[at]})


def files_of(words: Sequence[str], path: str) -> Iterator[str]:
    """Every file that starting a path could run: Node and Python look for others of the name."""
    yield path
    names = {PurePosixPath(word).name.rstrip("0123456789.") for word in words}
    if names & _NODE and not PurePosixPath(path).suffix:
        yield from (f"{path}{end}" for end in (".js", ".cjs", ".mjs", ".ts", "/index.js", "/package.json"))
    if names & {"python", "pypy", "coverage", "uv"} and not PurePosixPath(path).suffix:
        yield f"{path}/__main__.py"


def _program(words: Sequence[str], at: int) -> int:
    """Where the program of a command stands, past what passes it on."""
    passed = False
    while at < len(words):
        word, before = words[at], words[at - 1] if at else ""
        is_passing = PurePosixPath(word).name in _PASSES_ON
        is_value = passed and (_NUMBER.fullmatch(word) or re.fullmatch(r"-[A-Za-z]", before))
        is_option = passed and word.startswith("-")
        if not (is_passing or is_value or is_option or word in _KEYWORDS or assignment(word) is not None):
            break
        passed = passed or is_passing
        at += 1
    return at


def _scripts(words: Sequence[str], program: int) -> Iterator[int]:
    """Where what an interpreter is told to run stands."""
    if program >= len(words) or _INTERPRETERS.fullmatch(PurePosixPath(words[program]).name) is None:
        return
    name = PurePosixPath(words[program]).name
    is_python = _PYTHON.fullmatch(name) is not None
    text_after = _TEXT_AFTER if is_python or _SHELL.fullmatch(name) else _TEXT_AFTER_OTHERS
    at = program + 1
    while at < len(words):
        word = words[at]
        if word in _LOADS and (name in _NODE or name == "ruby" or word != "-r"):
            yield at + 1
            at += 2
        elif word.partition("=")[0] in _LOADS and "=" in word:
            yield at
            at += 1
        elif word in _TAKES_VALUE or (word == "-m" and words[at + 1 : at + 2] == ("coverage",)):
            at += 2
        elif text_after.fullmatch(word) or (is_python and word.startswith("-m")):
            return
        elif word.startswith("-") or word in _KEYWORDS:
            at += 1
        elif _INTERPRETERS.fullmatch(PurePosixPath(word).name):
            yield from _scripts(words, at)
            return
        else:
            yield at
            return
