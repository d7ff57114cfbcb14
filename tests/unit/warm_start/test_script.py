"""Demonstrations as token ids: prompts are read back, turns are spelled as the policy would."""

import asyncio
from importlib.resources import files
from pathlib import Path

import pytest
from workbench import Workbench

from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import ScriptedEngine
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls.qwen3_coder import Qwen3CoderParser
from lego_rl.messages import Message, Tool, ToolCall
from lego_rl.tasks.families import TRAINED
from lego_rl.tasks.generate import generate
from warm_start.demonstrator import Demonstrator
from warm_start.mistakes import MistakeRates
from warm_start.script import DemonstrationScript
from warm_start.toolsets import toolset
from warm_start.transcript import read_transcript

POLICY = Path(str(files("lego_rl.policies") / "demo"))
TOOLS = (Tool("Bash", "run"), Tool("Read", "show"), Tool("Edit", "change"))


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate.load(POLICY)


def plain(messages: list[Message]) -> list[tuple[str, str, list[tuple[str, dict[str, object]]]]]:
    return [(m.role, m.content, [(call.name, dict(call.arguments)) for call in m.tool_calls]) for m in messages]


def test_a_rendered_conversation_is_read_back(template: ChatTemplate) -> None:
    conversation = [
        Message("user", "`f` is wrong.\n\nFix it."),
        Message("assistant", "", (ToolCall("1", "Bash", {"command": 'grep -rn "def f" .'}),)),
        Message("tool", "./a/b.py:4:def f(x):", tool_call_id="1"),
        Message("assistant", "Now this.", (ToolCall("2", "Read", {"file_path": "/app/a/b.py"}),)),
        Message("tool", "1\tx = 1\n2\t\n3\t    return x\n", tool_call_id="2"),
    ]
    prompt = template.opening([Message("system", "You are an agent."), *conversation], TOOLS)
    assert plain(read_transcript(template.decode(prompt))) == plain(conversation)


@pytest.mark.parametrize("harness", ["claude-code", "openhands-sdk", "opencode"])
def test_a_trial_through_token_ids_is_the_trial_itself(template: ChatTemplate, harness: str, tmp_path: Path) -> None:
    """The engine sees ids alone; at default rates the trials hold every mistake."""
    trials = [(generate(3, family.name, index, "warm"), index) for family in TRAINED for index in range(3)]
    demonstrators = [Demonstrator(task, toolset(harness), MistakeRates(), seed) for task, seed in trials]
    assert {mistake for each in demonstrators for mistake in each.mistakes} == set(MistakeRates.model_fields)
    issues = {task.instruction: each for (task, _), each in zip(trials, demonstrators, strict=True)}
    engine = ScriptedEngine(DemonstrationScript(POLICY, issues))
    for (task, seed), demonstrator in zip(trials, demonstrators, strict=True):
        expected = Workbench(task, tmp_path / f"{task.id}-{seed}").run(demonstrator)
        for index, message in enumerate(expected):
            if message.role == "assistant":
                prompt = template.opening(expected[:index], TOOLS)
                sample = asyncio.run(engine.generate(prompt, Sampling(1.0, 400, template.stop_token_ids)))
                assert sample.finish_reason == "stop"
                assert len(sample.token_ids) <= 100
                parsed = Qwen3CoderParser().parse(template.decode(sample.token_ids), ())
                assert parsed.content == message.content
                assert [(c.name, c.arguments) for c in parsed.calls] == [
                    (c.name, c.arguments) for c in message.tool_calls
                ]


def test_a_prompt_about_another_task_is_refused(template: ChatTemplate) -> None:
    engine = ScriptedEngine(DemonstrationScript(POLICY, {}))
    prompt = template.opening([Message("user", "Write a poem.")], ())
    with pytest.raises(EngineError, match="no demonstration for 'Write a poem"):
        asyncio.run(engine.generate(prompt, Sampling(1.0, 10, template.stop_token_ids)))
