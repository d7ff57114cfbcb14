"""verl's FSDP2 engine on the CPU, with routing replay."""

from typing import Any

from verl.workers.engine import EngineRegistry

from lego_rl.cluster.trainer.replay import ReplayEngine


@EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cpu")
class CpuReplayEngine(ReplayEngine):
    """The engine of an actor or a reference."""

    def _build_fsdp_module(self, module: Any) -> Any:
        """verl moves a reference's weights to pinned memory, which only a machine with a GPU has."""
        forward_only, self.engine_config.forward_only = self.engine_config.forward_only, False
        try:
            return super()._build_fsdp_module(module)
        finally:
            self.engine_config.forward_only = forward_only
