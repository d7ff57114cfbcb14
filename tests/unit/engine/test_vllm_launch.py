"""The line that serves a policy says what capture, replay and weight pushing rely on."""

import shlex
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lego_rl.cli import app
from lego_rl.engine.vllm.launch import WORKER, Placement, ServedModel, launch
from lego_rl.errors import ConfigError

DEMO = files("lego_rl.policies") / "demo"
MOE = ServedModel(Path("/policies/moe"), "qwen3_moe", 4096, 8, "qwen3_coder")
DENSE = ServedModel(Path("/policies/dense"), "qwen3", 4096, 0, "hermes")


def flags(model: ServedModel, place: Placement) -> dict[str, str]:
    """Flag → its value, or nothing."""
    arguments = launch(model, place).arguments
    pairs = zip(arguments, (*arguments[1:], ""), strict=True)
    return {flag: "" if value.startswith("--") else value for flag, value in pairs if flag.startswith("--")}


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_every_server_tells_how_likely_what_it_sampled_was(platform: str) -> None:
    found = flags(MOE, Placement(Path("env"), platform="cpu" if platform == "cpu" else "cuda"))
    assert found["--logprobs-mode"] == "processed_logprobs"
    assert found["--generation-config"] == "vllm"
    assert found["--tool-call-parser"] == "qwen3_coder"
    assert found["--max-model-len"] == "4096"
    assert {"--enable-scale-out", "--enable-prefix-caching", "--enable-auto-tool-choice"} <= set(found)


def test_routes_come_from_vllm_on_gpus_and_from_our_worker_on_cpus() -> None:
    gpu, cpu = (flags(MOE, Placement(Path("env"), platform=platform)) for platform in ("cuda", "cpu"))
    assert "--enable-return-routed-experts" in gpu
    assert gpu["--worker-extension-cls"] == "lego_vllm_worker.PolicyWorker"
    assert "--enable-return-routed-experts" not in cpu
    assert cpu["--worker-cls"] == "lego_vllm_worker.CpuPolicyWorker"
    assert "--enforce-eager" in cpu


def test_experts_are_spread_over_gpus_and_a_dense_policy_has_none() -> None:
    spread = flags(MOE, Placement(Path("env"), tensor_parallel=4))
    assert spread["--tensor-parallel-size"] == "4"
    assert "--enable-expert-parallel" in spread
    dense = flags(DENSE, Placement(Path("env"), tensor_parallel=4))
    assert not {"--enable-expert-parallel", "--enable-return-routed-experts"} & set(dense)


def test_the_server_finds_our_worker_and_nothing_else_of_ours() -> None:
    assert launch(MOE, Placement(Path("env"))).variables["PYTHONPATH"] == str(WORKER)
    assert [path.name for path in WORKER.glob("*.py")] == ["lego_vllm_worker.py"]


@pytest.mark.parametrize(
    ("model", "place", "named"),
    [
        (MOE, Placement(Path("env"), context=5000), "5000"),
        (MOE, Placement(Path("env"), platform="cpu", tensor_parallel=2), "one process"),
        (
            ServedModel(Path("p"), "qwen3_5_moe", 4096, 8, "qwen3_coder"),
            Placement(Path("env"), platform="cpu", dtype="float32"),
            "bfloat16 only",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(model: ServedModel, place: Placement, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        launch(model, place)


def test_the_command_prints_the_line_with_the_parser_of_the_template_and_what_is_added() -> None:
    shown = CliRunner().invoke(
        app, ["serve", "policy", "builtin:demo", "--device", "cpu", "--dry-run", "--", "--seed", "3"]
    )
    assert shown.exit_code == 0, shown.output
    line = shlex.split(shown.output)
    assert line[0] == "env"
    assert line[line.index("--tool-call-parser") + 1] == "qwen3_coder"
    assert line[line.index("--model") + 1] == str(DEMO)
    assert line[-2:] == ["--seed", "3"]


def test_a_parser_that_does_not_read_the_template_is_refused() -> None:
    shown = CliRunner().invoke(app, ["serve", "policy", "builtin:demo", "--tool-parser", "hermes", "--dry-run"])
    assert isinstance(shown.exception, ConfigError)
    assert "cannot read the calls" in shown.exception.problem


def test_a_missing_environment_is_refused_before_anything_starts(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["serve", "policy", "builtin:demo", "--environment", str(tmp_path)])
    assert isinstance(shown.exception, ConfigError)
    assert "make setup-vllm" in shown.exception.fix
