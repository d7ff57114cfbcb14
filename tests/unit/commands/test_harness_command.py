"""``lego-rl harness``: what is said of harnesses that are not there, and of names that nobody knows."""

from pathlib import Path

import pytest

from lego_rl import cli
from lego_rl.harness import registry


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["lego-rl", "harness", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_list_has_a_line_for_every_harness(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, "list") == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["harness", "version", "size", "sha256", "licence", "state"]
    expected = [(name, registry.make(name).version, "missing") for name in registry.REGISTRY]
    assert [tuple(line.split()) for line in lines] == expected


@pytest.mark.parametrize(
    ("arguments", "problem", "fix"),
    [
        (["claude-cod"], "there is no harness 'claude-cod'", "did you mean claude-code?"),
        (["claude-code", "--only", "fixx"], "there is no situation 'fixx'", "did you mean fix?"),
        (["claude-code", "--set", "baer=true"], "unknown key harness.options.baer", "did you mean"),
        (["claude-code", "--set", "bare"], "bare", "="),
        (["claude-code"], "claude-code", "lego-rl harness install claude-code"),
    ],
)
def test_a_test_that_cannot_be_run_is_refused(
    arguments: list[str],
    problem: str,
    fix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    empty: Path,
) -> None:
    assert run(monkeypatch, "test", *arguments) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert problem in said[0]
    assert fix in said[1]
    assert not list(empty.iterdir())
