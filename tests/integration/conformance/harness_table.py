"""What each harness is expected to show in the situations: one table, for the tests of every run and the long ones."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from lego_rl.conformance.trial import Bench, try_all
from lego_rl.harness.base import OptionValue


@dataclass(frozen=True)
class Expected:
    """One harness.

    Attributes:
        options: It is tried with.
        subagent: Whether it has sub-agents.
        compacts: Situations in which a history is summed up.
        titles: Whether it asks for a title in each run.
        malformed: What the malformed call comes to: calls of the main conversation.
    """

    options: Mapping[str, OptionValue] = field(default_factory=dict)
    subagent: bool = True
    compacts: tuple[str, ...] = ()
    titles: bool = False
    malformed: int = 1


EXPECTED = {
    "claude-code": Expected(compacts=("too-long", "context")),
    "opencode": Expected({"title": ""}, titles=True),
    "openhands-sdk": Expected({"condenser_max_size": 40}, subagent=False, compacts=("too-long", "context")),
    "codex": Expected(),
    "mini-swe-agent": Expected(subagent=False, malformed=6),
    "qwen-code": Expected(compacts=("too-long", "context")),
}


def check_every_situation(name: str) -> None:
    """Each law holds in each situation, and the calls are for what they are expected to be for."""
    expected = EXPECTED[name]
    reports = asyncio.run(try_all(Bench.prepare(name, expected.options)))
    assert {report.situation.name: report.broken for report in reports if not report.held} == {}
    found = {report.situation.name: set(report.roles) for report in reports}
    assert found == {situation: roles(expected, situation) for situation in found}
    by_name = {report.situation.name: report for report in reports}
    assert by_name["malformed"].roles["main"] == expected.malformed
    assert {name: report.missing for name, report in by_name.items() if report.missing} == (
        {} if expected.subagent else {"subagent": "subagent"}
    )


def roles(expected: Expected, situation: str) -> set[str]:
    """What the calls are for in a situation."""
    found = {"main"}
    if situation == "subagent" and expected.subagent:
        found.add("subagent")
    if situation in expected.compacts:
        found.add("compaction")
    if expected.titles:
        found.add("title")
    return found
