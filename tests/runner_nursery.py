"""The real runner with eight trials in flight, forked at will: a stand-in harness, real sandboxes, a scripted engine.

Stand-alone: ``runner_nursery.py FOLDER SETTINGS``, the latter of its sandboxes, as JSON. A line ``LABEL TRIALS`` on
standard input forks a runner of so many trials, which may be none; the id of the fork is printed, and once it has
ended its status. The forks spare each the imports.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness.base import BundleSpec, Conduct, Endpoint, HarnessBundle, Launch, ToolUse
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox.settings import SandboxSettings

POLICY = Path(__file__).parents[1] / "src" / "lego_rl" / "policies" / "demo"
IN_FLIGHT = 8
MARKER = "sleep 312"
NAME = "stand-in"

HARNESS = f"""
import json, os, socket, subprocess, sys, time
host, _, path = os.environ["ENDPOINT"].removeprefix("http://").partition("/")
subprocess.Popen({MARKER.split()!r})
for turn in range(3):
    body = json.dumps({{"model": "m", "messages": [{{"role": "user", "content": f"{{turn}}"}}]}}).encode()
    with socket.create_connection((host.split(":")[0], int(host.split(":")[1]))) as server:
        head = f"POST /{{path}}/v1/chat/completions HTTP/1.1\\nHost: x\\nContent-Type: application/json\\n"
        head += f"Content-Length: {{len(body)}}\\nConnection: close\\n\\n"
        server.sendall(head.replace("\\n", "\\r\\n").encode() + body)
        while server.recv(65536):
            pass
    with open(f"change{{turn}}.py", "w") as file:
        file.write("x = 1\\n" * 1000)
    time.sleep(0.05)
"""

TASK_TOML = """\
schema_version = "1.4"

[metadata]
grader = "tests"

[environment]
workdir = "/app"
network_mode = "no-network"
memory_mb = 256
storage_mb = 64
"""


@dataclass(frozen=True)
class StandIn:
    """A harness of a few lines that is a real process with a child of its own."""

    name: str = NAME
    version: str = "1"

    @property
    def spec(self) -> BundleSpec:
        return BundleSpec(NAME, "1", "MIT", "")

    @property
    def conduct(self) -> Conduct:
        return Conduct(shell=ToolUse("none", "none"), too_long="stops")

    def install(self, root: Path) -> HarnessBundle:
        (root / "harness.py").write_text(HARNESS)
        return HarnessBundle(NAME, "1", "0" * 64, root, len(HARNESS), "MIT")

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = ""
    ) -> Launch:
        return Launch(
            ("python3", "-I", "-S", f"{mount}/harness.py"),
            {"ENDPOINT": endpoint.base_url, "PATH": path, "HOME": home},
            stdin=instruction,
        )


def write_task(folder: Path) -> Path:
    """A task whose tests are another process that would outlive them."""
    spec = {
        "FAIL_TO_PASS": ["tests/test_it.py::test_it"],
        "PASS_TO_PASS": [],
        "command": f"{MARKER} & sleep 0.2",
        "parser": "pytest-junit",
        "test_files": ["tests/test_it.py"],
    }
    files = {f"environment/repo/part{number}.py": "x = 1\n" for number in range(50)}
    files |= {"task.toml": TASK_TOML, "instruction.md": "Change something.\n", "tests/spec.json": json.dumps(spec)}
    files |= {"tests/files/tests/test_it.py": "def test_it():\n    pass\n", "tests/test.sh": "#!/bin/sh\nexit 1\n"}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@dataclass(frozen=True)
class Runner:
    """What the forks share.

    Attributes:
        folder: Of everything.
        template: The policy's, which takes a while to load.
        bundle: The stand-in.
        sandbox: How sandboxes are isolated, and where they keep their files.
    """

    folder: Path
    template: ChatTemplate
    bundle: HarnessBundle
    sandbox: SandboxSettings

    @classmethod
    def make(cls, folder: Path, sandbox: SandboxSettings) -> "Runner":
        """Write what is below `folder`."""
        for name in ("temporary", "bundle"):
            (folder / name).mkdir()
        write_task(folder / "task")
        return cls(folder, ChatTemplate.load(POLICY), StandIn().install(folder / "bundle"), sandbox)

    @property
    def temporary(self) -> Path:
        return self.folder / "temporary"

    def runtime(self, meanwhile: Callable[[], object] = lambda: None) -> Runtime:
        """Of every trial.

        Args:
            meanwhile: Happens before each answer of the engine.
        """
        directory = RunDirectory.make(self.folder / "run")
        script = Reply((self.template.end_of_turn,))

        def answer(_: object, __: object) -> Reply:
            meanwhile()
            return script

        engine = ScriptedEngine(answer)
        return Runtime(
            gateway=Gateway(engine, self.template, tool_call_parser("qwen3_coder"), spool=directory.scratch),
            harness=StandIn(),
            bundle=self.bundle,
            directory=directory,
            sandbox=self.sandbox,
        )

    async def batch(self, specs: Sequence[TrialSpec]) -> None:
        """What a run does, from its lock to its last record."""
        runtime = self.runtime()
        with Journal(runtime.directory.journal) as journal:
            await run_trials(specs, runtime, journal, concurrency=IN_FLIGHT)

    def specs(self, label: str, trials: int) -> list[TrialSpec]:
        budget = Budget(turns=10, context_tokens=20_000, output_tokens=100, wall_clock_sec=60.0)
        return [
            TrialSpec(
                task=self.folder / "task", label=label, attempt=attempt, attempts=trials, seed=attempt,
                temperature=1.0, budget=budget, harness=HarnessChoice(NAME),
            )
            for attempt in range(trials)
        ]  # fmt: skip


def main() -> None:
    runner = Runner.make(Path(sys.argv[1]), SandboxSettings.model_validate(json.loads(sys.argv[2])))
    print("ready", flush=True)
    for line in sys.stdin:
        label, trials = line.split()
        child = os.fork()
        if child == 0:
            tempfile.tempdir = str(runner.temporary)
            asyncio.run(runner.batch(runner.specs(label, int(trials))))
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


if __name__ == "__main__":
    main()
