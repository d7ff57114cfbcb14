"""verl's platform for a machine without a GPU; chosen by ``VERL_PLATFORM=cpu`` and never found by itself.

Ray is told of as many GPUs as there are to be workers: verl's resource pools count nothing else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

NAME = "cpu"


class _CpuModule(ModuleType):
    """Stands where verl expects ``torch.cuda``: what ``torch.cpu`` lacks does nothing, and memory is never counted."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Does nothing."""


def _zero(*_args: Any, **_kwargs: Any) -> int:
    return 0


def _cpu_module() -> _CpuModule:
    module = _CpuModule("lego_rl_cpu")
    counters = ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved")
    silent = ("empty_cache", "reset_peak_memory_stats", "set_device", "synchronize", "ipc_collect")
    module.__dict__.update(dict.fromkeys(counters, _zero) | dict.fromkeys(silent, _nothing))
    module.__dict__.update(
        current_device=lambda: NAME,
        get_device_name=lambda *_: NAME,
        get_rng_state=lambda *_: torch.get_rng_state(),
        is_initialized=lambda: True,
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        mem_get_info=lambda *_: (0, 0),
        set_rng_state=lambda state, *_: torch.set_rng_state(state),
    )
    return module


_MODULE = _cpu_module()


@PlatformRegistry.register(platform=NAME)
class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """Implements verl's platform on the CPU; see ``PlatformBase`` for what each method is."""

    # ruff: noqa: D102
    @property
    def device_name(self) -> str:
        return NAME

    @property
    def vendor_name(self) -> str:
        return NAME

    @property
    def device_module(self) -> ModuleType:
        return _MODULE

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        del use_smi_check
        return False

    def current_device(self) -> torch.device:
        return torch.device(NAME)

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        del device_index

    def synchronize(self, device_index: int | None = None) -> None:
        del device_index

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        del settings

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        del device_index
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "LEGO_RL_CPU_VISIBLE"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        del msg
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {"num_gpus": num_gpus}

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None
