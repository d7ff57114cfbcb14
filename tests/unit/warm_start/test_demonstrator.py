"""The demonstrator solves what it means to solve, fails in the ways it is told to, and reads what the tools say."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workbench import Workbench, tool_names

from lego_rl.errors import ConfigError
from lego_rl.gateway.tool_calls.qwen3_coder import Qwen3CoderParser
from lego_rl.messages import Message, ToolCall
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.families import TRAINED
from lego_rl.tasks.generate import generate
from warm_start.demonstrator import Demonstrator
from warm_start.mistakes import Mistake, MistakeRates
from warm_start.toolsets import found_path, listed_lines, toolset

HARNESSES = ("claude-code", "openhands-sdk", "opencode")
FLAWLESS = MistakeRates(wrong_file=0, stops_early=0, malformed=0, wrong_line=0, wrong_fix=0)


def only(mistake: Mistake) -> MistakeRates:
    return FLAWLESS.model_copy(update={mistake.value: 1.0})


def warm_tasks(count: int) -> list[BugTask]:
    return [generate(1, family.name, index, "warm") for index in range(count) for family in TRAINED]


@pytest.mark.parametrize("harness", HARNESSES)
def test_without_mistakes_every_task_is_solved_in_four_turns(harness: str, tmp_path: Path) -> None:
    for task in warm_tasks(8):
        bench = Workbench(task, tmp_path / task.id)
        messages = bench.run(Demonstrator(task, toolset(harness), FLAWLESS, seed=0))
        assert bench.solved(), task.id
        assert sum(message.role == "assistant" for message in messages) == 4


@pytest.mark.parametrize("mistake", list(Mistake))
@pytest.mark.parametrize("harness", HARNESSES)
def test_each_mistake_alone_leaves_every_task_unsolved(harness: str, mistake: Mistake, tmp_path: Path) -> None:
    for task in warm_tasks(8):
        bench = Workbench(task, tmp_path / task.id)
        bench.run(Demonstrator(task, toolset(harness), only(mistake), seed=1))
        assert not bench.solved(), task.id


def changed(bench: Workbench) -> set[str]:
    return {path for path, text in bench.task.files.items() if (bench.folder / path).read_text() != text}


def test_each_mistake_is_of_its_kind(tmp_path: Path) -> None:
    for task in warm_tasks(6):
        for mistake in Mistake:
            bench = Workbench(task, tmp_path / f"{task.id}-{mistake.value}")
            messages = bench.run(Demonstrator(task, toolset("claude-code"), only(mistake), seed=2))
            edited, names = changed(bench), tool_names(messages)
            match mistake:
                case Mistake.WRONG_FILE:
                    assert task.bug.path not in edited
                case Mistake.STOPS_EARLY:
                    assert names == ["Bash", "Read"]
                    assert "<" not in messages[-1].content
                case Mistake.MALFORMED:
                    assert names == ["Bash", "Read"]
                    assert not Qwen3CoderParser().parse(messages[-1].content, ()).well_formed
                case Mistake.WRONG_LINE | Mistake.WRONG_FIX:
                    assert edited <= {task.bug.path}
                    line = (bench.folder / task.bug.path).read_text().split("\n")[task.bug.line - 1]
                    assert (line == task.bug.before) == (mistake is Mistake.WRONG_LINE)


def test_a_demonstration_solves_its_task_exactly_where_nothing_was_drawn_to_go_wrong(tmp_path: Path) -> None:
    solved = set()
    for task in warm_tasks(3):
        for seed in range(4):
            bench = Workbench(task, tmp_path / f"{task.id}-{seed}")
            demonstrator = Demonstrator(task, toolset("claude-code"), MistakeRates(), seed)
            bench.run(demonstrator)
            assert bench.solved() == (not demonstrator.mistakes)
            solved.add(bench.solved())
    assert solved == {True, False}


def test_the_default_rates_leave_about_a_third_without_a_mistake() -> None:
    rates = MistakeRates()
    rng = random.Random(0)
    flawless = sum(not rates.draw(rng) for _ in range(5000)) / 5000
    assert 0.3 < rates.solve_rate < 0.35
    assert flawless == pytest.approx(rates.solve_rate, abs=0.03)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), index=st.integers(0, 100), family=st.sampled_from([f.name for f in TRAINED]))
def test_asking_again_gives_the_same_turn(seed: int, index: int, family: str) -> None:
    task = generate(0, family, index, "warm")
    first, second = (Demonstrator(task, toolset("claude-code"), MistakeRates(), seed) for _ in range(2))
    listing = "\n".join(f"{number}\t{line}" for number, line in enumerate(task.files[task.bug.path].split("\n"), 1))
    messages = [Message("user", task.instruction)]
    for result in (f"./{task.bug.path}:4:def x():", listing):
        assert first.next_turn(messages) == first.next_turn(messages) == second.next_turn(messages)
        messages += [Message("assistant", "", (ToolCall("1", "Bash", {}),)), Message("tool", result, tool_call_id="1")]
    assert first.next_turn(messages) == first.next_turn(messages) == second.next_turn(messages)


@pytest.mark.parametrize("harness", HARNESSES)
def test_it_follows_what_the_tools_say_and_gives_up_where_they_say_nothing(harness: str) -> None:
    task = generate(0, "key", 0, "warm")
    demonstrator = Demonstrator(task, toolset(harness), FLAWLESS, seed=0)
    asked = [Message("user", task.instruction), Message("assistant", "", (ToolCall("1", "x", {}),))]
    elsewhere = [*asked, Message("tool", "moved/here.py:7:def f():", tool_call_id="1")]
    assert "/app/moved/here.py" in demonstrator.next_turn(elsewhere)
    nothing = [*asked, Message("tool", "", tool_call_id="1")]
    closing = demonstrator.next_turn(nothing)
    assert not tool_names_in(closing) - {"finish"}
    read = [*elsewhere, asked[1], Message("tool", "File does not exist.", tool_call_id="2")]
    assert demonstrator.next_turn(read) == closing


def tool_names_in(text: str) -> set[str]:
    return {call.name for call in Qwen3CoderParser().parse(text, ()).calls}


def test_turns_are_short() -> None:
    task = generate(0, "swapped", 3, "warm")
    demonstrator = Demonstrator(task, toolset("claude-code"), FLAWLESS, seed=0)
    assert len(demonstrator.next_turn([Message("user", task.instruction)]).split()) <= 12


def test_results_are_read_in_the_form_of_both_harnesses() -> None:
    assert found_path("./a/b.py:4:def f(x):") == found_path("a/b.py:4:def f(x):\n[exit code 0]") == "a/b.py"
    assert found_path("grep: x: No such file") is None
    assert listed_lines("1\ta\n2\t\n3\t  b\n") == ["a", "", "  b"]
    assert listed_lines("The result:\n     1\ta\n     2\t    b\n") == ["a", "    b"]
    assert listed_lines("File does not exist.") == []


def test_rates_are_probabilities_and_draws_follow_them() -> None:
    rng = random.Random(0)
    draws = [MistakeRates().draw(rng) for _ in range(4000)]
    for mistake in Mistake:
        share = sum(mistake in draw for draw in draws) / len(draws)
        assert share == pytest.approx(getattr(MistakeRates(), mistake.value), abs=0.03)
    with pytest.raises(ValueError, match="less than or equal to 1"):
        MistakeRates(wrong_file=1.5)


def test_a_harness_without_demonstrations_is_refused() -> None:
    with pytest.raises(ConfigError, match="no demonstrations for harness 'codex'"):
        toolset("codex")
