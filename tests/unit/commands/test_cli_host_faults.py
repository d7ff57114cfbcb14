"""What the host refuses a command is said in two lines, like any other expected failure; a bug keeps its traceback."""

import errno
import os
from pathlib import Path

import pytest

from lego_rl import cli
from lego_rl.errors import ConfigError


def told(error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    def command() -> None:
        raise error

    monkeypatch.setattr(cli, "app", command)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.ENOSPC, "free disk space"),
        (errno.EDQUOT, "within your quota"),
        (errno.EROFS, "that can be written"),
        (errno.EACCES, "that you may use"),
        (errno.EMFILE, "ulimit -n"),
    ],
)
def test_what_the_host_lacks_is_no_traceback(
    number: int, fix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, advice = told(OSError(number, os.strerror(number), "metrics.jsonl"), monkeypatch, capsys)
    assert problem.startswith("lego-rl: ") and "metrics.jsonl" in problem
    assert advice.startswith("  fix: ") and fix in advice


def test_another_error_of_the_system_is_a_bug_and_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        told(OSError(errno.EBADF, os.strerror(errno.EBADF)), monkeypatch, None)  # type: ignore[arg-type]


def test_many_lines_of_a_library_become_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(ConfigError("a\n\n  b", "c"), monkeypatch, capsys) == ["lego-rl: a b", "  fix: c"]


@pytest.mark.parametrize("arguments", [["report"], ["train", "--resume"]])
def test_a_name_that_is_too_long_is_said(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["lego-rl", *arguments, str(tmp_path / ("x" * 300))])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.splitlines()[1] == "  fix: choose a shorter name"
