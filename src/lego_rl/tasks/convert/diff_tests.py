"""Which tests a row runs, by the files that its test patch touches: the rule of SWE-bench and its descendants."""

from collections.abc import Iterable

from lego_rl.tasks.unified_diff import FileDiff

NO_TESTS = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
"""Ends of names of files that are data of tests (``NON_TEST_EXTS`` of swebench 4.1.0)."""


def touched(files: Iterable[FileDiff]) -> tuple[str, ...]:
    """Every path that a diff makes, changes or deletes."""
    return tuple(dict.fromkeys(path for file in files for path in file.paths))


def test_files(files: Iterable[FileDiff]) -> list[str]:
    """The files that are run: those that are there after the patch, and are no data."""
    return [file.after for file in files if file.after is not None and not file.after.endswith(NO_TESTS)]


def django_modules(files: Iterable[FileDiff]) -> list[str]:
    """The same, as Django's own runner names them."""
    return [path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in test_files(files)]
