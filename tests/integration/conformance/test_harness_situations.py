"""Real harnesses in sandboxes, in every situation that capture has to survive: each law holds in each."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lego_rl.conformance.trial import LAWS, Bench, try_all
from lego_rl.harness.base import OptionValue

CASES: dict[str, tuple[str, Mapping[str, OptionValue]]] = {
    "claude-code": ("claude-code", {}),
    "opencode": ("opencode", {"title": ""}),
    "openhands-sdk": ("openhands-sdk", {"condenser_max_size": 40}),
    "codex": ("codex", {}),
}
ROLES = {
    "claude-code": {"subagent", "compaction"},
    "opencode": {"subagent", "title"},
    "openhands-sdk": {"compaction"},
    "codex": {"subagent"},
}
"""Roles besides main that a harness shows in some situation."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", CASES)
def test_every_law_holds_in_every_situation(name: str) -> None:
    harness, options = CASES[name]
    reports = asyncio.run(try_all(Bench.prepare(harness, options)))
    broken = {report.situation.name: report.broken for report in reports if not report.held}
    assert not broken
    seen = {role for report in reports for role in report.roles}
    assert seen == {"main", *ROLES[name]}
    assert "shell" not in {report.missing for report in reports}


def test_the_command_prints_which_laws_held() -> None:
    command = [Path(sys.executable).with_name("lego-rl"), "harness", "test", "codex", "--only", "turns"]
    environment = {**os.environ, "COLUMNS": "120"}
    finished = subprocess.run(
        [*command, "--set", "goals=false"], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    bundle, heading, line = finished.stdout.splitlines()
    assert bundle.startswith("codex ")
    assert heading.split() == ["situation", *LAWS, "calls", "segments", "seconds"]
    assert line.split()[:-1] == ["turns", *["yes"] * len(LAWS), "2", "main", "1"]
