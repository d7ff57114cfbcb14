"""Control experiments: what a run must not be able to do when what it should learn from is taken away."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from tokenizers import Tokenizer

from lego_rl.engine.protocol import Engine, Sample, Sampling
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.train.batch import TrainingTrial
from lego_rl.train.loop import as_graded


@dataclass(frozen=True)
class ShuffledRewards:
    """The rewards of a step, dealt out anew among its trials: as many updates, and nothing to learn from."""

    seed: int

    def __call__(self, records: Sequence[TrialRecord], step: int) -> list[TrainingTrial]:
        trials = as_graded(records, step)
        counted = [trial for trial in trials if trial.reward is not None]
        rewards = [trial.reward for trial in counted]
        random.Random(f"{self.seed}/{step}").shuffle(rewards)
        dealt = {trial.trial_id: reward for trial, reward in zip(counted, rewards, strict=True)}
        return [replace(trial, reward=dealt.get(trial.trial_id)) for trial in trials]


@dataclass(frozen=True)
class BlindEngine:
    """Shows the policy the same filler in place of every tool result, token for token, so that lengths stay."""

    engine: Engine
    opening: int
    closing: int
    filler: int

    @classmethod
    def of(cls, engine: Engine, policy: Path) -> Self:
        """With the marks of tool results in the template of a policy directory."""
        tokenizer = Tokenizer.from_file(str(policy / "tokenizer.json"))
        marks = [tokenizer.token_to_id(mark) for mark in ("<tool_response>", "</tool_response>")]
        assert None not in marks, "without these marks nothing would be hidden"
        return cls(engine, *marks, filler=tokenizer.encode("the", add_special_tokens=False).ids[0])

    @property
    def weight_version(self) -> int:
        return self.engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        # Earlier calls were blinded alike, so the routes that the caller holds are those of this prefix.
        sample = await self.engine.generate(self.blinded(prompt_ids), sampling, routes_from=routes_from)
        return replace(sample, prompt_ids=tuple(prompt_ids))

    async def progressed(self) -> None:
        await self.engine.progressed()

    def blinded(self, ids: Sequence[int]) -> list[int]:
        inside, shown = False, []
        for token in ids:
            inside = inside and token != self.closing
            shown.append(self.filler if inside else token)
            inside = inside or token == self.opening
        return shown
