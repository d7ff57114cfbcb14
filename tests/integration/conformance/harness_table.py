"""What each harness is expected to show in the situations: one table, for the tests of every run and the long ones."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.analysis.document import read_document
from lego_rl.analysis.tables import tool_table
from lego_rl.analysis.view import view_of
from lego_rl.conformance.trial import Bench, Report, try_all
from lego_rl.gateway.atif import to_atif
from lego_rl.gateway.trajectory import CallRole
from lego_rl.harness.base import OptionValue

type Calls = Mapping[CallRole, int]

CALLS: Mapping[str, Calls] = {
    "fix": {"main": 5},
    "malformed": {"main": 1},
    "unknown-tool": {"main": 6},
    "unavailable": {"main": 5},
    "cut": {"main": 6},
    "cut-again": {"main": 7},
    "lost": {"main": 6},
    "too-long": {"main": 2},
    "subagent": {"main": 6, "subagent": 2},
    "subagents": {"main": 6, "subagent": 4},
    "turns": {"main": 2},
    "context": {"main": 2},
    "wall-clock": {"main": 2},
    "hostile-repo": {"main": 5},
}
"""Situation → how many calls are for what, where a harness does nothing else."""


@dataclass(frozen=True)
class Expected:
    """One harness.

    Attributes:
        options: It is tried with.
        subagent: Whether it has sub-agents.
        calls: Situation → how many calls are for what, where that is not as in `CALLS`.
        varies: Situations in which a harness asks now more often, now less: only what the calls are for is compared.
    """

    options: Mapping[str, OptionValue] = field(default_factory=dict)
    subagent: bool = True
    calls: Mapping[str, Calls] = field(default_factory=dict)
    varies: tuple[str, ...] = ()


NO_SUBAGENT: Mapping[str, Calls] = {"subagent": {"main": 5}, "subagents": {"main": 5}}
TITLES: Mapping[str, Calls] = {name: {**calls, "title": 1} for name, calls in CALLS.items()}
"""Where each run begins with a call for a title."""

EXPECTED = {
    "claude-code": Expected(
        calls={"too-long": {"main": 5, "compaction": 2}, "context": {"main": 8, "compaction": 6}}, varies=("context",)
    ),
    "opencode": Expected(
        {"title": ""},
        # The title is one of the two requests whose answers break off, or of those before the refused one, or of two.
        calls=TITLES
        | {
            "cut-again": {"main": 6, "title": 2},
            "too-long": {"main": 1, "title": 1},
            "turns": {"main": 1, "title": 1},
            "wall-clock": {"main": 1, "title": 1},
        },
    ),
    "openhands-sdk": Expected(
        {"condenser_max_size": 40},
        subagent=False,
        calls=NO_SUBAGENT | {"too-long": {"main": 5, "compaction": 1}, "context": {"main": 6, "compaction": 2}},
    ),
    "codex": Expected(),
    "mini-swe-agent": Expected(subagent=False, calls=NO_SUBAGENT | {"malformed": {"main": 6}, "context": {"main": 1}}),
    "qwen-code": Expected(
        calls={"too-long": {"main": 5, "compaction": 2}, "context": {"main": 13, "compaction": 4}},
        # Its shell loses output now and then, and the command is given again.
        varies=(
            "unknown-tool",
            "unavailable",
            "cut",
            "cut-again",
            "lost",
            "too-long",
            "subagent",
            "subagents",
            "context",
        ),
    ),
}


def check_every_situation(name: str) -> None:
    """Each law holds in each situation, and the calls are for what they are expected to be for."""
    expected = EXPECTED[name]
    reports = asyncio.run(try_all(Bench.prepare(name, expected.options)))
    assert {report.situation.name: report.broken for report in reports if not report.held} == {}
    for report in reports:
        check_analysis_knows(name, report)
    calls = CALLS | expected.calls
    found = {report.situation.name: counted(expected, report.situation.name, report.roles) for report in reports}
    assert found == {name: counted(expected, name, calls[name]) for name in found}
    assert {report.situation.name: report.missing for report in reports if report.missing} == (
        {} if expected.subagent else {"subagent": "subagent", "subagents": "subagent"}
    )


def check_analysis_knows(name: str, report: Report) -> None:
    """The analysis of behaviour knows every tool that the harness really offers, and what each call of a fix does."""
    if report.trajectory is None:
        return
    table = tool_table(name)
    assert {tool.name for tool in report.trajectory.tools} <= set(table.tools)
    if report.situation.name == "fix":
        document = to_atif(report.trajectory, harness=name, version="", session_id="").to_json_dict()
        view = view_of(read_document(Path(name), json.dumps(document)), table)
        kinds = [action.kind.value for call in view.calls for action in call.actions]
        assert [kind for kind in kinds if kind not in {"other", "finish"}] == ["search", "read", "edit", "read"]
        assert not any(call.malformed or call.failed for call in view.calls)


def counted(expected: Expected, situation: str, calls: Calls) -> Calls | set[CallRole]:
    """What is compared of a situation: the counts, or where they vary, what is counted."""
    return set(calls) if situation in expected.varies else dict(calls)
