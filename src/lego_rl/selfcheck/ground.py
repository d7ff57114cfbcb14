"""Where attacks and honest work are tried: real trials, with secrets of the host and another trial's sandbox beside.

Invariant: a trial here is one of `run_trial`, from the specification to the record, in nothing weaker than what trains
a policy; only the engine says one fixed sentence.
"""

import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import as_file
from importlib.resources import files as resources
from pathlib import Path

from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial import Runtime, Scratch, run_trial
from lego_rl.sandbox.comparison import MAX_FILE_BYTES
from lego_rl.sandbox.environments import provider_of, state_of
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import NESTED
from lego_rl.selfcheck.attack import Target
from lego_rl.selfcheck.bystanders import NEIGHBOUR, WRITABLE, Bystanders, bystanders
from lego_rl.selfcheck.script_harness import NAME, ScriptHarness
from lego_rl.selfcheck.target import PROCESSES, SCRATCH_MB, Secrets, write_tasks
from lego_rl.threads import in_thread

BUDGET = Budget(turns=4, context_tokens=4_000, output_tokens=64, wall_clock_sec=30.0)
MARK = "reached:"
OUTLIVE = "lego-rl-outlives-"
"""How a process names itself that is meant to be alive when its trial is over; the id of its attack follows."""


@dataclass(frozen=True)
class Tried:
    """What came of one script.

    Attributes:
        record: The trial's record.
        reached: What it reached that it must not: its own words, and what the host saw.
        seconds: Of the whole trial.
    """

    record: TrialRecord
    reached: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Ground:
    """Everything that is shared by the trials of one self-check; made by `prepared`.

    Attributes:
        runtime: Of every trial, but for the harness.
        tasks: What is worked on.
        kept: What nobody may see.
        host: What stands beside the trials.
        neighbour: Path of another trial's session.
        interfaces: Network interfaces that a sandbox has, besides its loopback's.
    """

    runtime: Runtime
    tasks: dict[Target, Path]
    kept: Secrets
    host: Bystanders
    neighbour: str
    interfaces: tuple[str, ...]

    async def run(self, name: str, script: str, target: Target = Target.PLAIN) -> Tried:
        """Have a script do an agent's work, and see what came of it."""
        started = time.perf_counter()
        known = {
            **self.host.known,
            "NEIGHBOUR": self.neighbour,
            "OWN_INTERFACES": " ".join(self.interfaces),
            "OUTLIVE": f"{OUTLIVE}{name}",
        }
        runtime = replace(self.runtime, harness=ScriptHarness(script, known))
        spec = TrialSpec(
            task=self.tasks[target],
            label=f"selfcheck/{name}",
            attempt=0,
            attempts=1,
            seed=0,
            temperature=1.0,
            budget=BUDGET,
            harness=HarnessChoice(NAME),
            family="selfcheck",
        )
        record = await run_trial(spec, runtime)
        reached = await in_thread(lambda: tuple(self._reached(name, record)))
        return Tried(record, reached, time.perf_counter() - started)

    def _reached(self, name: str, record: TrialRecord) -> Iterator[str]:
        said = record.logs.get("harness.stdout", "")
        yield from (line.removeprefix(MARK).strip() for line in said.splitlines() if line.startswith(MARK))
        changes = record.patch.changes if record.patch is not None else ()
        left = b"\n".join(change.content for change in changes).decode(errors="replace")
        scratch = self.runtime.directory.scratch / record.spec.id
        logs, links = _read(scratch / "agent")
        yield from (f"the secret of {each}" for each in self.kept.seen_in("\n".join((said, left, logs))))
        yield from (f"a link on the host: {link}" for link in links)
        yield from (f"a file on the host that sets its user id: {path}" for path in _privileged(scratch))
        if any(len(change.content) > MAX_FILE_BYTES for change in changes):
            yield "a patch with a file beyond its bound"
        if (self.host.folder / WRITABLE / name).exists():
            yield "a file of the host"
        if any(f"{OUTLIVE}{name}" in line for line in _command_lines()):
            yield "a life after its trial"


@asynccontextmanager
async def prepared(settings: SandboxSettings) -> AsyncIterator[Ground]:
    """Make everything ready below the state folder of `settings`, and remove it afterwards.

    Raises:
        SandboxError: This machine cannot isolate an agent, or lacks what the self-check needs.
    """
    state = state_of(settings)
    with state.building(state.root, "selfcheck-") as folder:
        small = {"state": folder / NESTED, "processes": PROCESSES, "scratch_mb": SCRATCH_MB}
        own = settings.model_copy(update=small)
        kept = Secrets()
        (folder / "host").mkdir()
        async with AsyncExitStack() as stack:
            host = await stack.enter_async_context(bystanders(folder / "host", kept))
            tasks = await in_thread(partial(write_tasks, folder / "tasks", kept))
            gateway = _gateway()
            runtime = Runtime(
                gateway=gateway,
                harness=(harness := ScriptHarness("")),
                bundle=harness.install(folder / "bundle"),
                directory=RunDirectory.make(folder / "run"),
                sandbox=own,
                scratch=Scratch.KEEP,
            )
            neighbour = gateway.open(BUDGET, temperature=1.0)
            stack.push_async_callback(gateway.close, neighbour)
            other = await stack.enter_async_context(_neighbour(own, tasks[Target.PLAIN], kept))
            yield Ground(runtime, tasks, kept, host, neighbour.path, other.surroundings.interfaces)


@asynccontextmanager
async def _neighbour(settings: SandboxSettings, task: Path, kept: Secrets) -> AsyncIterator[Sandbox]:
    """Another trial's sandbox, with a secret in a file and in the environment and arguments of a process."""
    provider = provider_of(settings)
    image = await in_thread(lambda: provider.prepare(task / "environment", workdir="/app"))
    sandbox = await image.start(Phase.AGENT)
    script = (
        f"""echo "$SECRET" > /tmp/neighbour; setsid bash -c 'sleep 1000; true' {NEIGHBOUR} "$SECRET" &>/dev/null &"""
    )
    try:
        await sandbox.exec(["bash", "-c", script], env={"SECRET": kept.neighbour})
        yield sandbox
    finally:
        await sandbox.close()


def _gateway() -> Gateway:
    with as_file(resources("lego_rl.policies") / "demo") as policy:
        template = ChatTemplate.load(policy)
        encoder = Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))
    words = encoder.encode("Done.")
    engine = ScriptedEngine(lambda _prompt, _sampling: Reply([*words, template.end_of_turn]))
    return Gateway(engine, template, tool_call_parser("qwen3_coder"))


def _read(folder: Path) -> tuple[str, list[str]]:
    """The text of every file below a folder, links followed as a reader of logs would, and the links themselves."""
    texts, links = [], []
    for parent, folders, names in os.walk(folder):
        for path in (Path(parent, name) for name in (*names, *folders)):
            if path.is_symlink():
                links.append(f"{path.name} -> {path.readlink()}")
            if path.is_file() and stat.S_ISREG(path.stat().st_mode):
                with path.open("rb") as stream:
                    texts.append(stream.read(1 << 20).decode(errors="replace"))
    return "\n".join(texts), links


def _privileged(folder: Path) -> Iterator[str]:
    """Files below a folder that run as their owner or group."""
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) and not path.is_symlink():
                yield path.name


def _command_lines() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
