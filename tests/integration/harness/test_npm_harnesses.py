"""OpenCode, Qwen Code and Codex, real and in a sandbox: titles, compactions and options, every token accounted for.

What every harness goes through, plain or with trouble, is in tests/integration/conformance.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from lego_rl.conformance.policy import FIX, Shell
from lego_rl.conformance.situations import SITUATIONS, Seen
from lego_rl.conformance.trial import Bench, Report
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.harness.base import OptionValue

NOISE = tuple(Shell(f"seq {1000 * index} {1000 * index + 700}") for index in range(1, 5))
"""Commands with some two thousand tokens of output each."""


def put(
    name: str,
    options: dict[str, OptionValue],
    outcome: Callable[[Trajectory], str] = lambda _: "",
    *,
    noise: tuple[Shell, ...] = (),
) -> Report:
    """Have a harness do the job, after some noise."""

    def both(seen: Seen) -> str:
        return outcome(seen.trajectory) if seen.mended else "the job was not done"

    situation = replace(
        SITUATIONS[0],
        steps=(*noise, *FIX),
        outcome=both,
    )
    return asyncio.run(Bench.prepare(name, options).run(situation))


def tools(*, without: set[str]) -> Callable[[Trajectory], str]:
    def check(trajectory: Trajectory) -> str:
        offered = {tool.name for tool in trajectory.tools}
        return f"offered: {offered & without}" if offered & without else ""

    return check


def says(trajectory: Trajectory, text: str) -> str:
    return "" if text in trajectory.conversations[0][0].content else "the system prompt does not say it"


def test_a_title_is_a_conversation_of_its_own() -> None:
    report = put("opencode", {"title": ""})
    assert report.held, report.broken
    assert report.roles == {"main": 5, "title": 1}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("opencode", {"compact_at_tokens": 24_000}),
        ("qwen-code", {"context_tokens": 50_000}),
        ("codex", {"compact_at_tokens": 24_000}),
    ],
)
def test_a_compaction_loses_no_token(name: str, options: dict[str, OptionValue]) -> None:
    report = put(name, options, noise=NOISE)
    assert report.held, report.broken
    assert report.roles["compaction"] >= 1
    assert report.segments > report.roles["compaction"]


def test_opencode_options_shape_the_request() -> None:
    def outcome(trajectory: Trajectory) -> str:
        return tools(without={"task", "webfetch", "edit", "write"})(trajectory) or says(trajectory, "Mend code.")

    report = put("opencode", {"disabled_tools": ["task", "webfetch", "edit"], "system_prompt": "Mend code."}, outcome)
    assert report.held, report.broken


def test_qwen_code_options_shape_the_request() -> None:
    def outcome(trajectory: Trajectory) -> str:
        return tools(without={"agent", "skill", "glob"})(trajectory) or says(trajectory, "Mend code.")

    options: dict[str, OptionValue] = {
        "tools": ["run_shell_command", "edit"],
        "excluded_tools": ["agent", "skill"],
        "system_prompt": "Mend code.",
    }
    report = put("qwen-code", options, outcome)
    assert report.held, report.broken
