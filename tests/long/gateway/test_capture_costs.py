"""What a conversation of 200,000 tokens may cost the gateway, measured. It needs a machine that does nothing else."""

import json

import pytest

from lego_rl.bench.client import PATHS
from lego_rl.commands import bench_capture


@pytest.mark.timeout(900)
@pytest.mark.parametrize("dialect", PATHS)
def test_a_long_trajectory_is_cheap(dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    bench_capture.capture(dialect, turns=200, sessions=16)
    printed = capsys.readouterr().out
    print(printed)
    figures = json.loads(printed)
    routes = figures["routes"]
    over = {
        name: (value, limit)
        for name, value, limit in [
            ("cpu_ms_last20", figures["cpu_ms_last20"], 10),
            ("cpu_s_trajectory", figures["cpu_s_trajectory"], 1.5),
            ("p50_ms", figures["p50_ms"], 20),
            ("p99_ms", figures["p99_ms"], 60),
            ("max_call_ms_16", figures["max_call_ms_16"], 1000),
            ("rss_mb_per_trajectory", figures["rss_mb_per_trajectory"], 4),
            ("disk_mb", figures["disk_mb"], 0.5),
            ("routes.cpu_s_trajectory", routes["cpu_s_trajectory"], 1.3 * figures["cpu_s_trajectory"]),
            ("routes.rss_mb", routes["rss_mb"], 4),
        ]
        if value > limit
    }
    assert not over
    assert figures["cpu_ratio_vs_rerender"] >= 40
    assert figures["tokens"] >= 199_000
    assert figures["sampled"] == 46_000
    assert figures["body_of_4_mb"] is True
