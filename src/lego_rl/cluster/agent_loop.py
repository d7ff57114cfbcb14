"""verl's agent loop that runs one trial: a harness in a sandbox, through the same rollout code as on one machine.

Invariant: a trial that a fault took returns no output, so that it is in no loss and in no statistic; every other trial
returns one output a trained segment, exactly as it was captured, or a silent one that brings in its reward.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from lego_rl.cluster.account import TrialAccount
from lego_rl.cluster.client import PieceClient
from lego_rl.cluster.host import Hosts, TrialHost
from lego_rl.cluster.names import LOCAL, worker_of
from lego_rl.cluster.rows import Row, rows_of, silent_row
from lego_rl.rollout.outcome import TrialRecord

_HOSTS = Hosts()
"""verl makes an agent loop for every trial; what they share is the process's."""


class SegmentOutput(AgentLoopOutput):  # type: ignore[misc]  # verl is not there where types are checked
    """One segment of a trial.

    Attributes:
        segment_weight: 1 / segments of the trial that train: what its loss is to be scaled by.
    """

    segment_weight: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """verl's fields, and ``segment_weight`` ``[1]`` float32."""
        fields: dict[str, Any] = super().as_dict()
        fields["segment_weight"] = torch.tensor([self.segment_weight], dtype=torch.float32)
        return fields


class TrialOutputs(list[SegmentOutput]):
    """What a trial gives to the trainer.

    Attributes:
        account: How it ended and what was captured, whether or not there are outputs.
    """

    def __init__(self, outputs: Iterable[SegmentOutput], account: TrialAccount) -> None:
        super().__init__(outputs)
        self.account = account


class TrialLoop(AgentLoopBase):  # type: ignore[misc]
    """Runs one trial of verl's batch.

    Args:
        trainer_config: verl's configuration.
        server_manager: The worker's client.
        recipe: Path of the resolved recipe, from the agent-loop configuration.
        kwargs: What else verl gives to every loop and this one has no use for.
    """

    def __init__(self, trainer_config: Any, server_manager: Any, *, recipe: str, **kwargs: Any) -> None:
        # Not the base's: it prepares verl's own rendering of conversations, which is the gateway's business here, and
        # refuses tokenizers that it does not know.
        del kwargs
        self.config = trainer_config.config
        self.rollout_config = self.config.actor_rollout_ref.rollout
        self.server_manager = server_manager
        self._recipe = Path(recipe)

    async def host(self) -> TrialHost:
        """What the worker's trials share.

        Raises:
            LegoError: See `TrialHost.open`.
        """
        return await _HOSTS.get(
            self._recipe, worker_name(), lambda: PieceClient.of(self.server_manager), context_of(self.rollout_config)
        )

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> TrialOutputs:
        """Run the trial.

        Args:
            sampling_params: verl's.
            kwargs: The dataset row, ``uid``, ``session_id`` and ``global_steps``.

        Raises:
            LegoError: The row or the recipe cannot be used, or the disk is full.
        """
        host = await self.host()
        record = await host.trials.run(host.specs.of(kwargs, sampling_params))
        return outputs_of(record, host.name, int(kwargs["global_steps"]))


def outputs_of(record: TrialRecord, worker: str, step: int) -> TrialOutputs:
    """What a finished trial gives to the trainer.

    Args:
        record: The trial's.
        worker: In whose folder it lies.
        step: verl's; the version of a row that no weights sampled.

    Raises:
        CaptureError: A segment contradicts itself.
    """
    account, reward = TrialAccount.of(record), record.outcome.group_reward
    if reward is None:
        return TrialOutputs([], account)
    trajectory = record.sampled()
    rows = rows_of(trajectory) if trajectory is not None and record.outcome.is_trained else []
    if not rows:
        asked = trajectory.prompt_ids(0) if trajectory is not None and trajectory.generations else np.zeros(1, np.int32)
        rows = [silent_row(asked)]
    shared = {
        "trial": record.spec.id,
        "worker": worker,
        "segments": len(rows),
        "reward_extra_info": {"solved": float(reward)},
    }
    metrics = AgentLoopMetrics(
        generate_sequences=record.seconds.engine.total,
        tool_calls=record.seconds.harness,
        compute_score=record.seconds.grading,
    )
    outputs = [_output(row, index, shared, step) for index, row in enumerate(rows)]
    for output in outputs:
        output.reward_score = float(reward)
        output.num_turns = account.calls
        output.metrics = metrics
    return TrialOutputs(outputs, account)


def _output(row: Row, index: int, shared: Mapping[str, Any], step: int) -> SegmentOutput:
    oldest, newest = row.versions or (max(0, step - 1), max(0, step - 1))
    routed = {} if row.routes is None else {"routed_experts": row.routes}
    return SegmentOutput(
        prompt_ids=row.prompt_ids.tolist(),
        response_ids=row.response_ids.tolist(),
        response_mask=row.response_mask.tolist(),
        response_logprobs=row.logprobs.tolist(),
        metrics=AgentLoopMetrics(),
        segment_weight=row.weight,
        extra_fields={
            **shared,
            "segment": index,
            "spans": [span.packed() for span in row.spans],
            "routes_recorded": row.routes_recorded,
            "min_global_steps": oldest,
            "max_global_steps": newest,
        },
        **routed,
    )


def like_routes(outputs: Sequence[SegmentOutput]) -> None:
    """Give silent outputs of a group routes of nobody, where the others have routes: verl wants the same fields in all.

    A silent output trains nothing, so what its positions are routed by makes no difference.
    """
    shapes = {output.routed_experts.shape[1:] for output in outputs if output.routed_experts is not None}
    for output in outputs:
        if shapes and output.routed_experts is None:
            positions = len(output.prompt_ids) + len(output.response_ids) - 1
            nobody: NDArray[np.uint8] = np.zeros((positions, *next(iter(shapes))), np.uint8)
            output.routed_experts = nobody


def worker_name() -> str:
    """The folder of this worker: its number among the agent-loop workers."""
    return worker_of(ray.get_runtime_context().get_actor_name() or "") if ray.is_initialized() else LOCAL


def context_of(rollout: Any) -> int:
    """Longest prompt plus response that the inference servers take, in tokens."""
    return int(rollout.get("max_model_len") or rollout.prompt_length + rollout.response_length)
