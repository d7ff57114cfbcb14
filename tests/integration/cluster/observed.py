"""What a test adds to a run: batches that are written down, and trials that lose their inference server.

Loaded by verl's processes: the buffers as ``custom_sampler``, the loop by the agent-loop configuration.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import transfer_queue as tq

from lego_rl.cluster.agent_loop import TrialLoop, TrialOutputs, outputs_of
from lego_rl.cluster.host import Hosts
from lego_rl.cluster.pieces import Piece, SamplingParams
from lego_rl.cluster.sampler import TrialReplayBuffer, TrialReplayBufferAsync
from lego_rl.engine.protocol import EngineError

FIELDS = ("prompts", "responses", "response_mask", "rollout_log_probs", "routed_experts", "rm_scores")
STALE_SEC = 300.0
_BROKEN_HOSTS = Hosts()


class _Written:
    """Writes every training batch into the folder that ``LEGO_TEST_BATCHES`` names."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        batch, metrics = super().sample(  # type: ignore[misc]
            global_steps=global_steps, partition_id=partition_id, batch_size=batch_size
        )
        if partition_id != "train":
            return batch, metrics
        data = tq.kv_batch_get(keys=batch.keys, partition_id=partition_id, select_fields=[*FIELDS, "extra_fields"])
        columns = {name: data[name].unbind() for name in FIELDS}
        extras = list(data["extra_fields"])
        rows = [
            {"key": key, "tag": tag, "extra": extra, **{name: columns[name][at].tolist() for name in FIELDS}}
            for at, (key, tag, extra) in enumerate(zip(batch.keys, batch.tags, extras, strict=True))
        ]
        target = Path(os.environ["LEGO_TEST_BATCHES"]) / f"{global_steps}.json"
        target.write_text(json.dumps({"step": global_steps, "rows": rows}, default=float), encoding="utf-8")
        return batch, metrics


class WrittenBuffer(_Written, TrialReplayBuffer):
    pass


class WrittenBufferAsync(_Written, TrialReplayBufferAsync):
    """Where ``LEGO_TEST_STALE_AT`` names a step, that step begins once a group that is too stale for it has ended."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        until = time.monotonic() + STALE_SEC
        while partition_id == "train" and str(global_steps) == os.environ.get("LEGO_TEST_STALE_AT"):
            self._sync_metadata_from_transfer_queue()
            if self._stale_terminal_keys(global_steps, partition_id):
                break
            assert time.monotonic() < until, "no group is stale"
            time.sleep(0.2)
        return super().sample(global_steps, partition_id, batch_size)


class NoServer:
    """An inference server that is gone."""

    async def piece(self, session: str, prompt_ids: list[int], params: SamplingParams) -> Piece:
        raise EngineError("the inference server is gone")

    async def alive(self) -> None:
        raise EngineError("the inference server is gone")


class EventfulLoop(TrialLoop):
    """The agent loop, but the first trial of a prompt finds long files, and some have no inference server.

    Args:
        victims: Sessions without an inference server, by task.
        broken_recipe: The recipe of those, whose run directory is another.
        long_tasks: Folder of tasks with the same names whose files are long.
    """

    def __init__(
        self, *args: Any, victims: dict[str, list[int]], broken_recipe: str, long_tasks: str, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._victims = victims
        self._broken_recipe = Path(broken_recipe)
        self._long_tasks = Path(long_tasks)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> TrialOutputs:
        info, session = dict(kwargs["extra_info"]), int(kwargs["session_id"])
        task = info["instance_id"]
        if session == 0 and (self._long_tasks / task).exists():  # an evaluation's are as they are
            info["harbor_task_path"] = str(self._long_tasks / task)
            kwargs["extra_info"] = info
        if session not in self._victims.get(task, ()):
            return await super().run(sampling_params, **kwargs)
        host = await _BROKEN_HOSTS.get(self._broken_recipe, "broken", NoServer, None)
        record = await host.trials.run(host.specs.of(kwargs, sampling_params))
        return outputs_of(record, host.name, int(kwargs["global_steps"]))
