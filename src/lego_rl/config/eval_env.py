"""The published interface of an evaluation: a file of ``KEY=value`` lines, and the configuration that it stands for.

Invariant: the file is data. Nothing in it is executed or expanded, an unknown key is refused with the nearest one, and
whatever it says ends in an `EvaluationConfig`, so that there is one way to evaluate.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from lego_rl.config.evaluation import EvaluationConfig
from lego_rl.errors import ConfigError
from lego_rl.settings import Settings, nearest, validate

GUIDE = "docs/evaluation.md"
SCAFFOLDS = {"ohsdk": "openhands-sdk", "cc": "claude-code", "oc": "opencode"}
"""What the published files call a harness."""
BACKENDS = {"k8s": "kubernetes", "kubernetes": "kubernetes", "docker": "docker", "bubblewrap": "bubblewrap"}
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_KEEP = "_keep"


class EvalEnv(Settings):
    """The keys of such a file, in lower case."""

    model_path: str | None = None
    """A Hugging Face folder such as an export; it is served by plain ``vllm serve`` for the evaluation."""
    model_name: str | None = None
    """Its name in the report, and at the endpoint; by default the folder's."""
    api_base: str | None = None
    """An OpenAI-compatible endpoint that serves the model already, in place of MODEL_PATH."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the endpoint's key."""
    dataset_path: str | None = None
    """A pool, an index of tasks, or a task directory."""
    dataset_name: str | None = None
    """Name of a pool below ``pools/``: what ``lego-rl tasks convert`` made of the data set of that name."""
    split: str | None = None
    """One split of it."""
    n_tasks: int | None = Field(default=None, ge=1)
    """At most so many tasks."""
    backend: Literal["k8s", "kubernetes", "docker", "bubblewrap"] = "bubblewrap"
    """How sandboxes are isolated."""
    k8s_kubeconfig: str | None = None
    """Access to the cluster of BACKEND=k8s."""
    k8s_namespace: str | None = None
    """Its namespace."""
    scaffold: str
    """``ohsdk``, ``cc``, ``oc``, or another harness's registry name; several with commas between."""
    n_concurrent: int = Field(default=4, ge=1)
    """Trials at a time."""
    n_attempts: int = Field(default=1, ge=1)
    """Trials of each task."""
    eval_protocol: str = "swe-bench-verified"
    """Sampling and budget, but for the keys below."""
    eval_temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature."""
    max_turns: int | None = Field(default=None, ge=1)
    """Answered model calls of a trial."""
    max_input_tokens: int | None = Field(default=None, ge=16)
    """Longest prompt of one call; with the output tokens it is the context."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of one answer."""
    output_dir: str
    """Folder of the evaluation."""
    tool_parser: str = "qwen3_coder"
    """Format in which the model writes tool calls."""
    vllm_environment: str = ".venv-serve"
    """Virtual environment with vLLM (``scripts/setup_env.sh serve``)."""
    vllm_device: Literal["cuda", "cpu"] = "cuda"
    """What it computes on."""
    vllm_port: int = Field(default=8000, ge=1, le=65_535)
    """Where it listens, on this machine alone."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that share one copy of the model."""
    vllm_args: str = ""
    """Further flags of vLLM's own."""
    eval_compare_keep: bool = False
    """Evaluate once more through the gateway, which keeps the reasoning of earlier turns as it was sampled, and print
    the difference."""

    @property
    def name(self) -> str:
        """The model's name in the report."""
        said = self.model_name or Path(self.model_path or "").name or "model"
        return re.sub(r"[^A-Za-z0-9._]+", "-", said).strip("-._") or "model"

    @property
    def harnesses(self) -> tuple[str, ...]:
        """Registry names."""
        return tuple(SCAFFOLDS.get(each.strip(), each.strip()) for each in self.scaffold.split(","))


