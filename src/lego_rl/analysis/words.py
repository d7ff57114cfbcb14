"""A shell command in its simple commands: words without their quotes, and where output goes.

Invariant: any text is split, whatever is wrong with it; what a shell would refuse comes out as the words that it looks
like. Nothing is expanded. Bodies of here-documents are taken off first, for they are no commands.

Source: POSIX.1-2024, Shell Command Language, sections 2.2 (quoting), 2.7 (redirection) and 2.9 (commands).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\\\n|(?<![^\s;&|()])\#[^\n]*)
    |(?P<redirection>\d*(?:>>|>\||>|<<<|<)(?:&\d+|&-)?|&>>?)
    |(?P<operator>\|\||&&|;;|\|&|[;|&\n()])
    |(?P<word>(?:[^\s;|&()<>'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+)
    |(?P<stray>.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ESCAPED = re.compile(r'\\([$`"\\\n])')
_HEREDOC = re.compile(r"(?<!<)<<(?!<)(-?)[ \t]*(['\"]?)([A-Za-z_][\w.-]*)\2")


@dataclass
class SimpleCommand:
    """One program with its arguments.

    Attributes:
        words: The program and its arguments, without quotes.
        written: Files that output is redirected to.
        piped: Whether it reads the output of the command before it.
        document: Body of its here-document; empty if there is none.
    """

    words: list[str]
    written: list[str]
    piped: bool = False
    document: str = ""


def simple_commands(text: str) -> list[SimpleCommand]:
    """The simple commands of a shell command, in order."""
    text, documents = _without_documents(text)
    found = [SimpleCommand([], [])]
    redirects = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        match match.lastgroup:
            case "operator":
                found.append(SimpleCommand([], [], piped=token in {"|", "|&"}))
                redirects = ""
            case "redirection":
                redirects = "" if "&" in token[1:] else token
            case "word" | "stray":
                word = _unquoted(token)
                if ">" in redirects:
                    found[-1].written.append(word)
                elif not redirects:
                    found[-1].words.append(word)
                redirects = ""
    for place, document in zip(_places(found), documents, strict=False):
        place.document = document
    return [each for each in found if each.words or each.written]


_DOCUMENT = "\x00"


def _without_documents(text: str) -> tuple[str, list[str]]:
    """The text with a mark in place of each here-document, and their bodies."""
    documents: list[str] = []
    at = 0
    while (begin := _HEREDOC.search(text, at)) is not None:
        line_end = text.find("\n", begin.end())
        if line_end < 0:
            break
        tabs = "\t*" if begin[1] else ""
        end = re.compile(rf"^{tabs}{re.escape(begin[3])}[ \t]*$", re.MULTILINE).search(text, line_end + 1)
        body_end, rest = (end.start(), end.end()) if end is not None else (len(text), len(text))
        documents.append(text[line_end + 1 : body_end])
        kept = f"{text[: begin.start()]} {_DOCUMENT} {text[begin.end() : line_end]}"
        text, at = kept + text[rest:], begin.start() + 3
    return text, documents


def _places(commands: list[SimpleCommand]) -> Iterator[SimpleCommand]:
    """The commands that have a here-document, once for each; their marks are taken out."""
    for each in commands:
        while _DOCUMENT in each.words:
            each.words.remove(_DOCUMENT)
            yield each


def _unquoted(word: str) -> str:
    if "'" not in word and '"' not in word and "\\" not in word:
        return word
    return _QUOTED.sub(_plain_part, word)


def _plain_part(match: re.Match[str]) -> str:
    if match[1] is not None:
        return "" if match[1] == "\n" else match[1]
    return match[2] if match[2] is not None else _ESCAPED.sub(r"\1", match[3])
