"""The log parsers of the package ``swebench`` (MIT), by their names in its ``PARSER_REGISTRY``.

Invariant: a log is read by a process of its own, which has a time and is killed after it (`swebench_program`); a log
that defeats a parser names no test. A test that pytest's own lines call failed is failed, whatever a parser makes of
lines that were printed after them: the parsers let the last line of a test count.

The package is an extra. Left out of its parsers are those that want to know of which row a log is.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import override

from lego_rl.errors import ExtraError
from lego_rl.tasks.reports.lines import FAILED, OF_PYTEST, OTHER, PYTEST, STATUSES, Found, Wanted, pytest_tests
from lego_rl.tasks.reports.log import LogParser

PREFIX, UNTIMED = "swebench:", "swebench-untimed:"
INSTALL = "pip install 'lego-rl[swebench]'"
NAMES = frozenset({
    "parse_log_ant", "parse_log_astroid", "parse_log_astropy", "parse_log_bpmn_js", "parse_log_calypso",
    "parse_log_carbon", "parse_log_cargo", "parse_log_chart_js", "parse_log_cucumber", "parse_log_django",
    "parse_log_doctest", "parse_log_eslint", "parse_log_flask", "parse_log_googletest", "parse_log_gotest",
    "parse_log_gradle_custom", "parse_log_grommet", "parse_log_highlightjs",
    "parse_log_jekyll", "parse_log_jest", "parse_log_jest_json", "parse_log_jq", "parse_log_karma",
    "parse_log_marked", "parse_log_marshmallow", "parse_log_matplotlib", "parse_log_maven",
    "parse_log_micropython_test", "parse_log_minitest", "parse_log_openlayers", "parse_log_p5js",
    "parse_log_phpunit", "parse_log_prismjs", "parse_log_pvlib", "parse_log_pydicom", "parse_log_pylint",
    "parse_log_pytest", "parse_log_pytest_options", "parse_log_pytest_v2", "parse_log_pyvista",
    "parse_log_quarto_cli", "parse_log_react_pdf", "parse_log_redis", "parse_log_requests",
    "parse_log_rspec_transformed_json", "parse_log_ruby_unit", "parse_log_scikit", "parse_log_seaborn",
    "parse_log_sphinx", "parse_log_sqlfluff", "parse_log_sympy", "parse_log_tap", "parse_log_vitest",
    "parse_log_xarray",
})  # fmt: skip
"""Of version 5.0.2. So that a task with one of them can be read, listed and filtered where the package is not."""

UNTIMED_OPTION = "--untimed"
NOT_INSTALLED = 3
"""Exit status of the program where there is no such package, or it has no such parser."""
PARSER_SECONDS = 60.0
"""That a log may take; the longest honest ones, of tens of MB, take a few."""
_PROGRAM = "lego_rl.tasks.reports.swebench_program"


class SwebenchParser(LogParser):
    """``swebench:NAME``.

    Args:
        name: In `NAMES`.
        seconds: That reading a log may take.
    """

    options: tuple[str, ...] = ()
    """Of the program that reads a log."""

    def __init__(self, name: str, seconds: float = PARSER_SECONDS) -> None:
        super().__init__(self._read_log, PYTEST if name in OF_PYTEST else OTHER)
        self.name = name
        self._seconds = seconds

    @override
    def check_usable(self) -> None:
        if importlib.util.find_spec("swebench") is None:
            raise ExtraError(f"the log parser {self.name} is of swebench 5, which is not installed", INSTALL)

    def _read_log(self, text: str, wanted: Iterable[str] | None) -> Found:
        tests = None if wanted is None else tuple(wanted)
        return Found(self._said(text, tests), None if tests is None else Wanted(tests))

    def _said(self, text: str, wanted: Sequence[str] | None) -> Iterator[tuple[str, str]]:
        """Tests and statuses; what pytest's own lines call failed too, so that no line after it makes it pass."""
        yield from ((test, STATUSES[word]) for test, word in self._ask(text, wanted) if word in STATUSES)
        yield from ((test, status) for test, status in pytest_tests(text) if status in FAILED)

    def _ask(self, text: str, wanted: Sequence[str] | None) -> list[tuple[str, str]]:
        self.check_usable()
        command = [sys.executable, "-P", "-B", "-m", _PROGRAM, self.name, *self.options]
        request = json.dumps(wanted).encode() + b"\n" + text.encode()
        try:
            done = subprocess.run(command, input=request, capture_output=True, timeout=self._seconds, check=False)
        except subprocess.TimeoutExpired:
            return []
        if done.returncode == NOT_INSTALLED:
            raise ExtraError(f"the installed swebench has no log parser {self.name}", INSTALL)
        return [] if done.returncode != 0 else [(test, word) for test, word in json.loads(done.stdout)]


class UntimedParser(SwebenchParser):
    """``swebench-untimed:NAME``: the same, with names that say nothing of how long a test took (SWE-rebench V2)."""

    options = (UNTIMED_OPTION,)
