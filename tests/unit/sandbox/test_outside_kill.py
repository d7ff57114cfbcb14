"""What the end of a sandbox says of who ended it; real kills are integration tests."""

import resource
import signal
from pathlib import Path

import pytest

from lego_rl.sandbox import outside_kill as module
from lego_rl.sandbox.loss import LossCause
from lego_rl.sandbox.outside_kill import increase, oom_kills, outside_kill


@pytest.mark.parametrize("status", [-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, 128 + signal.SIGKILL])
def test_a_signal_that_nothing_inside_can_send_is_evidence(status: int) -> None:
    loss = outside_kill(status)
    assert loss is not None
    assert loss.cause is LossCause.KILLED
    assert signal.Signals(abs(status) % 128).name in loss.found


@pytest.mark.parametrize(
    "status",
    [None, 0, 1, 70, 127, 128 + signal.SIGTERM, 128 + signal.SIGSEGV, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGSYS],
)
def test_any_other_end_is_none(status: int | None) -> None:
    assert outside_kill(status) is None


def test_kills_for_memory_are_read_where_the_kernel_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "vmstat"
    monkeypatch.setattr(module, "_VMSTAT", table)
    assert oom_kills() is None
    table.write_text("nr_free_pages 9\noom_kill_not 3\noom_kill 12\n")
    assert oom_kills() == 12
    assert (increase(12, oom_kills()), increase(None, 12)) == (0, None)
    table.write_text("nr_free_pages 9\n")
    assert oom_kills() is None


def test_where_processor_time_is_limited_the_kernel_may_have_sent_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (3600, 3600))
    assert outside_kill(128 + signal.SIGKILL) is None
    assert outside_kill(-signal.SIGKILL) is not None
