"""What a shell script is made of: lines, the commands in them, and their words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """A word of a command.

    Attributes:
        text: Without its quotes; what the shell would put into it stands there as it is written.
        is_plain: Whether that is all of it: the shell puts nothing into it.
    """

    text: str
    is_plain: bool = True


@dataclass(frozen=True)
class Document:
    """The beginning of a here-document.

    Attributes:
        start: Where it begins in the line.
        end: Where it ends there.
        word: What ends its body.
        is_indented: Whether tabs before that do not count.
    """

    start: int
    end: int
    word: str
    is_indented: bool


@dataclass(frozen=True)
class Command:
    """A simple command.

    Attributes:
        words: Of it, with the assignments before it.
        writes: Where its output goes, as far as it goes into files.
        documents: The here-documents that are its input, by their numbers in the line.
        is_fed: Whether its input is a file, a text or what another command prints.
    """

    words: tuple[Word, ...]
    writes: tuple[Word, ...] = ()
    documents: tuple[int, ...] = ()
    is_fed: bool = False


@dataclass(frozen=True)
class Line:
    """What a shell reads at once: a line, with what continues it.

    Attributes:
        text: Without line ends that a backslash took away.
        commands: All of them.
        documents: The here-documents that begin in it.
        bodies: Theirs, each with its line ends.
    """

    text: str
    commands: tuple[Command, ...]
    documents: tuple[Document, ...]
    bodies: tuple[str, ...] = ()
