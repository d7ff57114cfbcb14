"""What real harnesses leave of an embedded engine's samples, recomputed by the trainer: forks and sub-agents included.

The engine is led: it says what the situation wants, and log-probs, routes and prefix cache are its own.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from lego_rl.conformance.policy import Policy
from lego_rl.conformance.situations import SITUATIONS, Situation
from lego_rl.conformance.trial import Bench, Report
from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.engine.embedded.policy import load_policy, save_policy
from lego_rl.engine.embedded.stepper import EngineOptions
from lego_rl.engine.protocol import Sample, Sampling
from lego_rl.harness.base import OptionValue
from lego_rl.train.batch import MicroBatch, Row
from lego_rl.train.forward import logprobs

CONTEXT = 131_072
CASES: dict[str, tuple[Mapping[str, OptionValue], tuple[str, ...], set[str]]] = {
    "claude-code": (
        {"tools": ["Agent", "Bash"]},
        ("lost", "too-long", "subagent"),
        {"main", "subagent", "compaction"},
    ),
    "openhands-sdk": (
        {"condenser_max_size": 40, "tools": ["terminal"], "system_prompt": "Mend code."},
        ("cut", "context"),
        {"main", "compaction"},
    ),
}
"""Few tools keep the prompts, and with them the trainer's attention, short."""


@dataclass
class Led:
    """The embedded engine, made to say what a policy of the situations does."""

    policy: Policy
    engine: EmbeddedEngine

    @property
    def weight_version(self) -> int:
        return self.engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        reply = await self.policy(tuple(prompt_ids), sampling)
        return await self.engine.generate(prompt_ids, sampling, routes_from=routes_from, forced_ids=reply.token_ids)

    async def progressed(self) -> None:
        await self.engine.progressed()


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo policy's tokenizer, and random weights with room for the longest prompt."""
    source = Path(str(files("lego_rl.policies") / "demo"))
    config = AutoConfig.from_pretrained(source)
    config.max_position_embeddings = CONTEXT
    torch.manual_seed(0)
    module = AutoModelForCausalLM.from_config(config)
    target = tmp_path_factory.mktemp("policy") / "random"
    save_policy(module.state_dict(), module.config, target, dtype=torch.float32, companions=source)
    return target


@pytest.fixture
def engine(policy: Path) -> Iterator[EmbeddedEngine]:
    with EmbeddedEngine.from_directory(policy, options=EngineOptions(cache_tokens=CONTEXT)) as made:
        yield made


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CASES)
def test_every_segment_is_recomputed_to_the_recorded_log_probs(name: str, policy: Path, engine: EmbeddedEngine) -> None:
    options, names, roles = CASES[name]
    bench = replace(Bench.prepare(name, options), engine_of=lambda leader: Led(leader, engine))
    reports = [asyncio.run(bench.run(within(situation))) for situation in SITUATIONS if situation.name in names]
    assert {report.situation.name: report.broken for report in reports if not report.held} == {}
    assert {role for report in reports for role in report.roles} >= roles
    assert max(report.segments for report in reports) > 1, "nothing forked"
    module = load_policy(policy, torch.float32)
    for report in reports:
        for index, difference in enumerate(differences(module, report)):
            assert difference <= 1e-4, f"segment {index} of {report.situation.name}"


def within(situation: Situation) -> Situation:
    """A situation whose budget fits the policy's positions."""
    room = min(situation.budget.context_tokens, CONTEXT)
    return replace(situation, budget=replace(situation.budget, context_tokens=room))


def differences(module: PreTrainedModel, report: Report) -> Iterator[float]:
    """Of every segment, the largest difference between recorded and recomputed log-probs."""
    assert report.trajectory is not None
    for index, segment in enumerate(report.trajectory.segments):
        assert segment.route_coverage == 1.0
        row = Row("trial", index, segment, advantage=1.0, scale=1.0)
        batch = MicroBatch.of([row], routing="replay", device=torch.device("cpu"))
        with torch.no_grad():
            found = logprobs(module, batch, 1.0).logp_BT
        yield float((found - batch.behaviour_logp_BT)[batch.mask_BT].abs().max())
