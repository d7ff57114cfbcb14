"""A fault for every row of the fault table, in real trials: real sandboxes, a real gateway, a small harness, and a
policy that plays a part. What is done from outside is done by the host while the policy is asked."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, override

import numpy as np
import pytest
from harbor.models.trial.config import TrialConfig
from rollout_kit import FIX, PARTS, POLICY, bash, playing, runtime, spec, write_task

from lego_rl.engine.protocol import Engine, EngineError, Sample, Sampling
from lego_rl.gateway.server import Gateway, Listener
from lego_rl.gateway.session import Session
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness.base import DEFAULT_PATH, BundleSpec, Endpoint, HarnessBundle, Launch
from lego_rl.harness.start import start
from lego_rl.messages import Json, Message, ToolCall
from lego_rl.rollout import agent, trial
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.harbor_trial import trial_config
from lego_rl.rollout.labels import BEFORE
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.shortage import Reserves
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import TrialStore
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox.bubblewrap.box import BubblewrapSandbox
from lego_rl.sandbox.bubblewrap.provider import BubblewrapImage
from lego_rl.sandbox.loss import Loss, LossCause
from lego_rl.sandbox.sandbox import Completed, Phase, Sandbox
from lego_rl.sandbox.watchdog import descendants

HARNESS = """
import json, os, subprocess, sys, urllib.request
bash = {"type": "object", "properties": {"command": {"type": "string"}, "more": {"type": "array"}}}
tools = [{"type": "function", "function": {"name": "Bash", "parameters": bash}}]
messages = [{"role": "user", "content": sys.stdin.read()}]
while True:
    body = json.dumps({"model": "policy", "messages": messages, "tools": tools}).encode()
    url = os.environ["GATEWAY"] + "/v1/chat/completions"
    message = json.load(urllib.request.urlopen(urllib.request.Request(url, body)))["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
"""

OVERFLOW = """python3 - <<'END'
import json, os, urllib.request
prompt = [{"role": "user", "content": " ".join(map(str, range(30000)))}]
body = json.dumps({"model": "policy", "messages": prompt}).encode()
for _ in range(32):
    try:
        urllib.request.urlopen(os.environ["GATEWAY"] + "/v1/chat/completions", body)
    except urllib.error.HTTPError:
        pass
END"""
FLOOD = """python3 - <<'END'
import os, socket
sockets = []
for number in range(100):
    sockets.append(socket.create_connection(("127.0.0.1", 8100)))
    sockets[-1].sendall(os.urandom(100) if number % 2 else b"POST / HTTP/1.1\\r\\nContent-Length: 9\\r\\n\\r\\n")
    if number % 3 == 0:
        sockets[-1].close()
END"""
FORKS = """python3 - <<'END'
import os, time
if os.fork() == 0:
    os.closerange(0, 3)
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)
time.sleep(1)
END"""
HOG = """echo 1000 > /proc/$PPID/oom_score_adj
for each in 1 2 3 4; do python3 -c 'import time; kept = bytearray(90 << 20); time.sleep(4)' & done; wait"""

SMALL_HOG = HOG.replace("1000", "0")
"""Kills itself and not the harness, where a control group counts it."""


def appending(line: str) -> str:
    """A change of the module under test."""
    return bash(f"echo {line!r} >> calc.py")


class SmallHarness:
    """Asks, runs what it is told, and asks again; ends on an answer without a call."""

    name, version = "small", "1"
    spec = BundleSpec("small", "1", "none", "1")

    def install(self, root: Path) -> HarnessBundle:
        root.mkdir(exist_ok=True)
        return HarnessBundle("small", "1", "", root, 0, "none")

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        part = instruction.partition(PARTS)[2].partition(".")[0]
        environment = {"GATEWAY": endpoint.base_url, "PATH": path, "PART": part}
        return Launch(("python3", "-c", HARNESS), environment, stdin=instruction)


@dataclass(frozen=True)
class Broken(SmallHarness):
    """A harness that does not get as far as the model."""

    how: Callable[[], Launch]

    @override
    def launch(self, *_: object, **__: object) -> Launch:
        return self.how()


class Contradictory:
    """An engine that leaves a log-prob out."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def weight_version(self) -> int:
        return self._engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        sample = await self._engine.generate(prompt_ids, sampling, routes_from=routes_from)
        return replace(sample, logprobs=sample.logprobs[1:])


