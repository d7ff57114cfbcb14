"""What the fidelity gate reads of a batch, out of the queue that the trainer's workers write to.

Invariant: every figure is read back from the queue; which version sampled a token is the capture's own word.
"""

from typing import Any

import numpy as np
import transfer_queue as tq
from numpy.typing import NDArray
from torch import Tensor
from verl.workers.utils.padding import response_from_nested

from lego_rl.cluster.gate import GatedRow

_WHOLE = "log_probs"
"""Field of log-probs over whole rows; verl's other fields are of responses."""


def gated_rows(batch: Any, field: str) -> list[GatedRow]:
    """The rows of a batch that train, without those that verl added to fill it.

    Args:
        batch: verl's ``KVBatchMeta``.
        field: Where the trainer's log-probs are.
    """
    fields = [*dict.fromkeys(("response_mask", "rollout_log_probs", "extra_fields", field))]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    if field == _WHOLE:
        data[field] = response_from_nested(data[field], data["response_mask"])
    columns = (data[name].unbind() for name in ("response_mask", "rollout_log_probs", field))
    rows = zip(batch.tags, data["extra_fields"], *columns, strict=True)
    return [
        _row(tag, extra, _array(mask), _array(engine), _array(trainer))
        for tag, extra, mask, engine, trainer in rows
        if not tag.get("is_padding", False) and bool(mask.any())
    ]


def _row(
    tag: dict[str, Any], extra: dict[str, Any], mask: NDArray[Any], engine: NDArray[Any], trainer: NDArray[Any]
) -> GatedRow:
    recorded = int(extra["routes_recorded"])
    return GatedRow(
        mask=mask.astype(np.int64),
        engine=engine.astype(np.float64),
        trainer=trainer.astype(np.float64),
        spans=extra["spans"],
        routes_recorded=recorded,
        # Where no route was recorded the model is dense: the engine's own replay refuses rows without any.
        route_positions=int(tag["seq_len"]) - 1 if recorded else 0,
    )


def _array(row: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = row.detach().cpu().float().numpy()
    return array
