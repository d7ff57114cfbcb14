"""What each weight version of a run would have said: plain transformers on the weights that the trainer sent out."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from lego_rl.cluster.experts import fuse_experts
from lego_rl.gateway.trajectory import Generation
from lego_rl.policies import policy_directory
from lego_rl.rollout.outcome import TrialRecord


@dataclass(frozen=True)
class Call:
    """A generation with its whole prompt.

    Attributes:
        prompt: ``[P]``.
        generation: What was sampled.
    """

    prompt: NDArray[np.int32]
    generation: Generation

    def logprobs_under(self, weights: Path) -> NDArray[np.float64]:
        """``[T]`` natural log-probs of the sampled tokens under other weights, at temperature 1."""
        ids = torch.tensor([[*self.prompt.tolist(), *self.generation.token_ids]])
        with torch.no_grad():
            logits = _model(weights)(input_ids=ids[:, :-1]).logits[0].double()
        sampled = len(self.generation.token_ids)
        every = torch.log_softmax(logits[-sampled:], -1)
        found: NDArray[np.float64] = every.gather(1, ids[0, -sampled:, None])[:, 0].numpy()
        return found


def calls_of_several_versions(records: Iterator[TrialRecord]) -> Iterator[Call]:
    """The generations that new weights met half-way."""
    for record in records:
        trajectory = record.trajectory
        for index, generation in enumerate(trajectory.generations if trajectory else ()):
            if trajectory and len(generation.weight_versions) > 1:
                yield Call(trajectory.prompt_ids(index), generation)


@cache
def _model(weights: Path) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(policy_directory("builtin:demo"), dtype=torch.float32)
    model.load_state_dict(fuse_experts(load_file(weights)))
    found: PreTrainedModel = model.eval()
    return found
