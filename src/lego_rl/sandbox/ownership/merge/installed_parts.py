"""What of packaging configuration an installation before the tests would put in the place of what runs them.

A script called ``pytest`` replaces the runner's, a requirement with an address of its own (``pytest @ file:///app/x``)
the library, and a build backend of the work tree's own is run there and then. What else packaging says is the agent's.
"""

from collections.abc import Iterator, Mapping

from lego_rl.sandbox.ownership.known.program_names import runs_tests

TABLES: tuple[tuple[str, ...], ...] = (
    ("build-system", "backend-path"), ("tool", "uv", "sources"), ("tool", "hatch", "build", "hooks"),
    ("tool", "poetry", "build"),
    ("tool", "setuptools", "cmdclass"), ("tool", "setuptools", "data-files"), ("tool", "setuptools", "script-files"),
    ("tool", "pdm", "build", "custom-hook"), ("tool", "pdm", "build", "run-setuptools"), ("tool", "maturin", "data"),
)  # fmt: skip
"""Of ``pyproject.toml``: programs of a build, and files that are put anywhere."""
SECTIONS = frozenset({"options.data_files", "install", "develop", "easy_install", "install_scripts", "build_py"})
OPTIONS = frozenset({("options", "cmdclass"), ("options", "scripts"), ("options", "setup_requires")})
"""Of ``setup.cfg`` the same."""

_SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("project", "scripts"),
    ("project", "gui-scripts"),
    ("tool", "poetry", "scripts"),
)
_REQUIREMENTS: tuple[tuple[str, ...], ...] = (
    ("project", "dependencies"),
    ("project", "optional-dependencies"),
    ("dependency-groups",),
)


def tables_in(document: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    """Paths in a ``pyproject.toml`` of scripts called like what runs tests, and of requirements with an address."""
    for path in _SCRIPTS:
        table = at(document, path)
        yield from ((*path, name) for name in (table if isinstance(table, dict) else ()) if runs_tests(name))
    for path in _REQUIREMENTS:
        found = at(document, path)
        named = found if isinstance(found, dict) else {}
        yield from ((*path, name) for name, value in named.items() if _has_address(value))
        if not named and _has_address(found):
            yield path


def is_own_value(section: str, option: str, value: str) -> bool:
    """The same of an option of ``setup.cfg``."""
    if section == "options.entry_points" and option in ("console_scripts", "gui_scripts"):
        return any(runs_tests(line.partition("=")[0].strip()) for line in value.splitlines())
    is_requirement = section == "options.extras_require" or (section, option) == ("options", "install_requires")
    return is_requirement and "@" in value


def _has_address(value: object) -> bool:
    texts = value if isinstance(value, list) else ()
    return any("@" in text for text in texts if isinstance(text, str))


def at(document: Mapping[str, object], path: tuple[str, ...]) -> object | None:
    """What stands at a path of keys; ``None`` where nothing does."""
    here: object | None = document
    for name in path:
        here = here.get(name) if isinstance(here, Mapping) else None
    return here
