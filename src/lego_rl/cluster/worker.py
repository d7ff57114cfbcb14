"""verl's agent-loop worker with the fault table: the rows of a group reach the trainer together, or not at all.

Invariant: a group is judged once all its trials have ended, and its rows are put into the queue before its prompt is
said to be finished. Every prompt carries the report of its group, whatever became of it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hydra
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorData
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker, DictConfigWrap
from verl.utils import tensordict_utils as tu
from verl.utils.import_utils import resolve_config_path
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from lego_rl.cluster.agent_loop import TrialLoop, TrialOutputs, like_routes
from lego_rl.cluster.groups import GroupReport, Standing
from lego_rl.engine.audit import Reconciliation
from lego_rl.errors import LegoError
from lego_rl.train.reconcile import TrainedTokens

REPORT = "lego_rl_report"
"""Tag of a prompt: the packed `GroupReport` of its group."""
STOPPED = "lego_rl_stopped"
"""Tag of a prompt: why the run has to stop, in one line."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Session:
    """What became of one trial of a prompt: its outputs, and the columns of the dataset row that go with them."""

    outputs: TrialOutputs
    columns: Mapping[str, Any]


class TrialWorker(AgentLoopWorker):  # type: ignore[misc]  # verl is not there where types are checked
    """Runs the trials of the prompts that the manager sends."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tq.init()
        self._tasks: set[asyncio.Task[None]] = set()

    async def generate_sequences(self, batch: TensorDict) -> None:
        """Begin the trials of a batch of prompts, and return.

        Raises:
            LegoError: Trials cannot be run here at all.
        """
        await self._loop().host()  # what cannot be run is refused here, where it reaches whoever started the run
        validate = bool(tu.pop(batch, "validate", False))
        columns = dict(batch.items())
        for place in range(len(batch)):
            prompt = {name: _value(column, place) for name, column in columns.items()}
            prompt.setdefault("agent_name", self.config.actor_rollout_ref.rollout.agent.default_agent_loop)
            trajectory = {
                "step": prompt["global_steps"],
                "sample_index": prompt.get("index", place),
                "rollout_n": 0,
                "validate": validate,
            }
            task = asyncio.create_task(self._run_group(prompt, trajectory))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def reconcile(self, trained: TrainedTokens) -> Reconciliation:
        """Compare what a training batch claims of this worker's engine calls with what they returned."""
        host = await self._loop().host()
        return host.auditor.reconcile(trained)

    async def settle_before(self, version: int) -> None:
        """Forget the engine calls of older weight versions: no row of theirs can be trained any more."""
        host = await self._loop().host()
        host.auditor.settle_before(version)

    def _loop(self) -> TrialLoop:
        """A loop of this worker, which runs nothing."""
        path = self.config.actor_rollout_ref.rollout.agent.agent_loop_config_path
        name = self.config.actor_rollout_ref.rollout.agent.default_agent_loop
        entry = next(entry for entry in OmegaConf.load(resolve_config_path(path)) if entry.name == name)
        loop: TrialLoop = hydra.utils.instantiate(
            entry, trainer_config=DictConfigWrap(self.config), server_manager=self.llm_client
        )
        return loop

    async def _run_group(self, prompt: dict[str, Any], trajectory: dict[str, Any]) -> None:
        uid, partition = prompt["uid"], "val" if trajectory["validate"] else "train"
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": "running"})
        try:
            sessions = await self._run_sessions(prompt, trajectory)
            report = GroupReport.of([session.outputs.account for session in sessions])
            if trajectory["validate"] or report.standing is Standing.CONTRIBUTES:
                await self._put(uid, partition, sessions)
            tag = {"status": self._status(report, partition), REPORT: report.packed()}
        except Exception as error:  # noqa: BLE001  # Whatever it is, nobody awaits this task: the trainer stops with it.
            _LOG.exception("the group of prompt %s could not be brought to its end", uid)
            shown = str(error) if isinstance(error, LegoError) else f"{type(error).__name__}: {error}"
            tag = {"status": "failure", STOPPED: shown}
        await tq.async_kv_put(key=uid, partition_id=partition, tag=tag)

    async def _run_sessions(self, prompt: dict[str, Any], trajectory: dict[str, Any]) -> list[_Session]:
        """Run all trials of a prompt; where one raises, the others are ended first."""
        rollout, validate = self.config.actor_rollout_ref.rollout, trajectory["validate"]
        count = int(prompt.pop("__rollout_n__", rollout.val_kwargs.n if validate else rollout.n))
        chosen = rollout.val_kwargs if validate else rollout
        sampling = {"temperature": chosen.temperature, "top_p": chosen.top_p, "top_k": chosen.top_k}
        prompt.pop("__do_sample__", None)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        self._run_agent_loop(sampling, trajectory=trajectory, trace=False, session_id=session, **prompt)
                    )
                    for session in range(count)
                ]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return [task.result() for task in tasks]

    async def _agent_loop_postprocess(self, output: TrialOutputs, validate: bool, **columns: Any) -> _Session:
        """Keep a trial's outputs until its group is judged."""
        del validate
        return _Session(output, columns)

    def _status(self, report: GroupReport, partition: str) -> str:
        """verl replaces a group that failed where prompts stream in. Elsewhere a step has the prompts that it has."""
        streams = partition == "train" and self.config.trainer.v1.trainer_mode != "sync"
        return "failure" if streams and report.standing.is_replaced else "finished"

    async def _put(self, uid: str, partition: str, sessions: Sequence[_Session]) -> None:
        """Put the rows of a group into the queue."""
        like_routes([output for session in sessions for output in session.outputs])
        keys, fields, tags = [], [], []
        for session in sessions:
            for index, output in enumerate(session.outputs):
                field = self._fields(output, session.columns)
                keys.append(f"{uid}_{session.columns['session_id']}_{index}")
                fields.append(field)
                tags.append(_tag(field, session.columns))
        if keys:
            await tq.async_kv_batch_put(
                keys=keys, fields=list_of_dict_to_tensordict(fields), tags=tags, partition_id=partition
            )

    def _fields(self, output: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a row, as verl's own worker names them."""
        field: dict[str, Any] = output.as_dict() | dict(columns)
        input_ids = torch.cat([field["prompts"], field["responses"]])
        images = self._compute_multi_modal_inputs(output, input_ids)
        positions = self._compute_position_ids(
            input_ids.unsqueeze(0), torch.ones_like(input_ids).unsqueeze(0), images
        ).squeeze(0)
        field.pop("multi_modal_data", None)
        return field | {
            "loss_mask": field["response_mask"],
            "input_ids": input_ids,
            "position_ids": positions,
            "multi_modal_inputs": images,
        }


def _tag(field: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """What the replay buffer sees of a row."""
    prompt, response, extra = len(field["prompts"]), len(field["responses"]), field["extra_fields"]
    return {
        "status": "success",
        "prompt_len": prompt,
        "response_len": response,
        "seq_len": prompt + response,
        "global_steps": columns["global_steps"],
        "min_global_steps": extra["min_global_steps"],
        "max_global_steps": extra["max_global_steps"],
    }


def _value(column: Any, place: int) -> Any:
    """A column's value of one prompt."""
    if isinstance(column, NonTensorData):
        return column.data
    value = column[place]
    return value.data if isinstance(value, NonTensorData) else value
