"""Real harnesses in sandboxes, in every situation that capture has to survive: each law holds in each."""

import asyncio
from collections.abc import Mapping

import pytest

from lego_rl.conformance.trial import Bench, try_all
from lego_rl.harness.base import OptionValue

CASES: dict[str, tuple[str, Mapping[str, OptionValue]]] = {
    "claude-code": ("claude-code", {}),
    "opencode": ("opencode", {"title": ""}),
    "openhands-sdk": ("openhands-sdk", {"condenser_max_size": 40}),
    "codex": ("codex", {}),
}
ROLES = {"claude-code": {"subagent"}, "opencode": {"title", "subagent"}}
"""Roles besides main that a harness shows in some situation."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", CASES)
def test_every_law_holds_in_every_situation(name: str) -> None:
    harness, options = CASES[name]
    reports = asyncio.run(try_all(Bench.prepare(harness, options)))
    broken = {report.situation.name: report.broken for report in reports if not report.held}
    assert not broken
    seen = {role for report in reports for role in report.roles}
    assert seen >= {"main", *ROLES.get(name, ())}
    assert "shell" not in {report.missing for report in reports}