@dataclass
class Hanging:
    """An engine that answers so many calls and then none, or none but those for a single token."""

    engine: Engine
    answers: int
    probes: bool = False

    @property
    def weight_version(self) -> int:
        return self.engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        if sampling.max_tokens == 1 and self.probes:
            return Sample("probe", prompt_ids, (1,), np.zeros(1, np.float32), "stop", ())
        if self.answers == 0:
            await asyncio.Event().wait()
        self.answers -= 1
        return await self.engine.generate(prompt_ids, sampling, routes_from=routes_from)


class WatchedGateway(Gateway):
    """Remembers its newest listener."""

    newest: Listener

    @override
    async def serve(self, sock: socket.socket, session: Session) -> Listener:
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


def engine_error(scene: Scene) -> None:
    raise EngineError("the engine is down")


def bug(scene: Scene) -> None:
    raise KeyError("a bug")


def kill_first(scene: Scene) -> None:
    os.kill(scene.first, signal.SIGKILL)


def kill_bwrap(scene: Scene) -> None:
    os.kill(scene.bwrap, signal.SIGKILL)


def kill_grader(scene: Scene) -> None:
    """Kill the grading sandbox when the tests have begun."""

    async def lie_in_wait() -> None:
        async with scene.trials.grading:
            await scene.trials.grading.wait_for(lambda: scene.box.image.pristine in scene.trials.graders)
        await asyncio.sleep(0.2)
        os.kill(descendants(scene.trials.graders[scene.box.image.pristine]._process.pid)[1], signal.SIGKILL)

    scene.trials.graders.pop(scene.box.image.pristine, None)
    scene.trials.waiting.append(asyncio.create_task(lie_in_wait()))


def hang_up(scene: Scene) -> None:
    """The first process ends by itself: the host could not tell this from the agent's doing."""
    scene.box._channel.close()


def lose_listener(scene: Scene) -> None:
    gateway = scene.trials.gateways[scene.part]
    gateway.newest._bounded._sock.shutdown(socket.SHUT_RDWR)


def spoil_watchdog(scene: Scene) -> None:
    scene.box._watchdog._layers = (Path("\0"),) * 3


def unwritable_patch(scene: Scene) -> None:
    scene.spoil_patch_file()


def lose_upper(scene: Scene) -> None:
    scene.box.run_folder.upper.rename(scene.box.run_folder.upper.with_name("lost"))


def lose_pristine(scene: Scene) -> None:
    image = scene.box.image.pristine.parent
    image.rename(image.with_name(f"lost-{os.urandom(4).hex()}"))


def nested(record: TrialRecord) -> TrialRecord:
    """A record with an argument that no JSON text can hold; the gateway itself lets none so deep in."""
    value: Json = 1
    for _ in range(2_000):
        value = [value]
    assert record.trajectory is not None
    said = (Message("assistant", "", (ToolCall("call_1", "Bash", {"command": value}),)),)
    return replace(record, trajectory=replace(record.trajectory, conversations=(said,)))


def with_engine(wrap: Callable[[Engine], Engine], **changes: Any) -> Callable[[Runtime], Runtime]:
    def change(base: Runtime) -> Runtime:
        return replace(base, gateway=_gateway(wrap(base.gateway._engine)), **changes)

    return change


def with_settings(**settings: Any) -> Callable[[Runtime], Runtime]:
    return lambda base: replace(base, sandbox=base.sandbox.model_copy(update=settings))


def with_harness(how: Callable[[], Launch]) -> Callable[[Runtime], Runtime]:
    return lambda base: replace(base, harness=Broken(how))


def short_of(**reserves: int) -> Callable[[Runtime], Runtime]:
    """A host with less of something than it needs. What a trial holds of it is given back before this is measured."""
    none = {"disk_bytes": 0, "files": 0, "handles": 0, "memory_bytes": 0}
    return lambda base: replace(base, reserves=Reserves(**none | reserves))


