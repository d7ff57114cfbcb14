"""INI files as their readers have them.

They are read by two libraries that do not agree on every text: pytest's own (iniconfig) and the standard one, which
tox, coverage and setuptools use. Both have to find the same.
"""

import configparser
import io

import iniconfig

type Sections = dict[str, dict[str, str]]


class UnreadableError(ValueError):
    """A configuration that no reader, or not every reader, understands."""


def ini_text(content: bytes) -> str:
    """Of a file that may be in another encoding: who reads such a file as UTF-8 fails, and finds no options in it."""
    return content.decode("utf-8-sig", errors="surrogateescape")


def _standard() -> configparser.RawConfigParser:
    # No section is a default for the others here, and names keep their case.
    parser = configparser.RawConfigParser(default_section="\0", strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as the library's manual has it
    return parser


def read_standard(text: str) -> Sections:
    """What the standard library finds.

    Raises:
        UnreadableError: Nothing.
    """
    return {name: {key: lines(value) for key, value in each.items()} for name, each in values_of(text).items()}


def values_of(text: str) -> Sections:
    """Values as they stand: one that begins on a line of its own is a list to setuptools."""
    parser = _standard()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise UnreadableError(str(error)) from error
    return {name: dict(parser.items(name)) for name in parser.sections()}


def read_iniconfig(text: str) -> Sections:
    """What pytest's library finds.

    Raises:
        UnreadableError: Nothing.
    """
    try:
        sections = iniconfig.IniConfig("configuration", data=text).sections
    except iniconfig.ParseError as error:
        raise UnreadableError(str(error)) from error
    return {name: {key: lines(value) for key, value in options.items()} for name, options in sections.items()}


def lines(value: str) -> str:
    """A value without what readers and writers add around its lines."""
    return "\n".join(line.strip() for line in value.strip().splitlines() if line.strip())


def write_ini(sections: Sections) -> str:
    """A text of which both find these sections; whether they do is for the caller to ask.

    Raises:
        UnreadableError: A name cannot be written.
    """
    parser = _standard()
    for name, options in sections.items():
        try:
            parser.add_section(name)
            for key, value in options.items():
                parser.set(name, key, value)
        except (configparser.Error, ValueError) as error:
            raise UnreadableError(str(error)) from error
    out = io.StringIO()
    parser.write(out)
    return out.getvalue()
