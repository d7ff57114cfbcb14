"""Real trials into which faults are injected: real sandboxes, a real gateway, a small harness, and a policy that plays
a part. What is done from outside is done by the host while the policy is asked."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, override

import pytest
from harbor.models.trial.config import TrialConfig
from rollout_kit import FIX, POLICY, playing, runtime, spec, write_task
from small_harness import SmallHarness

from lego_rl.engine.protocol import Engine
from lego_rl.errors import SandboxError
from lego_rl.gateway.engine_answers import EnginePolicy
from lego_rl.gateway.server import Gateway, Listener
from lego_rl.gateway.session import Session
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness.base import Launch
from lego_rl.harness.start import start
from lego_rl.rollout import agent, trial
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.harbor_trial import trial_config
from lego_rl.rollout.labels import BEFORE
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import TrialStore
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox import grading
from lego_rl.sandbox.bubblewrap.box import BubblewrapSandbox
from lego_rl.sandbox.bubblewrap.image import BubblewrapImage
from lego_rl.sandbox.processes import descendants
from lego_rl.sandbox.sandbox import Completed, Phase, Sandbox


class WatchedGateway(Gateway):
    """Remembers its newest listener."""

    newest: Listener

    @override
    async def serve(self, sock: socket.socket, session: Session[object]) -> Listener:
        self.newest = await super().serve(sock, session)
        return self.newest


@dataclass
class Scene:
    """The host's side of a part that is being played.

    Attributes:
        trials: What runs it.
        part: Its name.
        task: Its task.
    """

    trials: "FaultyTrials"
    part: str
    task: Path

    @property
    def box(self) -> BubblewrapSandbox:
        """Its sandbox, once the harness runs."""
        found = self.trials.boxes[self.part]
        assert isinstance(found, BubblewrapSandbox)
        return found

    @property
    def bwrap(self) -> int:
        """The sandbox's process outside."""
        return self.box._process.pid

    @property
    def first(self) -> int:
        """The sandbox's first process, on the host."""
        return descendants(self.bwrap)[1]

    def spoil_patch_file(self) -> None:
        """Have the host unable to write the patch: its name is a link into a folder that is not there."""
        folder = self.trials.base.directory.scratch / self.trials.specs[self.part].id / "verifier"
        folder.mkdir(exist_ok=True)
        (folder / "patch.json").symlink_to("not/there")


def unmoved(scene: Scene) -> None:
    """The host does nothing."""


def unchanged(base: Runtime) -> Runtime:
    """The runtime that every part has."""
    return base


@dataclass(frozen=True)
class Injection:
    """How a row is brought about.

    Attributes:
        script: What the policy says, turn by turn.
        reward: What the trial earns.
        spec: Changes of what the trial may spend.
        prepare: Changes the task before the trial.
        runtime: Changes what the trial runs in.
        host: What the host does when the policy is asked for the second time, or the first where it says so.
        turn: When that is.
        ended: How the harness's process ends for the host, where an environment other than this says more.
        recorded: What the record comes to.
    """

    script: Sequence[str] = (FIX, "Mended.")
    reward: int | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Path], object] = lambda task: None
    runtime: Callable[[Runtime], Runtime] = unchanged
    host: Callable[[Scene], object] = unmoved
    turn: int = 1
    ended: Callable[[Completed], Completed] = lambda done: done
    recorded: Callable[[TrialRecord], TrialRecord] = lambda record: record


