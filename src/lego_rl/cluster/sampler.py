"""verl's replay buffers where the trainer takes its batches: figures, limits and the auditor.

Invariant: no batch reaches the trainer before its groups were checked for unexplained faults, its rows for staleness,
and each of its trained tokens was found on the books of the engine call that sampled it.

``trainer.v1.sampler.custom_sampler.path=pkg://lego_rl.cluster.sampler`` and ``.name=TrialReplayBuffer`` (mode ``sync``)
or ``TrialReplayBufferAsync``.
"""

from collections import Counter
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from lego_rl.cluster.batch_audit import audit_batch
from lego_rl.cluster.groups import GroupReport, check_groups, group_figures
from lego_rl.cluster.worker import REPORT, STOPPED
from lego_rl.errors import RunError

_MOST_EMPTY = 8
"""Batches in a row to which no group contributes, before the run stops."""


class _Checked(ReplayBuffer):  # type: ignore[misc]  # verl is not there where types are checked
    """What both buffers do beside sampling."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ended: list[GroupReport] = []
        self._empty = 0
        self._wanted = 0

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """Sample a batch, and check it.

        Raises:
            RunError: Faults stop the run, or nothing contributes any more.
            FidelityError: A row is staler than allowed, or a token is on nobody's books.
        """
        self._wanted = batch_size
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        ended, self._ended = self._ended, []
        check_groups(ended)
        if partition_id != "val":
            self._empty = 0
            metrics = metrics | group_figures(ended) | audit_batch(batch, global_steps, self.max_off_policy_threshold)
        return batch, metrics

    def _clear_groups(self, partition_id: str, uids: set[str]) -> None:
        """Groups that are evicted are reported all the same."""
        self._take_reports(partition_id, uids)
        super()._clear_groups(partition_id, uids)

    def _materialize_batch(
        self, partition_id: str, selected_prompt_uids: list[str], partition_snapshot: dict[str, dict[str, Any]]
    ) -> KVBatchMeta:
        self._take_reports(partition_id, set(selected_prompt_uids))
        return super()._materialize_batch(partition_id, selected_prompt_uids, partition_snapshot)

    def _take_reports(self, partition_id: str, uids: set[str]) -> None:
        """Read the reports of groups that are about to leave the queue.

        Raises:
            RunError: A worker has stopped the run, or faults do.
        """
        tags = (tq.kv_list(partition_id) or {}).get(partition_id, {})
        for uid in sorted(uids):
            tag = tags.get(uid, {})
            if STOPPED in tag:
                raise RunError(f"a worker could not go on: {tag[STOPPED]}", "mend what it names and resume the run")
            if REPORT in tag:
                self._ended.append(GroupReport.unpack(tag[REPORT]))
        if len(self._ended) > self._wanted:
            check_groups(self._ended)
        if len(self._ended) > _MOST_EMPTY * self._wanted:
            raise RunError(
                f"{len(self._ended)} groups in a row were given up, and there is no batch yet: {_details(self._ended)}",
                "mend what took their trials and resume the run",
            )

    def _without_rows(self, partition_id: str, uids: set[str]) -> set[str]:
        """Groups of which no row is in the queue."""
        return uids - {key.split("_")[0] for key in self.partitions[partition_id]}

    def _count_empty(self) -> None:
        self._empty += 1
        if self._empty > _MOST_EMPTY:
            raise RunError(
                f"no group of {self._empty} batches in a row contributes anything: each has one verdict",
                "choose tasks that the policy sometimes solves (lego-rl tasks filter)",
            )

    def _replaced_batch(self, partition_id: str, eviction_reasons: tuple[Any, ...]) -> tuple[Any, ...]:
        """Have a whole batch to which no group contributes replaced: verl cannot train on a batch of no rows."""
        stale, filtered, failed, counts = eviction_reasons
        terminal = (self.finished_keys[partition_id] | self.failure_keys[partition_id]) - (stale | filtered | failed)
        first, _, _ = self._select_prompt_uids(partition_id, terminal, self._wanted)
        if (
            partition_id == "val"
            or len(first) < self._wanted
            or self._without_rows(partition_id, set(first)) != set(first)
        ):
            return eviction_reasons
        self._count_empty()
        return stale, filtered, failed | set(first), counts


class TrialReplayBuffer(_Checked):
    """For mode ``sync``: a step has the prompts that it has, and a group that contributes nothing has no rows."""

    def _terminal_eviction_reasons(self, global_steps: int, partition_id: str) -> tuple[Any, ...]:
        return self._replaced_batch(partition_id, super()._terminal_eviction_reasons(global_steps, partition_id))


class TrialReplayBufferAsync(_Checked, ReplayBufferAsync):  # type: ignore[misc]
    """For the asynchronous modes: a group that faults took, or that is too stale, is replaced by another prompt's."""

    def _terminal_eviction_reasons(self, global_steps: int, partition_id: str) -> tuple[Any, ...]:
        return self._replaced_batch(partition_id, super()._terminal_eviction_reasons(global_steps, partition_id))


def _details(reports: list[GroupReport]) -> str:
    """The fault that took most trials."""
    faults = Counter(account.detail for report in reports for account in report.accounts if account.reward is None)
    return faults.most_common(1)[0][0] if faults else "they were too stale"
