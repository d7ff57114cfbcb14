"""What the host refuses a command is said in two lines, like any other expected failure; a bug keeps its traceback."""

import errno
import io
import logging
import os
import shutil
from pathlib import Path

import pytest

from lego_rl import cli
from lego_rl.errors import ConfigError, LegoError, SandboxError


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


def full(error: LegoError) -> LegoError:
    error.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return error


@pytest.mark.parametrize(
    "error",
    [
        full(SandboxError("sandboxes cannot keep their files in x", "set sandbox.state to a folder of your own")),
        SandboxError("git stash failed: write error. Out of diskspace", "install another version of git"),
        SandboxError("a daemon said: write x: no space left on device".replace("no", "No"), "look at the daemon"),
        shutil.Error([("a", "b", f"[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}: 'b'")]),
        ExceptionGroup("tasks", [ExceptionGroup("tasks", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))])]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_full_disk_is_what_is_to_be_mended_whatever_met_it(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "free disk space" in told(error, monkeypatch, capsys)[1]


def test_the_error_of_one_of_several_tasks_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ExceptionGroup("unhandled errors in a TaskGroup", [ConfigError("a", "b")])
    assert told(error, monkeypatch, capsys) == ["lego-rl: a", "  fix: b"]
    with pytest.raises(ExceptionGroup, match="two"):
        told(ExceptionGroup("two", [ConfigError("a", "b"), KeyError("c")]), monkeypatch, capsys)


class FullDisk(io.StringIO):
    """A file on it."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_log_that_cannot_be_written_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        handler = logging.StreamHandler(FullDisk())
        handler.emit(logging.LogRecord("x", logging.ERROR, "", 0, "Failed to write", (), None))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cli, "app", command)
    with pytest.raises(SystemExit):
        cli.main()
    assert "Traceback" not in capsys.readouterr().err


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
