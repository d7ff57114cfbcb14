"""Routing replay (R3) in verl's FSDP2 engine, which has none: the hooks of the embedded trainer, fed by verl's rows.

Invariant: in a pass that replays, a position with a record takes its experts, and any other the router's own; see
`lego_rl.train.replay`. verl marks passes: those of the policy replay, those of the reference do not.

verl pads what no engine call recorded (the last token of a row, rows that it adds to fill a batch) with zeros. A router
never chooses an expert twice, so with two experts a token or more a row of zeros is known for padding.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from verl.utils import tensordict_utils as tu
from verl.utils.ulysses import slice_input_tensor
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from lego_rl.errors import CaptureError
from lego_rl.train.replay import replay

FLAG = "enable_routing_replay"
"""verl's name for the mark of a pass that replays."""


# A vendor's engine goes before the one that verl has registered for all of CUDA.
@EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cuda", vendor="nvidia")
class ReplayEngine(FSDPEngineWithLMHead):  # type: ignore[misc]
    """FSDP2 that replays recorded experts; where nothing is marked, verl's engine as it is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._replaying = ExitStack()

    def prepare_model_inputs(self, micro_batch: Any) -> Any:
        """verl's, and the experts of the pass that comes next.

        Raises:
            CaptureError: The pass is to replay, and the rows have no routes, or such as cannot be told from padding.
        """
        inputs = super().prepare_model_inputs(micro_batch)
        self._replaying.close()  # until now activation checkpoints of the pass before may have been computed again
        if tu.get_non_tensor_data(data=micro_batch, key=FLAG, default=False):
            experts_NEK = self._as_fed(routes_of(micro_batch), micro_batch, inputs[1])
            self._replaying.enter_context(replay(self.module, experts_NEK, recorded(experts_NEK)))
        return inputs

    def forward_backward_batch(self, *args: Any, **kwargs: Any) -> Any:
        """verl's."""
        try:
            return super().forward_backward_batch(*args, **kwargs)
        finally:
            self._replaying.close()

    def _as_fed(self, routed: Tensor, micro_batch: Any, output_args: Any) -> Tensor:
        """``[N, layers, top_k]`` in the order in which the routers see the positions."""
        if not tu.get_non_tensor_data(data=micro_batch, key="use_remove_padding", default=True):
            return pad_sequence(list(routed.unbind()), batch_first=True).flatten(0, 1)
        experts_NEK = routed.values()
        if pad := int(output_args.get("pad_size", 0)):
            experts_NEK = torch.cat([experts_NEK, experts_NEK.new_zeros((pad, *experts_NEK.shape[1:]))])
        if self.use_ulysses_sp:
            experts_NEK = slice_input_tensor(experts_NEK, dim=0, padding=False)
        return experts_NEK


def routes_of(micro_batch: Any) -> Tensor:
    """The rows' experts: nested ``[B, positions, layers, top_k]``.

    Raises:
        CaptureError: There are none, or of one expert a token.
    """
    routed: Tensor | None = micro_batch.get("routed_experts", None)
    if routed is None:
        raise CaptureError(
            "the rows have no routes to replay",
            "set train.routing to own, or have the inference server return routed experts",
        )
    if routed.shape[-1] < 2:
        raise CaptureError(
            "routes of one expert a token cannot be told from verl's padding", "set train.routing to own"
        )
    return routed.long()


def recorded(experts_NEK: Tensor) -> Tensor:
    """Bool ``[N]``; where every layer has as many different experts as it is to choose."""
    ordered_NEK = experts_NEK.sort(-1).values
    return (ordered_NEK.diff(dim=-1) != 0).flatten(1).all(-1)
