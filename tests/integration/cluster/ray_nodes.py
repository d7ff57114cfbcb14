"""Two nodes of Ray on this machine, started by the commands that docs/cluster.md has for bare nodes."""

import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.cluster.verl_process import PYTHON, ROOT

_START_SEC = 60.0
_GPUS = "--num-gpus=1"  # verl's pools count nothing else, and each node has one process


def documented() -> list[list[str]]:
    """The lines of the page's section on Ray that run Ray, with the program of the environment of these tests."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    section = page.partition("## 2. Ray")[2].partition("\n## ")[0]
    lines = re.findall(r"^    (\.venv-cluster/bin/ray .+)$", section, re.MULTILINE)
    return [[str(PYTHON.with_name("ray")), *shlex.split(line)[1:]] for line in lines]


@contextmanager
def two_nodes(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Start a head and a node that joins it; the address that a recipe names as ``ray_address``.

    Args:
        folder: Ray's, and the home folder of its token; a short path.
        environment: What processes on the nodes find.
    """
    generate, head, join = documented()
    env = dict(environment)
    subprocess.run(generate, env=env, check=True, capture_output=True)
    assert (Path(env["HOME"]) / ".ray" / "auth_token").is_file()
    port = _free_port()
    address = f"127.0.0.1:{port}"
    here = ["--block", _GPUS, "--num-cpus=24", "--object-store-memory=500000000", "--disable-usage-stats"]
    first = [*_replaced(head, "6379", str(port)), *here, "--include-dashboard=false", f"--temp-dir={folder}"]
    second = [*_replaced(join, "DRIVER:6379", address), *here]
    with _running(first, env, folder / "head.log"):
        _wait_for_nodes(1, address, env)
        with _running(second, env, folder / "node.log"):
            _wait_for_nodes(2, address, env)
            yield address


def _replaced(command: Sequence[str], old: str, new: str) -> list[str]:
    assert any(old in word for word in command), f"the page says {command}"
    return [word.replace(old, new) for word in command]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _running(command: Sequence[str], env: Mapping[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for_nodes(count: int, address: str, env: Mapping[str, str]) -> None:
    """Ask ``ray status`` until it shows so many nodes."""
    until, shown = time.monotonic() + _START_SEC, ""
    while time.monotonic() < until:
        asked = subprocess.run(
            [str(PYTHON.with_name("ray")), "status", f"--address={address}"],
            check=False,
            env=env,
            capture_output=True,
            text=True,
        )
        shown = asked.stdout + asked.stderr
        if shown.count("node_") >= count:
            return
        time.sleep(0.5)
    raise AssertionError(f"Ray shows no {count} nodes: {shown[-1_000:]}")
