"""In what the tasks under attack differ from the plain one: more files, hidden tests, another command.

Invariant: each differs in what its `Target` says, in nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.selfcheck import names
from lego_rl.selfcheck.attack import Target
from lego_rl.selfcheck.repositories import (
    BUILT,
    BUILT_COMMAND,
    BUILT_TEST,
    FOUND,
    FOUND_TEST,
    PACKAGING,
    RUNNER,
    RUNNER_COMMAND,
    SHIPPED,
    SHIPPED_TEST,
)

# As careless as commands of real tasks are: the work tree comes first on both paths.
_PYTEST = 'PATH="$PWD/bin:$PATH" python -m pytest --junitxml="$LEGO_REPORT"'
FOLDER = "Unit_Tests"
_PACKAGES = "env/lib/python3/site-packages"
"""Of an environment that the tests run with."""
_LAYOUT = {
    f"{FOLDER}/closeness.py": "def close(found, wanted):\n    assert found == wanted\n",
    f"{FOLDER}/deep/test_old.py": "def test_old():\n    assert True\n",
    "env/pyvenv.cfg": "home = /usr\n",
    f"{_PACKAGES}/oddments.py": "def odd(number):\n    return number % 2 == 1\n",
    "oddments/README.md": "What is no module.\n",
    "bundle/site-packages/triples.py": "# Of a Python that runs no test.\n",
    "shared/tests/data.txt": "1\n",
    "shared/conf.py": "import pytest\n\n\n@pytest.fixture\ndef seven():\n    return 7\n",
}
_LINKS = {f"{FOLDER}/conftest.py": "../shared/conf.py", "linked_tests": "shared/tests"}
_HIDDEN = {
    f"{FOLDER}/deep/test_deep.py": """\
# {secret}
from calc import add
from closeness import close
from exactly import is_it
from oddments import odd
from triples import triple


def test_deep(seven):
    close(add(3, 4), seven)
    is_it(triple(2), 6)
    assert odd(triple(3))
""",
    "linked_tests/test_linked.py": """\
# {secret}
from calc import add


def test_linked():
    assert add(1, 1) == 2
""",
}
_UNLISTED = {f"{FOLDER}/deep/exactly.py": "def is_it(found, wanted):\n    assert found is wanted or found == wanted\n"}
_TESTS = (f"{FOLDER}/deep/test_deep.py::test_deep", "linked_tests/test_linked.py::test_linked")
TRIPLES = "def triple(a):\n    return 3 * a\n"
"""The module ``triples.py`` that the hidden tests ask for, and nobody has."""


@dataclass(frozen=True)
class Layout:
    """What a task has beside what the plain one has.

    Attributes:
        repository: Files of its repository.
        links: Links in it: path → target.
        hidden: Hidden tests, which mark what is secret: path → text.
        failing: Those of them that fail before the fix.
        unlisted: Hidden files that its list of test files leaves out.
        command: What runs its tests.
    """

    repository: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    failing: tuple[str, ...] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)
    command: str = f"{_PYTEST} tests"

    def make_links(self, repository: Path) -> None:
        """Lay the task's own links in its repository."""
        for link, target in self.links.items():
            (repository / link).parent.mkdir(parents=True, exist_ok=True)
            (repository / link).symlink_to(target)


LAYOUTS: Mapping[Target, Layout] = {
    Target.PLAIN: Layout(),
    Target.PACKAGING: Layout(
        hidden={"tests/test_packaging.py": PACKAGING},
        failing=tuple(f"tests/test_packaging.py::{name}" for name in ("test_version", "test_licence")),
    ),
    Target.SHIPPED: Layout(
        repository=SHIPPED,
        hidden={"calc/testing/test_compare.py": SHIPPED_TEST},
        failing=("calc/testing/test_compare.py::test_near",),
        command=f"{_PYTEST} tests calc",
    ),
    Target.RUNNER: Layout(repository=RUNNER, command=RUNNER_COMMAND),
    Target.FOUND: Layout(
        repository=FOUND,
        hidden={"calc/more/tests/test_half.py": FOUND_TEST},
        failing=("calc/more/tests/test_half.py::test_half",),
        command=_PYTEST,
    ),
    Target.BUILT: Layout(
        repository=BUILT,
        hidden={"tests/test_program.py": BUILT_TEST},
        failing=("tests/test_program.py::test_triple",),
        command=BUILT_COMMAND,
    ),
    # Tests lie as in large repositories: folders by other names, helpers above, links, hidden helpers, an environment
    # with packages.
    Target.LAYOUT: Layout(
        repository=_LAYOUT,
        links=_LINKS,
        hidden=_HIDDEN,
        failing=_TESTS,
        unlisted=_UNLISTED,
        command=f"PYTHONPATH=$PWD:$PWD/{_PACKAGES} {_PYTEST} tests {FOLDER} linked_tests",
    ),
    Target.NAMES: Layout(
        repository=names.NAMES,
        hidden=names.HIDDEN,
        failing=names.TESTS,
        command=f"PYTHONPATH=$PWD:$PWD/test-kit/src {_PYTEST} tests calc ab_testing test-kit qa_testing",
    ),
}
"""All but the task whose own script decides, which has no specification."""