@dataclass
class FaultyTrials:
    """Runs every part of a batch with its fault; what `run_trials` runs trials by.

    Attributes:
        base: The runtime without any fault; its engine plays the parts.
        injections: Part → its fault.
        specs: Part → its trial.
        boxes: Part → the sandbox of its newest try, once the harness runs.
        gateways: Part → the gateway of its newest try.
        graders: Pristine tree → the newest grading sandbox that started from it, once the tests run.
        failing: Pristine tree → why the next starts of a grading sandbox from it fail.
    waiting: What the host has begun to do.
        grading: Is told of every further one of `graders`.
    """

    base: Runtime
    injections: Mapping[str, Injection]
    specs: dict[str, TrialSpec] = field(default_factory=dict)
    boxes: dict[str, Sandbox] = field(default_factory=dict)
    gateways: dict[str, WatchedGateway] = field(default_factory=dict)
    graders: dict[Path, BubblewrapSandbox] = field(default_factory=dict)
    failing: defaultdict[Path, list[Exception]] = field(default_factory=lambda: defaultdict(list))
    waiting: list[asyncio.Task[None]] = field(default_factory=list)
    grading: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def store(self) -> TrialStore:
        return self.base.store

    def prepare(self) -> None:
        self.base.prepare()

    async def run(self, spec: TrialSpec) -> TrialRecord:
        part = spec.task.name
        runtime = self.injections[part].runtime(self.base)
        if runtime.gateway is self.base.gateway:
            runtime = replace(runtime, gateway=watched_gateway(engine_of(self.base)))
        assert isinstance(runtime.gateway, WatchedGateway)
        self.gateways[part] = runtime.gateway
        return self.injections[part].recorded(await runtime.run(spec))

    def interfere(self, part: str, turn: int) -> None:
        """Is told of every line before the policy says it."""
        injection = self.injections[part]
        if turn == injection.turn:
            injection.host(Scene(self, part, self.specs[part].task))

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch what is started, and open a hole in the sandbox whose seal is to fail."""
        start_box = BubblewrapImage.start

        async def watched(launch: Launch, sandbox: Sandbox, *, timeout_sec: float) -> Completed:
            part = launch.env["PART"]
            self.boxes[part] = sandbox
            done = await start(launch, sandbox, timeout_sec=timeout_sec)
            return self.injections[part].ended(done) if part in self.injections else done

        async def remembered(image: BubblewrapImage, phase: Phase, **options: Any) -> BubblewrapSandbox:
            if phase is Phase.GRADING and self.failing[image.pristine]:
                raise SandboxError("a sandbox was not ready", "try again") from self.failing[image.pristine].pop()
            box = await start_box(image, phase, **options)
            if phase is Phase.GRADING:
                self._tell_when_tested(box)
                if (image.pristine / "part.txt").read_text() == Ended.PATCH_NOT_APPLIED:
                    box.run_folder.upper.chmod(0o555)
            return box

        def holed(spec: TrialSpec, *arguments: Any, **options: Any) -> TrialConfig:
            config = trial_config(spec, *arguments, **options)
            if spec.task.name == Ended.SEAL_FAILED:
                config.environment.kwargs["read_only"]["/tests"] = str(spec.task / "tests")
            return config

        monkeypatch.setattr(agent, "start", watched)
        monkeypatch.setattr(agent, "AROUND_THE_SESSION_SECONDS", 2.0)
        monkeypatch.setattr(trial, "trial_config", holed)
        monkeypatch.setattr(grading, "START_PAUSES", (0.1, 0.1))
        monkeypatch.setattr(grading, "PATIENCE_SECONDS", 1.0)
        monkeypatch.setattr(grading, "PATIENT_PAUSE", 0.1)
        monkeypatch.setattr(BubblewrapImage, "start", remembered)

    def _tell_when_tested(self, box: BubblewrapSandbox) -> None:
        run = box.run_last

        async def told(*arguments: Any, **options: Any) -> Completed:
            async with self.grading:
                self.graders[box.image.pristine] = box
                self.grading.notify_all()
            return await run(*arguments, **options)

        box.run_last = told  # type: ignore[method-assign]


def faulty_trials(folder: Path, injections: Mapping[str, Injection], monkeypatch: pytest.MonkeyPatch) -> FaultyTrials:
    """Trials of the given parts in `folder`."""
    scripts = {part: list(injection.script) for part, injection in injections.items()}
    engine = playing(ChatTemplate.load(POLICY), lambda part, turn: trials.interfere(part, turn), scripts)  # noqa: PLW0108
    harness = SmallHarness()
    base = replace(
        runtime(folder / "run", engine, state=folder / "state", processes=64),
        gateway=watched_gateway(engine),
        harness=harness,
        bundle=harness.install(folder / "bundle"),
    )
    trials = FaultyTrials(base, injections)
    for number, (part, injection) in enumerate(injections.items()):
        task = write_task(folder / "tasks", part)
        toml = task / "task.toml"
        toml.write_text(toml.read_text().replace("memory_mb = 1024", "memory_mb = 256"))
        (task / "environment" / "repo" / "part.txt").write_text(part)  # a work tree of its own
        injection.prepare(task)
        planned = spec(task, **{"wall_clock_sec": 30.0, **injection.spec})
        trials.specs[part] = replace(planned, label=BEFORE, harness=HarnessChoice("small"), seed=number)
    trials.patch(monkeypatch)
    return trials


def engine_of(runtime: Runtime) -> Engine:
    """What answers the trials of a runtime."""
    policy = runtime.gateway._policy
    assert isinstance(policy, EnginePolicy)
    return policy.engine


def watched_gateway(engine: Engine) -> WatchedGateway:
    """A gateway that remembers its listener."""
    template = ChatTemplate.load(POLICY)
    return WatchedGateway(engine, template, tool_call_parser("qwen3_coder"))
