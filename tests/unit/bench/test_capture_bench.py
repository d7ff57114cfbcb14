"""``lego-rl bench capture`` at a tenth of its size: which figures there are, and that they can be true."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from lego_rl.bench.capture import check_whole, talk
from lego_rl.bench.client import PATHS
from lego_rl.bench.policy import policy_folder
from lego_rl.bench.workload import Conversation, Shape
from lego_rl.commands import bench_capture
from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.trajectory import Accounting, Trajectory

TURNS = 20
ASKED_FOR = {
    "cpu_ms_last20",
    "p50_ms",
    "p99_ms",
    "cpu_s_trajectory",
    "cpu_ratio_vs_rerender",
    "max_call_ms_16",
    "rss_mb_per_trajectory",
    "disk_mb",
    "routes",
}
ASKED_FOR_WITH_ROUTES = {"cpu_s_trajectory", "disk_mb", "rss_mb"}
FURTHER = {
    "cpu_s_finish",
    "cpu_s_rerender",
    "rss_mb_per_trajectory_16",
    "rss_mb_free",
    "tokens",
    "sampled",
    "turns",
    "dialect",
    "body_of_4_mb",
}
CAPTURE_PAGE = Path(__file__).parents[3] / "docs" / "capture.md"


def measured(capsys: pytest.CaptureFixture[str], dialect: str, sessions: int) -> dict[str, Any]:
    bench_capture.capture(dialect, TURNS, sessions)
    figures: dict[str, Any] = json.loads(capsys.readouterr().out)
    return figures


@pytest.mark.parametrize(("dialect", "sessions"), [("openai-chat", 16), ("anthropic", 2)])
def test_the_figures(dialect: str, sessions: int, capsys: pytest.CaptureFixture[str]) -> None:
    figures = measured(capsys, dialect, sessions)
    routes = figures["routes"]
    shape = Shape.of(TURNS)
    assert set(figures) == {re.sub("_16$", f"_{sessions}", name) for name in ASKED_FOR | FURTHER}
    assert set(routes) == ASKED_FOR_WITH_ROUTES | {"cpu_s_finish"}
    assert (figures["dialect"], figures["turns"], figures["sampled"]) == (dialect, TURNS, shape.sampled)
    assert figures["tokens"] == pytest.approx(shape.total, rel=0.1)
    assert figures["body_of_4_mb"] is True
    assert 0 < figures["cpu_s_finish"] < figures["cpu_s_trajectory"]
    assert 0 < figures["cpu_ms_last20"] <= 1e3 * figures["cpu_s_trajectory"] / TURNS + 0.1, (
        "every turn is among the last"
    )
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]
    assert figures[f"max_call_ms_{sessions}"] > figures["p50_ms"]
    answering = figures["cpu_s_trajectory"] - figures["cpu_s_finish"]
    exact = figures["cpu_s_rerender"] / answering
    assert figures["cpu_ratio_vs_rerender"] == pytest.approx(exact, abs=0.1 / answering, rel=0.05)
    assert figures["cpu_ratio_vs_rerender"] > 2, "most of each prompt is known"
    least_mb = 4 * shape.sampled / 1e6  # the bits of log-probs that are as good as random
    assert least_mb / 2 < figures["disk_mb"] < 0.5
    raw_mb = (figures["tokens"] - 1) * 40 * 8 / 1e6
    assert routes["disk_mb"] == pytest.approx(figures["disk_mb"] + raw_mb, rel=0.01)
    assert 0 < routes["cpu_s_finish"] < routes["cpu_s_trajectory"]
    assert abs(routes["rss_mb"]) < raw_mb / 2, "they wait on the disk"


def test_every_figure_is_described() -> None:
    _, table = CAPTURE_PAGE.read_text(encoding="utf-8").split("## What capture costs")
    described = {
        name for line in table.splitlines() if line.startswith("| `") for name in re.findall("`([a-z0-9_]+)`", line)
    }
    assert described >= ASKED_FOR | FURTHER


def test_of_a_capture_that_lost_something_there_are_no_figures() -> None:
    said = Conversation("", "", (), replies=(), results=())
    nothing = Trajectory((), (), (), (), Accounting())
    with pytest.raises(RunError, match="in 0 segments"):
        check_whole(nothing, said)


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not speak smoke"):
        bench_capture.capture("smoke", TURNS, 1)


def test_a_client_that_gets_no_answer_ends_the_benchmark(tmp_path: Path) -> None:
    script = tmp_path / "conversation.json"
    script.write_text(json.dumps({"system": "", "task": "", "tools": [], "results": [""]}), encoding="utf-8")
    with pytest.raises(RunError, match="client failed"):
        asyncio.run(talk(script, next(iter(PATHS)), ["http://127.0.0.1:9/s/nobody"]))


def test_a_policy_folder_that_is_damaged_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = policy_folder()
    whole = (folder / "tokenizer.json").read_bytes()
    for damaged in (b"", whole[: len(whole) // 2]):
        (folder / "tokenizer.json").write_bytes(damaged)
        assert policy_folder() == folder
        assert (folder / "tokenizer.json").read_bytes() == whole