def no_root(base: Runtime) -> Runtime:
    folder = base.directory.path / "no-root"
    folder.mkdir(exist_ok=True)
    return with_settings(rootfs=folder)(base)


def adapter_bug() -> Launch:
    raise KeyError("a bug of an adapter")


LARGE = 1 << 62
TIME_UP = {"wall_clock_sec": 2.0}
LOOK = bash("cat calc.py")

INJECTIONS: dict[Ended, Injection] = {
    Ended.FINISHED: Injection(reward=1),
    Ended.TURN_BUDGET: Injection([FIX] + [LOOK] * 5, 1, {"turns": 3}),
    Ended.CONTEXT_BUDGET: Injection([FIX, bash("seq 1 30000"), "never asked for"], 1),
    Ended.WALL_CLOCK_BUDGET: Injection([FIX, bash("sleep 3"), "never asked for"], 1, TIME_UP),
    Ended.ATTEMPT_BUDGET: Injection([bash(f"{OVERFLOW}\ntrue"), "never asked for"], 0, {"turns": 2}),
    Ended.OUTPUT_BUDGET: Injection([FIX, "I think. " * 200], 1, {"output_tokens": 100}),
    Ended.MALFORMED_CALL: Injection([FIX, "<tool_call>\n<function=Bash>\n<parameter=command>\nls"], 1),
    Ended.AGENT_TIMEOUT: Injection([FIX, bash("sleep 50"), "never asked for"], 1, TIME_UP),
    Ended.HARNESS_ERROR: Injection([FIX, FIX.replace("parameter=command", "parameter=order")], 1),
    Ended.HARNESS_KILLED: Injection([FIX, bash("kill -9 1; kill -TERM 1; kill -9 -1"), "never asked for"], 1),
    Ended.OUT_OF_MEMORY: Injection([FIX, bash(HOG), "never asked for"], 1),
    Ended.OUT_OF_DISK: Injection([FIX, bash("head -c 60M /dev/zero > a; cp a b; cp a c; sleep 20"), "Full."], 1),
    Ended.TOO_MANY_PROCESSES: Injection([FIX, bash(FORKS), LOOK, "never asked for"], 1),
    Ended.LIMITS_UNMEASURED: Injection([FIX, bash("sleep 20"), "never asked for"], 1, host=spoil_watchdog),
    Ended.SANDBOX_LOST: Injection([FIX, bash("sleep 20"), "never asked for"], 1, host=hang_up),
    Ended.PATCH_TOO_LARGE: Injection([FIX, bash("head -c 20M /dev/zero > core"), "Mended."], 1),
    Ended.NO_SNAPSHOT: Injection(reward=0, host=lose_upper),
    Ended.PATCH_NOT_APPLIED: Injection(reward=0),  # `FaultyTrials.patch` locks the work tree of its grading sandbox
    Ended.VERIFIER_TIMEOUT: Injection(
        [FIX, appending("while True: pass"), "Mended."], 0, runtime=with_settings(grading_sec=3.0)
    ),
    Ended.VERIFIER_CRASHED: Injection(
        [
            FIX,
            appending('[open(name, "wb").write(bytes(60 << 20)) for name in "abc"]; __import__("time").sleep(9)'),
            "Mended.",
        ],
        0,
    ),
    Ended.NO_VERDICT: Injection([FIX, appending('__import__("os")._exit(0)'), "Mended."], 0),
    Ended.UNRECORDABLE: Injection(reward=0, recorded=nested),
    Ended.TASK_UNUSABLE: Injection(prepare=lambda task: (task / "tests/files/tests/test_calc.py").unlink()),
    Ended.SANDBOX_START: Injection(runtime=no_root),
    Ended.SEAL_FAILED: Injection(),  # `FaultyTrials.patch` opens the hole
    Ended.SETUP_FAILED: Injection(
        runtime=with_harness(lambda: Launch(("/bin/true",), {}, files={"/proc/nowhere": "text"}))
    ),
    Ended.HARNESS_SILENT: Injection(runtime=with_harness(lambda: Launch(("/bin/true",), {"PART": "nobody"}))),
    Ended.ENGINE_FAILED: Injection(host=engine_error),
    Ended.ENGINE_SILENT: Injection(spec=TIME_UP, runtime=with_engine(lambda engine: Hanging(engine, 1), probe_sec=0.2)),
    Ended.CAPTURE_FAILED: Injection(runtime=with_engine(Contradictory)),
    Ended.GATEWAY_LOST: Injection(host=lose_listener),
    Ended.SANDBOX_KILLED: Injection([FIX, bash("sleep 20"), "never asked for"], host=kill_first),
    Ended.RUNTIME_LOST: Injection(
        ended=lambda done: replace(done, died=True, loss=Loss(LossCause.RUNTIME, "the daemon does not answer"))
    ),
    Ended.GRADING_START: Injection(host=lose_pristine),
    Ended.HOST_DISK_FULL: Injection(runtime=short_of(disk_bytes=LARGE), host=unwritable_patch),
    Ended.HOST_OUT_OF_MEMORY: Injection([FIX, bash(HOG), "never asked for"], runtime=short_of(memory_bytes=LARGE)),
    Ended.HOST_OUT_OF_HANDLES: Injection(runtime=short_of(handles=LARGE), host=unwritable_patch),
    Ended.UNATTRIBUTED_BEFORE: Injection(runtime=with_harness(adapter_bug)),
    Ended.UNATTRIBUTED_AFTER: Injection([FIX, "never asked for"], 1, host=bug),
}
"""Every row that a trial of a batch can end in. `Ended.CANCELLED` is the end of a batch: it has a test of its own."""

