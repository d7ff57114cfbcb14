"""Shell scripts as commands and words, as far as that can be told without running them.

Invariant: nothing of a script is passed over. Every command of it is found, wherever it stands: behind a pipe, in a
subshell, in a substitution, inside of quotes. A script whose quotes, substitutions or here-documents have no end is
refused, for nobody could say where its commands are.

Source: the Bash reference manual, "Shell Syntax" and "Redirections".
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.convert.shell_cursor import Cursor
from lego_rl.tasks.convert.shell_words import Command, Document, Line, Word

_MAX_DEPTH = 20
"""Substitutions in each other."""
_ORDINARY = re.compile(r"[^ \t\r\n;&|()<>\\'\"`$]+")
_IN_DOUBLE = re.compile(r"[^\"\\$`]+")
_VARIABLE = re.compile(r"\$(?:\w+|[@*#?$!-])")
_OUTPUT = re.compile(r"&>>?|>>|>\||<>|>")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)


def read_line(text: str) -> Line:
    """A line alone, without the bodies of here-documents.

    Raises:
        RowError: A quote or a substitution has no end, or the text is more than a line.
    """
    scanner = _Scanner(text)
    line = scanner.line()
    if not scanner.is_at_end:
        raise RowError("its script has a quote or substitution that ends with what is taken out")
    return line


def read_script(text: str) -> Iterator[Line]:
    """The lines of a script.

    Raises:
        RowError: A quote, a substitution or a here-document has no end.
    """
    scanner = _Scanner(text)
    while not scanner.is_at_end:
        line = scanner.line()
        yield replace(line, bodies=tuple(map(scanner.body, line.documents)))


class _Scanner(Cursor):
    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text)
        if depth > _MAX_DEPTH:
            raise RowError(f"its script has more than {_MAX_DEPTH} substitutions in each other")
        self._depth = depth
        self._commands: list[Command] = []
        self._documents: list[Document] = []

    def line(self) -> Line:
        start = self._place
        self._commands, self._documents, self._cuts = [], [], []
        self._list(nested=False)
        text, before = "", start
        for cut in self._cuts:
            text, before = text + self._text[before:cut], cut + 2
        text += self._text[before : self._place]
        self._place += 1
        return Line(text, tuple(self._commands), tuple(self._documents))

    def commands(self) -> list[Command]:
        """All of them, of a text that is one substitution."""
        while not self.is_at_end:
            self._list(nested=False)
            self._place += 1
        self._refuse_documents(0)
        return self._commands

    def body(self, document: Document) -> str:
        """What follows the line that a here-document begins in."""
        lines: list[str] = []
        while not self.is_at_end:
            end = self._text.find("\n", self._place)
            line = self._text[self._place : end if end >= 0 else len(self._text)]
            self._place += len(line) + 1
            if (line.lstrip("\t") if document.is_indented else line) == document.word:
                return "".join(f"{each}\n" for each in lines)
            lines.append(line)
        raise RowError(f"its script has a here-document without its end, {document.word!r}")

    def _list(self, *, nested: bool) -> None:
        """Commands up to the end of the line, which is not passed, or, of a substitution, up to its bracket."""
        part, opened = _Part(), 0
        while not self.is_at_end:
            sign = self._text[self._place]
            if self._is_passed_over():
                continue
            if sign == "\n" and not nested:
                break
            if sign == ")":
                self._end(part)
                self._place += 1
                if nested and not opened:
                    return
                opened = max(opened - 1, 0)
            elif self._text.startswith("((", self._place) and not part.words and self.arithmetic():
                continue
            elif sign in "<>" or self._text.startswith("&>", self._place):
                self._redirect(part)
            elif sign in "\n;&|(":
                self._separator(part, sign)
                opened += sign == "("
            else:
                self._take_word(part)
        self._end(part)
        if nested:
            raise RowError("its script has a substitution without its end")

    def _is_passed_over(self) -> bool:
        """Pass a blank, a comment or a line end that is none."""
        sign = self._text[self._place]
        if sign in " \t\r":
            self._place += 1
        elif sign == "#":
            end = self._text.find("\n", self._place)
            self._place = end if end >= 0 else len(self._text)
        else:
            return self.cut()
        return True

    def _separator(self, part: "_Part", sign: str) -> None:
        """Pass what stands between two commands."""
        self._end(part)
        is_pipe = sign == "|" and not self._text.startswith("||", self._place)
        part.is_fed = is_pipe
        self._place += 2 if sign == "|" and not is_pipe else 1

    def _end(self, part: "_Part") -> None:
        if part.words or part.writes or part.documents:
            self._commands.append(Command(tuple(part.words), tuple(part.writes), tuple(part.documents), part.is_fed))
        part.words, part.writes, part.documents, part.is_fed = [], [], [], False

    def _take_word(self, part: "_Part") -> None:
        word = self._word()
        is_descriptor = word.text.isdigit() and self._text[self._place : self._place + 1] in ("<", ">")
        if not is_descriptor:
            part.words.append(word)

    def _redirect(self, part: "_Part") -> None:
        start, text = self._place, self._text
        if text.startswith(("<(", ">("), start):
            part.words.append(Word(text[start : start + 2], is_plain=False))
            self._place += 1
            return
        if text.startswith("<<<", start):
            self._place += 3
            self._target()
            part.is_fed = True
        elif text.startswith("<<", start):
            is_indented = text.startswith("<<-", start)
            self._place += 3 if is_indented else 2
            part.documents.append(len(self._documents))
            self._documents.append(Document(start, self._place, self._target().text, is_indented))
            self._documents[-1] = Document(start, self._place, self._documents[-1].word, is_indented)
        elif text.startswith((">&", "<&"), start):
            self._place += 2
            target = self._target()
            if not (target.text.rstrip("-").isdigit() or target.text == "-"):
                part.writes.append(target)
        elif output := _OUTPUT.match(text, start):
            self._place = output.end()
            part.writes.append(self._target())
        else:
            self._place += 1
            self._target()
            part.is_fed = True

    def _target(self) -> Word:
        while self.cut() or self._text[self._place : self._place + 1] in (" ", "\t"):
            self._place += self._text[self._place : self._place + 1] in (" ", "\t")
        return self._word()

    def _word(self) -> Word:
        out: list[str] = []
        plain = True
        while not self.is_at_end:
            sign = self._text[self._place]
            if found := _ORDINARY.match(self._text, self._place):
                out.append(found.group())
                plain = plain and not _is_pattern(found.group())
                self._place = found.end()
            elif self.cut():
                continue
            elif sign == "\\":
                out.append(self._text[self._place + 1 : self._place + 2])
                self._place += 2
            elif sign == "'":
                out.append(self.single())
            elif sign == '"':
                plain = self._double(out) and plain
            elif sign == "`":
                plain = False
                out.append(self._backticks())
            elif sign == "$":
                plain = self._dollar(out, in_double=False) and plain
            else:
                break
        return Word("".join(out), plain)

    def _double(self, out: list[str]) -> bool:
        """Takes what stands in double quotes; returns whether the shell puts nothing into it."""
        self._place += 1
        plain = True
        while not self.is_at_end:
            sign = self._text[self._place]
            if found := _IN_DOUBLE.match(self._text, self._place):
                out.append(found.group())
                self._place = found.end()
            elif sign == '"':
                self._place += 1
                return plain
            elif self.cut():
                continue
            elif sign == "\\":
                after = self._text[self._place + 1 : self._place + 2]
                out.append(after if after in '"\\$`' else f"\\{after}")
                self._place += 2
            elif sign == "`":
                plain = False
                out.append(self._backticks())
            else:
                plain = self._dollar(out, in_double=True) and plain
        raise RowError("its script has a quote without its end")

    def _dollar(self, out: list[str], *, in_double: bool) -> bool:
        """Takes what a dollar begins; returns whether the shell puts nothing into it."""
        start = self._place
        if self._text.startswith("$(", start):
            self._place += 1
            if not (self._text.startswith("((", self._place) and self.arithmetic()):
                self._place += 1
                self._substitution()
        elif self._text.startswith("${", start):
            self.braces()
        elif not in_double and (ansi := _ANSI.match(self._text, start)):
            self._place = ansi.end()
            out.append(ansi[1])
            return "\\" not in ansi[1]
        elif variable := _VARIABLE.match(self._text, start):
            self._place = variable.end()
        else:
            self._place += 1
            out.append("" if self._text.startswith('$"', start) and not in_double else "$")
            return True
        out.append(self._text[start : self._place])
        return False

    def _substitution(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise RowError(f"its script has more than {_MAX_DEPTH} substitutions in each other")
        known = len(self._documents)
        self._list(nested=True)
        self._refuse_documents(known)
        self._depth -= 1

    def _refuse_documents(self, known: int) -> None:
        if len(self._documents) > known:
            raise RowError("its script has a here-document inside of a substitution")

    def _backticks(self) -> str:
        found = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(self._text, self._place)
        if found is None:
            raise RowError("its script has a substitution without its end")
        self._place = found.end()
        inner = re.sub(r"\\([`$\\])", r"\1", found[1])
        self._commands += _Scanner(inner, self._depth + 1).commands()
        return found.group()


def _is_pattern(text: str) -> bool:
    """Whether the shell may put names of files, or several words, in place of a text."""
    return not {"*", "?"}.isdisjoint(text) or "[" in text[1:] or {"{", ",", "}"} <= set(text)


class _Part:
    """A command that is being read."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.writes: list[Word] = []
        self.documents: list[int] = []
        self.is_fed = False
