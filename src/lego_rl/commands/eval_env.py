"""``scripts/eval/eval.sh FILE``: an evaluation as a file of keys describes it, the model served for its time.

Invariant: thin over ``lego-rl eval run``. The server that is started listens on this machine alone and ends with the
command, whatever ends it; what it answers is recorded as any endpoint's.
"""

import os
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lego_rl.commands.eval_report import compare_places
from lego_rl.commands.eval_run import run_config
from lego_rl.commands.screen import Screen
from lego_rl.commands.serve import planned
from lego_rl.config.eval_env import EvalEnv, evaluation_of, read_env
from lego_rl.config.load import dump
from lego_rl.engine.vllm.launch import Placement
from lego_rl.errors import ConfigError, RunError
from lego_rl.rollout.spec import Shard

_START_SEC = 1_800.0
_LOG = "vllm.log"
_ALONE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def run(path: Path) -> None:
    """Serve the model, evaluate, and print the difference to serving it through the gateway where that is asked for.

    Raises:
        LegoError: A key is wrong, the server does not start, or the evaluation cannot be run.
    """
    env = read_env(path)
    config = evaluation_of(env)
    config.evaluation.dir.mkdir(parents=True, exist_ok=True)
    plain, *kept = config.models
    if env.model_path is None:
        run_config(config, Shard())
        return
    log = config.evaluation.dir.parent / f"{config.evaluation.dir.name}.{_LOG}"
    with _serving(env, plain_line(env, config.protocol.context_tokens), log):
        run_config(config, Shard(), only=(plain.name,))
    if kept:
        launched = planned(env.model_path, _placement(env, config.protocol.context_tokens), env.tool_parser)
        with _serving(env, launched.arguments, log, **launched.variables):
            run_config(config, Shard(), only=(kept[0].name,))
        for harness in config.harnesses:
            places = (f"{config.evaluation.dir}:{model.name}--{harness.column}" for model in config.models)
            compare_places(*places, as_json=False)


def dry_run(path: Path) -> None:
    """Print the server's line and the configuration.

    Raises:
        ConfigError: A key is wrong.
    """
    env = read_env(path)
    config = evaluation_of(env)
    screen = Screen()
    if env.model_path is not None:
        screen.print(f"# {shlex.join(plain_line(env, config.protocol.context_tokens))}", soft_wrap=True)
    screen.print(dump(config), soft_wrap=True)


def plain_line(env: EvalEnv, context: int) -> tuple[str, ...]:
    """The line that the model card tells users to serve the model by, and where it listens."""
    binaries = Path(env.vllm_environment).absolute() / "bin"
    # The package for CPUs has no command of its own; this is the module that ``vllm serve`` runs.
    cpu = (str(binaries / "python"), "-m", "vllm.entrypoints.launchers.api_server.entry", "--model")
    program = cpu if env.vllm_device == "cpu" else (str(binaries / "vllm"), "serve")
    flags = ["--served-model-name", env.model_name or env.name, "--host", "127.0.0.1", "--port", str(env.vllm_port)]
    flags += ["--enable-auto-tool-choice", "--tool-call-parser", env.tool_parser, "--max-model-len", str(context)]
    if env.tensor_parallel > 1:
        flags += ["--tensor-parallel-size", str(env.tensor_parallel)]
    return (*program, str(Path(env.model_path or "").absolute()), *flags, *shlex.split(env.vllm_args))


def _placement(env: EvalEnv, context: int) -> Placement:
    return Placement(
        environment=Path(env.vllm_environment),
        platform=env.vllm_device,
        dtype="float32" if env.vllm_device == "cpu" else "bfloat16",
        port=env.vllm_port,
        context=context,
        tensor_parallel=env.tensor_parallel,
        further=tuple(shlex.split(env.vllm_args)),
    )


@contextmanager
def _serving(env: EvalEnv, line: Sequence[str], log: Path, **variables: str) -> Iterator[None]:
    """A server for the time of the context.

    Raises:
        ConfigError: There is no vLLM, or no model, or something else listens there.
        RunError: The server ended, or did not come up.
    """
    if not Path(line[0]).exists():
        raise ConfigError(f"there is no vLLM in {env.vllm_environment}", "run: scripts/setup_env.sh serve")
    if not Path(env.model_path or "").is_dir():
        raise ConfigError(f"there is no model at {env.model_path}", "name the folder of an export as MODEL_PATH")
    if _answers(env.vllm_port):
        raise ConfigError(f"something listens at port {env.vllm_port} already", "choose another VLLM_PORT")
    Screen(stderr=True).print(f"starting vLLM; what it says is in {log}", soft_wrap=True)
    with log.open("ab") as out:
        environment = {**os.environ, **_ALONE, **variables}
        process = subprocess.Popen(line, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _wait(process, env.vllm_port, log)
            yield
        finally:
            _end(process)


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    until = time.monotonic() + _START_SEC
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RunError(f"vLLM ended with status {process.returncode}", f"read the end of {log}")
        if _answers(port):
            return
        time.sleep(0.5)
    raise RunError(f"vLLM was not ready within {_START_SEC:.0f} s", f"read the end of {log}")


def _answers(port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
    except OSError as error:
        return isinstance(error, urllib.error.HTTPError)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
