"""A fault for every row of the fault table."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from faulty_engines import Contradictory, Hanging
from faulty_trials import Injection, Scene, engine_of, watched_gateway
from hostile_commands import FORKS, HOG, OVERFLOW, appending
from rollout_kit import FIX, bash
from small_harness import Broken

from lego_rl.engine.protocol import Engine, EngineError
from lego_rl.harness.base import Launch
from lego_rl.messages import Json, Message, ToolCall
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.shortage import Reserves
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox.loss import Loss, LossCause, lost
from lego_rl.sandbox.processes import descendants


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


def failing(starts: int, cause: Exception) -> Callable[[Scene], None]:
    """So many starts of the grading sandbox come to nothing."""

    def keep_from_starting(scene: Scene) -> None:
        scene.trials.failing[scene.box.image.pristine] = [cause] * starts

    return keep_from_starting


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


def lose_before_it_is_read(scene: Scene) -> None:
    """What runs the sandbox goes between its end and its snapshot, as a cluster can."""

    async def gone() -> None:
        raise lost(Loss(LossCause.RUNTIME, "the cluster does not answer"))

    scene.box.snapshot = gone  # type: ignore[assignment, method-assign]


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
        return replace(base, gateway=watched_gateway(wrap(engine_of(base))), **changes)

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
    Ended.ENGINE_SILENT: Injection(spec=TIME_UP, runtime=with_engine(lambda engine: Hanging(engine, 1), step_sec=0.2)),
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
