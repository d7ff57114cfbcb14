"""The auditor of a verl run (capture law 7): what the trainer is about to read, against what engine calls returned.

Invariant: ids, masks and log-probs are read back from the queue that the trainer's workers read; only the address of a
token (call, position) is the capture's. Each agent-loop worker keeps the books of its own engine and is asked for them.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta

from lego_rl.cluster.names import is_worker, worker_of
from lego_rl.errors import FidelityError
from lego_rl.train.reconcile import TrainedTokens

_FIELDS = ("responses", "response_mask", "rollout_log_probs", "extra_fields")
_ALTERED = "a token was altered between the engine and the trainer"


class _Claims:
    """What a batch claims of one worker's calls."""

    def __init__(self) -> None:
        self.call_ids: list[str] = []
        self.positions: list[NDArray[np.int64]] = []
        self.token_ids: list[NDArray[np.int64]] = []
        self.logprobs: list[NDArray[np.float32]] = []

    def trained(self) -> TrainedTokens:
        """For the auditor."""
        return TrainedTokens(
            tuple(self.call_ids),
            np.concatenate(self.positions),
            np.concatenate(self.token_ids),
            np.concatenate(self.logprobs),
        )


def audit_batch(batch: KVBatchMeta, global_steps: int, threshold: int | None) -> dict[str, float]:
    """Check the rows of a batch, and have the workers check its tokens.

    Args:
        batch: What the trainer is about to read.
        global_steps: The step that it is read for; the trainer's weights are of the version before.
        threshold: verl's ``max_off_policy_threshold``: most versions from a row's oldest to the trainer's own,
            both counted; ``None`` for no limit.

    Returns:
        Figures: ``audit/tokens_total`` and the staleness of the oldest token.

    Raises:
        FidelityError: A row is too stale, or a token is on nobody's books.
    """
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(_FIELDS))
    columns = [_rows(data.get(name)) for name in _FIELDS]
    books: dict[str, _Claims] = defaultdict(_Claims)
    stalest = 0
    for key, responses, mask, logprobs, extra in zip(batch.keys, *columns, strict=True):
        stalest = max(stalest, _staleness(key, extra, global_steps, threshold))
        _claim(books[extra["worker"]], key, _array(responses), _array(mask), _array(logprobs), extra["spans"])
    found = ray.get([_worker(name).reconcile.remote(claims.trained()) for name, claims in books.items()])
    for each in found:
        if not each.exact:
            raise FidelityError("audit", each.reason, _ALTERED)
    # The next step's trainer holds version `global_steps`; what is older than it may train is off the books.
    oldest = global_steps - (threshold - 1 if threshold is not None else 0)
    ray.get(
        [
            ray.get_actor(actor).settle_before.remote(oldest)
            for actor in ray.util.list_named_actors()
            if is_worker(actor)
        ]
    )
    return {"audit/tokens_total": sum(each.tokens for each in found), "audit/stalest_max": stalest}


def _staleness(key: str, extra: dict[str, Any], global_steps: int, threshold: int | None) -> int:
    """Versions between a row's oldest token and the trainer."""
    behind = global_steps - 1 - int(extra["min_global_steps"])
    if threshold is not None and behind >= threshold:
        raise FidelityError(
            "staleness",
            f"row {key} was begun {behind} versions ago, {threshold - 1} are allowed",
            "set max_off_policy_strategy=drop",
        )
    return behind


def _claim(
    claims: _Claims,
    key: str,
    responses: NDArray[Any],
    mask: NDArray[Any],
    logprobs: NDArray[Any],
    spans: list[tuple[str, int, int, int, int]],
) -> None:
    """Add the trained tokens of a row, which the spans must cover."""
    covered = np.zeros(len(responses), bool)
    for call_id, start, position, count, _ in spans:
        at = slice(start, start + count)
        covered[at] = True
        claims.call_ids += [call_id] * count
        claims.positions.append(np.arange(position, position + count))
        claims.token_ids.append(responses[at].astype(np.int64))
        claims.logprobs.append(logprobs[at].astype(np.float32))
    if not np.array_equal(covered, mask.astype(bool)):
        raise FidelityError("audit", f"row {key} trains other tokens than its engine calls sampled", _ALTERED)


def _worker(name: str) -> Any:
    """The agent-loop worker that has a folder now; after a restart it is another actor than the one that made a row."""
    actor = next((each for each in ray.util.list_named_actors() if worker_of(each) == name), None)
    if actor is None:
        raise FidelityError("audit", f"no agent-loop worker has folder {name}", "resume with as many workers as before")
    return ray.get_actor(actor)


def _rows(column: Any) -> list[Any]:
    """The rows of a column, whichever way the queue holds it."""
    return list(column.unbind()) if isinstance(column, torch.Tensor) else list(column.tolist())


def _array(row: Any) -> NDArray[Any]:
    array: NDArray[Any] = row.numpy()
    return array