def read_env(path: Path) -> EvalEnv:
    """Read a file.

    Raises:
        ConfigError: It cannot be read, or a key is unknown, missing, there twice or of another type.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", "copy scripts/eval/_template.env and fill it in") from error
    env = validate(EvalEnv, _values(text, path), guide=GUIDE)
    for one, other, what in (
        ("model_path", "api_base", "the model"),
        ("dataset_path", "dataset_name", "the tasks"),
    ):
        if (getattr(env, one) is None) == (getattr(env, other) is None):
            raise ConfigError(
                f"{path} has to name {what} by one of {one.upper()} and {other.upper()}",
                f"set exactly one; see {GUIDE}",
            )
    if env.api_base is not None and env.model_name is None:
        raise ConfigError(f"{path} lacks MODEL_NAME", "say how the endpoint at API_BASE calls the model")
    return env


def _values(text: str, path: Path) -> dict[str, str]:
    known = {name.upper(): name for name in EvalEnv.model_fields}
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        parsed = _LINE.fullmatch(stripped)
        if parsed is None:
            raise ConfigError(f"{path}:{number} is no KEY=value", "write one key a line, and comments after #")
        key, value = parsed[1].upper(), _unquoted(parsed[2])
        if key not in known:
            raise ConfigError(f"{path}:{number}: unknown key {key}", nearest(key, known))
        if known[key] in found:
            raise ConfigError(f"{path}:{number}: {key} is there twice", "keep one of them")
        if value:
            found[known[key]] = value
    for name in ("scaffold", "output_dir"):
        if name not in found:
            raise ConfigError(f"{path} lacks {name.upper()}", "scripts/eval/_template.env has every key")
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value.partition(" #")[0].strip()


def evaluation_of(env: EvalEnv) -> EvaluationConfig:
    """The configuration that a file stands for.

    Raises:
        ConfigError: The tasks are not there, or a value does not fit.
    """
    protocol: dict[str, Any] = {"name": env.eval_protocol}
    said = {"temperature": env.eval_temperature, "turns": env.max_turns, "output_tokens": env.max_output_tokens}
    protocol |= {key: value for key, value in said.items() if value is not None}
    raw: dict[str, Any] = {
        "evaluation": {"dir": env.output_dir, "attempts": env.n_attempts},
        "protocol": protocol,
        "tasks": _tasks(env),
        "models": _models(env),
        "harnesses": [{"name": name} for name in env.harnesses],
        "sandbox": _sandbox(env),
        "running": {"concurrency": env.n_concurrent},
    }
    try:
        config = validate(EvaluationConfig, raw, guide=GUIDE)
    except ValidationError as error:  # of a protocol's own values
        raise ConfigError(str(error), f"see {GUIDE}") from error
    if env.max_input_tokens is None:
        return config
    context = env.max_input_tokens + config.protocol.output_tokens
    return config.model_copy(update={"protocol": config.protocol.model_copy(update={"context_tokens": context})})


def _tasks(env: EvalEnv) -> Mapping[str, Any]:
    pool = env.dataset_path or f"pools/{(env.dataset_name or '').replace('/', '__')}"
    if pool != "builtin" and not Path(pool).exists():
        made = f"lego-rl tasks convert FORMAT ROWS --out {pool}"
        raise ConfigError(f"there are no tasks at {pool}", f"make them of the data set's rows: {made}")
    return {"pool": pool, "split": env.split, "count": env.n_tasks}


def _models(env: EvalEnv) -> list[Mapping[str, Any]]:
    url = env.api_base or f"http://127.0.0.1:{env.vllm_port}/v1"
    engine = {"kind": "chat", "url": url, "model": env.model_name or env.name, "key_env": env.api_key_env}
    models: list[Mapping[str, Any]] = [{"name": env.name, "engine": engine}]
    if env.eval_compare_keep:
        if env.model_path is None:
            raise ConfigError("EVAL_COMPARE_KEEP needs MODEL_PATH", "an endpoint gives no token ids to keep")
        tokens = {"kind": "vllm", "urls": [f"http://127.0.0.1:{env.vllm_port}"], "dtype": _dtype(env)}
        kept = {"name": env.name + _KEEP, "path": env.model_path, "tool_parser": env.tool_parser, "engine": tokens}
        models.append(kept | {"reasoning": "keep"})
    return models


def _dtype(env: EvalEnv) -> str:
    return "float32" if env.vllm_device == "cpu" else "bfloat16"


def _sandbox(env: EvalEnv) -> Mapping[str, Any]:
    backend = BACKENDS[env.backend]
    said = {"kubeconfig": env.k8s_kubeconfig, "namespace": env.k8s_namespace}
    given = {key: value for key, value in said.items() if value is not None}
    if given and backend != "kubernetes":
        raise ConfigError(f"K8S_{next(iter(given)).upper()} is set and BACKEND is {env.backend}", "set BACKEND=k8s")
    return {"environment": backend} | ({"kubernetes": given} if given else {})
