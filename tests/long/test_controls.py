"""The control experiments take away what they say, and nothing else."""

from pathlib import Path

import numpy as np
from controls import BlindEngine, ShuffledRewards
from tokenizers import Tokenizer

from lego_rl.commands.policies import policy_directory
from lego_rl.engine.protocol import Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, Reward, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec

SAMPLING = Sampling(temperature=1.0, max_tokens=4, stop_token_ids=())


def record(attempt: int, reward: Reward | None) -> TrialRecord:
    spec = TrialSpec(Path("task"), "train/step-0000", attempt, 64, 0, 1.0, Budget(), HarnessChoice("none"))
    return TrialRecord(spec, Outcome(reward, Ended.FINISHED, None, ""), None, PhaseSeconds())


def test_shuffling_deals_the_same_rewards_to_the_trials_that_count() -> None:
    rewards: list[Reward | None] = [1, None, *([0] * 20), *([1] * 20), None]
    records = [record(attempt, reward) for attempt, reward in enumerate(rewards)]
    dealt = [trial.reward for trial in ShuffledRewards(seed=0)(records, 0)]
    assert [trial.trial_id for trial in ShuffledRewards(seed=0)(records, 0)] == [each.spec.id for each in records]
    assert [reward is None for reward in dealt] == [reward is None for reward in rewards]
    assert dealt.count(1) == rewards.count(1)
    assert dealt != rewards
    assert dealt == [trial.reward for trial in ShuffledRewards(seed=0)(records, 0)], "the same after a resume"
    assert dealt != [trial.reward for trial in ShuffledRewards(seed=0)(records, 1)]


async def test_the_engine_sees_a_constant_for_tool_results_and_the_caller_its_own_prompt() -> None:
    policy = policy_directory("builtin:demo")
    tokenizer = Tokenizer.from_file(str(policy / "tokenizer.json"))
    seen: list[tuple[int, ...]] = []

    def script(prompt: tuple[int, ...], _: Sampling) -> Reply:
        seen.append(prompt)
        return Reply([7])

    engine = BlindEngine.of(ScriptedEngine(script), policy)
    ask, close = "<|im_start|>user\nmend it<|im_end|>\n", "\n</tool_response><|im_end|>\n"
    results = ("def total(a, b): return a - b", "File was edited.")
    text = ask + "".join(f"<|im_start|>user\n<tool_response>\n{result}{close}" for result in results)
    prompt = tokenizer.encode(text, add_special_tokens=False).ids
    sample = await engine.generate(prompt, SAMPLING)
    assert sample.prompt_ids == tuple(prompt)
    opening, closing = (tokenizer.token_to_id(mark) for mark in ("<tool_response>", "</tool_response>"))
    depth = np.cumsum(np.isin(prompt, opening)) - np.cumsum(np.isin(prompt, closing))
    inside = (depth > 0) & ~np.isin(prompt, opening)
    shown = np.array(seen[0])
    assert inside.sum() > 10
    assert len(set(shown[inside])) == 1
    assert (shown[~inside] == np.array(prompt)[~inside]).all()