TWINS: dict[str, tuple[Ended, Injection]] = {
    "bubblewrap is killed by the host": (
        Ended.SANDBOX_KILLED,
        Injection([FIX, bash("sleep 20"), "never asked for"], host=kill_bwrap),
    ),
    "the grading sandbox is killed by the host": (
        Ended.SANDBOX_KILLED,
        Injection([FIX, appending('__import__("time").sleep(20)'), "Mended."], host=kill_grader),
    ),
    "the agent kills its process group": (
        Ended.HARNESS_KILLED,
        Injection([FIX, bash("kill -9 0"), "never asked for"], 1),
    ),
    "the agent floods the gateway and hangs up": (Ended.FINISHED, Injection([FIX, bash(FLOOD), "Mended."], 1)),
    "the policy says so much that the time is up": (
        Ended.WALL_CLOCK_BUDGET,
        Injection(reward=1, spec=TIME_UP, runtime=with_engine(lambda engine: Hanging(engine, 1, probes=True))),
    ),
    "the agent fills its disk on a host with room": (
        Ended.OUT_OF_DISK,
        Injection([FIX, bash("head -c 60M /dev/zero > a; cp a b; cp a c; sleep 20"), "Full."], 1, runtime=short_of()),
    ),
    "the agent kills its sandbox for memory, then the host does": (
        Ended.OUT_OF_MEMORY,
        Injection([FIX, bash(SMALL_HOG), bash("sleep 20"), "never asked for"], 1, host=kill_first, turn=2),
    ),
}
"""Pairs of the above that look alike from the other side."""


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
        waiting: What the host has begun to do.
        grading: Is told of every further one of `graders`.
    """

    base: Runtime
    injections: Mapping[str, Injection]
    specs: dict[str, TrialSpec] = field(default_factory=dict)
    boxes: dict[str, Sandbox] = field(default_factory=dict)
    gateways: dict[str, WatchedGateway] = field(default_factory=dict)
    graders: dict[Path, BubblewrapSandbox] = field(default_factory=dict)
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
            runtime = replace(runtime, gateway=_gateway(self.base.gateway._engine))
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
        gateway=_gateway(engine),
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


def _gateway(engine: Engine) -> WatchedGateway:
    template = ChatTemplate.load(POLICY)
    return WatchedGateway(engine, template, tool_call_parser("qwen3_coder"))
