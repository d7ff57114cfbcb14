"""The published file of keys: data that is read, never run, and ends in a configuration or in one line that helps."""

from pathlib import Path

import pytest

from lego_rl.config.eval_env import EvalEnv, evaluation_of, read_env
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.errors import ConfigError

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "scripts" / "eval" / "_template.env"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "my_eval.env"
    path.write_text("\n".join(["SCAFFOLD=cc", "OUTPUT_DIR=out", *lines]) + "\n")
    return path


def filled(folder: Path, **values: str) -> Path:
    """The template with some keys filled in, as a person does it."""
    lines = TEMPLATE.read_text().splitlines()
    for key, value in values.items():
        (at,) = [number for number, line in enumerate(lines) if line.partition("=")[0] == key]
        lines[at] = f"{key}={value}"
    path = folder / "my_eval.env"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_template_has_every_key_and_no_other() -> None:
    keys = [line.partition("=")[0] for line in TEMPLATE.read_text().splitlines() if "=" in line and line[0].isupper()]
    assert sorted(keys) == sorted(name.upper() for name in EvalEnv.model_fields)


def test_a_filled_template_is_an_evaluation_of_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pools" / "org__set").mkdir(parents=True)
    path = filled(
        tmp_path,
        MODEL_PATH="exports/my model",
        DATASET_NAME="org/set",
        SCAFFOLD="ohsdk,cc,oc",
        BACKEND="k8s",
        K8S_KUBECONFIG="/etc/kube.yaml",
        N_CONCURRENT="16",
        N_ATTEMPTS="4",
        EVAL_TEMPERATURE="0.6",
        MAX_INPUT_TOKENS="100000",
        OUTPUT_DIR="runs/e",
    )
    config = evaluation_of(read_env(path))
    assert [harness.name for harness in config.harnesses] == ["openhands-sdk", "claude-code", "opencode"]
    (model,) = config.models
    assert model.name == "my-model"
    assert isinstance(model.engine, ChatSettings)
    assert model.engine.url == "http://127.0.0.1:8000/v1"
    assert config.tasks.pool == "pools/org__set"
    assert (config.sandbox.environment, str(config.sandbox.kubernetes.kubeconfig)) == ("kubernetes", "/etc/kube.yaml")
    protocol = config.protocol
    assert (protocol.temperature, protocol.turns, protocol.output_tokens) == (0.6, 200, 32_768)
    assert protocol.context_tokens == 132_768
    assert (config.running.concurrency, config.evaluation.attempts, str(config.evaluation.dir)) == (16, 4, "runs/e")


def test_keep_is_a_second_model_through_the_gateway(tmp_path: Path) -> None:
    path = written(tmp_path, "MODEL_PATH=m", f"DATASET_PATH={tmp_path}", "EVAL_COMPARE_KEEP=true")
    plain, kept = evaluation_of(read_env(path)).models
    assert (plain.name, kept.name, kept.reasoning, kept.engine.kind) == ("m", "m_keep", "keep", "vllm")


def test_values_are_text_and_nothing_is_run(tmp_path: Path) -> None:
    bait = tmp_path / "bait"
    path = written(
        tmp_path, f"MODEL_PATH='$(touch {bait}) m'  ", f'export DATASET_PATH="{tmp_path}"', "N_TASKS=3 # a few", "# x"
    )
    env = read_env(path)
    assert env.model_path == f"$(touch {bait}) m"
    assert (env.dataset_path, env.n_tasks) == (str(tmp_path), 3)
    assert not bait.exists()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["MODLE_PATH=m"], "unknown key MODLE_PATH"),
        (["MODEL_PATH=m", "MODEL_PATH=n"], "MODEL_PATH is there twice"),
        (["MODEL_PATH"], "is no KEY=value"),
        (["DATASET_PATH=."], "one of MODEL_PATH and API_BASE"),
        (["MODEL_PATH=m"], "one of DATASET_PATH and DATASET_NAME"),
        (["MODEL_PATH=m", "API_BASE=http://h/v1", "DATASET_PATH=."], "one of MODEL_PATH and API_BASE"),
        (["API_BASE=http://h/v1", "DATASET_PATH=."], "lacks MODEL_NAME"),
        (["MODEL_PATH=m", "DATASET_PATH=nowhere"], "there are no tasks at nowhere"),
        (["MODEL_PATH=m", "DATASET_PATH=.", "N_CONCURRENT=many"], "n_concurrent = 'many'"),
        (["MODEL_PATH=m", "DATASET_PATH=.", "BACKEND=podman"], "backend = 'podman'"),
        (["MODEL_PATH=m", "DATASET_PATH=.", "K8S_KUBECONFIG=k"], "K8S_KUBECONFIG is set and BACKEND is bubblewrap"),
        (["MODEL_PATH=m", "DATASET_PATH=.", "EVAL_PROTOCOL=swe-bench"], "there is no protocol 'swe-bench'"),
        (["API_BASE=http://h/v1", "MODEL_NAME=m", "DATASET_PATH=.", "EVAL_COMPARE_KEEP=1"], "needs MODEL_PATH"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        evaluation_of(read_env(written(tmp_path, *lines)))
    assert says in error.value.problem


@pytest.mark.parametrize("missing", ["SCAFFOLD", "OUTPUT_DIR"])
def test_a_missing_key_is_named(tmp_path: Path, missing: str) -> None:
    path = filled(tmp_path, MODEL_PATH="m", DATASET_PATH=".", SCAFFOLD="cc", OUTPUT_DIR="o")
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith(missing)))
    with pytest.raises(ConfigError, match=f"lacks {missing}"):
        read_env(path)
