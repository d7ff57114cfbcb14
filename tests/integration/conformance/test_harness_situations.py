"""Real harnesses in sandboxes, in every situation that capture has to survive: each law holds in each."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from harness_table import check_every_situation

from lego_rl.conformance.laws import Law
from lego_rl.conformance.situations import SITUATIONS
from lego_rl.conformance.trial import Bench
from lego_rl.errors import CaptureError
from lego_rl.gateway.server import Gateway


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["claude-code", "opencode", "openhands-sdk", "codex"])
def test_every_law_holds_in_every_situation(name: str) -> None:
    check_every_situation(name)


def test_the_command_prints_which_laws_held() -> None:
    command = [Path(sys.executable).with_name("lego-rl"), "harness", "test", "codex", "--only", "turns"]
    environment = {**os.environ, "COLUMNS": "80"}
    finished = subprocess.run(
        [*command, "--set", "goals=false"], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    bundle, heading, line = finished.stdout.splitlines()
    assert bundle.startswith("codex ")
    assert heading.split() == ["situation", *Law, "calls", "seg", "sec"]
    assert line.split()[:-1] == ["turns", *["yes"] * len(Law), "2×main", "1"]


def test_a_harness_without_its_tools_is_told_by_the_command() -> None:
    command = [Path(sys.executable).with_name("lego-rl"), "harness", "test", "claude-code", "--only", "fix"]
    finished = subprocess.run([*command, "--set", 'tools=["Nope"]'], capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert "fix: outcome: it offers no Bash, the tool that runs commands" in finished.stdout
    assert "fix: exit code 0; its last words:" in finished.stdout
    assert "claude-code broke a law in 1 of 1 situations: fix" in finished.stderr


def test_without_an_answered_call_no_law_of_capture_is_said_to_hold() -> None:
    refused = replace(SITUATIONS[0], faults={1: "too long"})
    report = asyncio.run(Bench.prepare("codex").run(refused))
    assert report.laws == {
        Law.SILENT: "",
        Law.ENDED: "",
        Law.OUTCOME: "none of 1 requests for a completion was answered",
    }


def test_of_a_record_that_contradicts_itself_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def contradiction(*_: object) -> None:
        raise CaptureError("routes contradict each other")

    monkeypatch.setattr(Gateway, "close", contradiction)
    report = asyncio.run(Bench.prepare("codex").run(SITUATIONS[0]))
    assert report.laws == {Law.SILENT: "", Law.ENDED: "", Law.EXACT: "routes contradict each other"}
    assert report.requests == 5
