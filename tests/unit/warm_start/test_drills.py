"""Drills: what they show is what tools print, what they ask for is right, and nothing else is learned from them."""

import random
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from workbench import Workbench

from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.tool_calls.qwen3_coder import Qwen3CoderParser
from lego_rl.gateway.trajectory import Segment
from lego_rl.tasks.generate import families_of, generate
from lego_rl.tasks.names import split_of_function
from lego_rl.train.batch import check_segment
from warm_start.drills import Lookups, Phrases

DEMO = Path(str(files("lego_rl.policies") / "demo"))
ENCODER = Encoder((DEMO / "tokenizer.json").read_text(encoding="utf-8"))
CLAUDE = {"claude-code": ""}
ALL = {"claude-code": "", "openhands-sdk": "", "opencode": ""}
SEED = 5


def spans(segment: Segment) -> list[str]:
    """Each run of learned tokens as text."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], segment.loss_mask, [0]])))
    return [ENCODER.decode(segment.token_ids[a:b].tolist()) for a, b in edges.reshape(-1, 2)]


def turns(segment: Segment) -> list[str]:
    return [text.removesuffix("<|im_end|>") for text in spans(segment)]


def text_of(segment: Segment) -> str:
    return ENCODER.decode(segment.token_ids.tolist())


@pytest.mark.parametrize("prompts", [CLAUDE, {"openhands-sdk": ""}, {"opencode": ""}])
def test_a_drill_shows_what_the_tools_of_the_harness_print(prompts: dict[str, str], tmp_path: Path) -> None:
    """Against the repository on disk: its edit solves the task, its hit and its listing are those of the tools."""
    drills = Lookups(DEMO, prompts, 16, SEED)
    names = [family.name for family in families_of("warm")]
    for index in range(16):
        task = generate(SEED, names[index % len(names)], index // len(names), "warm")
        bench = Workbench(task, tmp_path / str(index))
        shown = text_of(drills[index])
        calls = [Qwen3CoderParser().parse(turn, ()).calls[0] for turn in turns(drills[index])]
        grep = f'grep -rn "def {task.bug.function}" .'
        assert bench.answer("Bash", {"command": grep}).removeprefix("./") in shown
        for call in calls[:-1]:
            assert call.name not in {"Read", "read"} or bench.answer(call.name, call.arguments) in shown
        bench.answer(calls[-1].name, calls[-1].arguments)
        assert bench.solved()


def test_whole_and_narrow_drills_ask_for_three_turns_or_one() -> None:
    counts = [len(turns(drill)) for drill in map(Lookups(DEMO, ALL, 60, SEED).__getitem__, range(60))]
    assert set(counts) == {1, 3}
    assert 15 < counts.count(1) < 45


def test_drills_are_sound_segments_of_warm_tasks_and_the_same_each_time() -> None:
    for drills in (Lookups(DEMO, ALL, 20, SEED), Phrases(ENCODER, 20, SEED)):
        for index in range(len(drills)):
            check_segment(drills[index], "drill")
            assert np.array_equal(drills[index].token_ids, drills[index].token_ids)
    for drill in map(Lookups(DEMO, ALL, 20, SEED).__getitem__, range(20)):
        name = text_of(drill).split("`")[1]
        assert split_of_function(name) == "warm"


def test_what_a_phrase_drill_asks_for_was_shown_before() -> None:
    for drill in map(Phrases(ENCODER, 30, SEED).__getitem__, range(30)):
        ids, mask = drill.token_ids.tolist(), drill.loss_mask.tolist()
        known = set()
        for position in range(1, len(ids)):
            if mask[position]:
                assert (ids[position - 1], ids[position]) in known
            known.add((ids[position - 1], ids[position]))
        assert sum(mask) > len(mask) / 4


def test_the_day_in_a_prompt_changes_from_drill_to_drill() -> None:
    prompt = "<|im_start|>system\nDate: 2026-01-31, release 2020-1<|im_end|>\n"
    drills = Lookups(DEMO, {"claude-code": prompt}, 30, SEED)
    heads = {text_of(drill)[: len(prompt)] for drill in map(drills.__getitem__, range(30))}
    assert len(heads) > 20
    assert all(head.startswith("<|im_start|>system\nDate: 20") for head in heads)
    assert all(head.endswith(", release 2020-1<|im_end|>\n") for head in heads)


def test_drills_do_not_disturb_the_global_random_state() -> None:
    state = random.getstate()
    Lookups(DEMO, ALL, 1, SEED)[0]
    assert random.getstate() == state
