"""From what a test command leaves to a status for each test, by the parser that ``tests/spec.json`` names."""

from lego_rl.errors import TaskError
from lego_rl.tasks.reports.junit import JunitParser
from lego_rl.tasks.reports.lines import PYTEST, pytest_tests, r2e_tests
from lego_rl.tasks.reports.log import LogParser, line_reader
from lego_rl.tasks.reports.status import ListingParser, Report, ReportParser, TestStatus
from lego_rl.tasks.reports.swebench import NAMES, PREFIX, UNTIMED, SwebenchParser, UntimedParser

__all__ = ["PARSERS", "ListingParser", "Report", "ReportParser", "TestStatus", "listing_parser", "parser_named"]

PARSERS: dict[str, JunitParser | LogParser] = {
    "pytest-junit": JunitParser(),
    "pytest-log": LogParser(line_reader(pytest_tests), PYTEST),
    "r2e-log": LogParser(line_reader(r2e_tests), PYTEST),
    **{f"{PREFIX}{name}": SwebenchParser(name) for name in sorted(NAMES)},
    **{f"{UNTIMED}{name}": UntimedParser(name) for name in sorted(NAMES)},
}
"""Parser by the name that a specification gives."""


def parser_named(name: str) -> ReportParser:
    """The parser called `name`.

    Raises:
        TaskError: There is none.
    """
    if name not in PARSERS:
        raise TaskError(
            f"there is no report parser {name!r}",
            f"use one of {', '.join(known for known in PARSERS if ':' not in known)} or "
            f"{PREFIX}NAME with a parser's name in swebench 5",
        )
    return PARSERS[name]


def listing_parser(name: str) -> ListingParser:
    """Likewise, one that finds tests whose ids nobody knows yet.

    Raises:
        TaskError: There is none.
    """
    parser = parser_named(name)
    if not isinstance(parser, LogParser):
        raise TaskError(f"the report parser {name!r} finds only tests that it is asked for", "use pytest-log")
    return parser
