"""One harness in one situation: the real harness, gateway and sandbox, and a scripted engine.

Invariant: what is reported of a run is what the engine, the gateway and the kernel say of it, never the harness.
"""

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file
from importlib.resources import files as resources

from lego_rl.conformance.engines import EngineOf, Tape, scripted
from lego_rl.conformance.hostile import MARK, TRACE
from lego_rl.conformance.laws import Books, Law, asked_again, capture_laws
from lego_rl.conformance.policy import FILE, INSTRUCTION, MENDED, Policy
from lego_rl.conformance.silence import sent_by_now, tried
from lego_rl.conformance.situations import ROOMY, SITUATIONS, Seen, Situation
from lego_rl.conformance.wire import Wire
from lego_rl.errors import CaptureError
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.session import Session
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import CallRole, Trajectory
from lego_rl.harness import registry
from lego_rl.harness.base import Harness, HarnessBundle, OptionValue
from lego_rl.harness.start import BUNDLE_MOUNT, PORT, place, start
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.mounts import read_only
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.sandbox import Completed, Phase, Sandbox
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.state import State
from lego_rl.sandbox.transfer import TransferError

_MOST_SECONDS = 300.0
"""After this a harness is killed, which breaks the law that it ends by itself."""


@dataclass(frozen=True)
class Report:
    """What became of one situation.

    Attributes:
        situation: Which.
        laws: Law → what is wrong with it, empty where it held. A law that could not be checked is not in it.
        requests: Requests for completions that the harness sent.
        missing: Tool that the harness has not, so that the situation cannot be had.
        roles: What the model calls were for, and how many of each.
        segments: Training sequences.
        seconds: Of the harness's run.
        completed: How the harness ended.
        trajectory: What was captured; ``None`` where it contradicts itself.
    """

    situation: Situation
    laws: Mapping[Law, str]
    requests: int
    roles: Mapping[CallRole, int]
    segments: int
    seconds: float
    completed: Completed
    trajectory: Trajectory | None = None
    missing: str = ""

    @property
    def broken(self) -> dict[Law, str]:
        """The laws that did not hold, and what is wrong."""
        return {law: wrong for law, wrong in self.laws.items() if wrong}

    @property
    def held(self) -> bool:
        """Whether no law was broken."""
        return not self.broken


@dataclass(frozen=True)
class Bench:
    """What the situations of one harness share; made by `prepare`."""

    harness: Harness
    bundle: HarnessBundle
    image: TaskImage
    template: ChatTemplate
    encoder: Encoder
    engine_of: EngineOf = scripted

    @classmethod
    def prepare(cls, name: str, options: Mapping[str, OptionValue] | None = None) -> "Bench":
        """Load a harness's bundle and make ready what it is tried on.

        Raises:
            ConfigError: The name or an option is unknown.
            HarnessError: It is not installed.
            SandboxError: This machine cannot isolate it.
        """
        harness, bundle = registry.make(name, options), registry.load(name)
        provider = BubblewrapProvider(State.default())
        provider.reap()
        with as_file(resources("lego_rl.policies") / "demo") as policy:
            template = ChatTemplate.load(policy)
            encoder = Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))
        with as_file(resources("lego_rl.conformance") / "job") as job:
            image = provider.prepare(job, workdir="/app")
        return cls(
            harness=harness,
            bundle=bundle,
            image=image,
            template=template,
            encoder=encoder,
        )

    async def run(self, situation: Situation) -> Report:
        """Put the harness into a situation.

        Raises:
            SandboxError: The sandbox could not be had.
        """
        if situation.room_tokens is not None:
            context = await self._first_prompt_tokens() + situation.room_tokens
            situation = replace(situation, budget=replace(situation.budget, context_tokens=context))
        return await _Run(self, situation).report()

    async def _first_prompt_tokens(self) -> int:
        """Tokens of the main conversation's first prompt."""
        report = await _Run(self, replace(SITUATIONS[0], steps=(), budget=ROOMY)).report()
        calls = report.trajectory.generations if report.trajectory is not None else ()
        return next((len(call.context_ids) for call in calls if call.role == "main"), 0)


class _Run:
    """One run; see `Bench.run`."""

    def __init__(self, bench: Bench, situation: Situation) -> None:
        self._bench = bench
        self._situation = situation
        self._policy = Policy(
            bench.template, bench.encoder, bench.harness.conduct, situation.steps, interfere=situation.interfere
        )
        self.tape = Tape(bench.engine_of(self._policy))
        self._gateway = Gateway(self.tape, bench.template, tool_call_parser("qwen3_coder"))

    async def report(self) -> Report:
        bench, situation = self._bench, self._situation
        box = await bench.image.start(Phase.AGENT, mounts=read_only({BUNDLE_MOUNT: str(bench.bundle.path)}))
        session = self._gateway.open(situation.budget, temperature=1.0, seed=0)
        try:
            await verify_seal(box, None)
            before = await sent_by_now(box)
            await box.put("/app", [Record(path, "file", text.encode()) for path, text in situation.files.items()])
            started = time.perf_counter()
            completed, wire = await self._serve(box, session)
            seconds = time.perf_counter() - started
            laws = {Law.SILENT: await tried(box, before), Law.ENDED: _ended(completed)}
            trajectory = None
            try:
                trajectory = await self._gateway.close(session)
            except CaptureError as error:
                laws[Law.EXACT] = str(error)
            else:
                laws |= await self._captured(box, trajectory, wire)
        finally:
            await box.close()
        return Report(
            situation,
            laws,
            wire.requests,
            Counter(call.role for call in trajectory.generations) if trajectory is not None else {},
            len(trajectory.segments) if trajectory is not None else 0,
            seconds,
            completed,
            trajectory,
            self._missing,
        )

    @property
    def _missing(self) -> str:
        """The tool that the situation needs and the harness has not."""
        needs = self._situation.needs
        return needs if needs is not None and needs in self._policy.lacks else ""

    async def _serve(self, box: Sandbox, session: Session[Trajectory]) -> tuple[Completed, Wire]:
        """Run the harness while the gateway answers it over the wire; how it ended, and what the wire saw."""
        with socket.socket(socket.AF_UNIX) as host:
            host.bind(b"")  # the kernel names it: no file is left behind, and no path can be too long
            host.listen()
            host.setblocking(False)
            listener = await self._gateway.serve(host.dup(), session)
            wire = Wire(
                os.fsdecode(host.getsockname()),
                lambda: [sample.call_id for sample in self.tape.samples],
                self._situation.faults,
                MARK.encode(),
            )
            try:
                async with wire.laid(await box.listen(PORT)):
                    launch = await place(
                        self._bench.harness,
                        box,
                        INSTRUCTION,
                        session=session.path,
                        budget=session.budget,
                        model="policy",
                    )
                    completed = await start(launch, box, timeout_sec=_MOST_SECONDS)
            finally:
                await listener.close()
        return completed, wire

    async def _captured(self, box: Sandbox, trajectory: Trajectory, wire: Wire) -> dict[Law, str]:
        """The laws that speak of model calls. Without any, only what the situation should have shown can be told."""
        ran = (await _content(box, TRACE)).decode(errors="replace").splitlines()
        obeyed = frozenset([*ran, *(["a setting reached a request"] if wire.marked else [])])
        if not self.tape.samples:
            besides = f"; the repository was obeyed: {', '.join(sorted(obeyed))}" if obeyed else ""
            return {Law.OUTCOME: f"none of {wire.requests} requests for a completion was answered{besides}"}
        arrived = {**asked_again(self.tape.samples), **wire.arrived(self.tape.samples, self._bench.template.decode)}
        roles = {sample.call_id: self._policy.role(sample.prompt_ids) for sample in self.tape.samples}
        laws = capture_laws(trajectory, Books(self.tape.samples, arrived, roles=roles))
        conduct = self._bench.harness.conduct
        if conduct.shell.name not in {tool.name for tool in trajectory.tools}:
            laws[Law.OUTCOME] = f"it offers no {conduct.shell.name}, the tool that runs commands"
        elif not self._missing:
            mended = MENDED.encode() in await _content(box, f"/app/{FILE}")
            seen = Seen(trajectory, mended, wire.requests, conduct, obeyed, wire.broken_off)
            laws[Law.OUTCOME] = self._situation.outcome(seen)
        return laws


def _ended(completed: Completed) -> str:
    """What is wrong with how a harness ended."""
    return f"it was killed after {_MOST_SECONDS:.0f} s" if completed.timed_out or completed.died else ""


async def _content(box: Sandbox, path: str) -> bytes:
    """Of a file in the sandbox; nothing, if there is none."""
    try:
        return b"".join([record.content for record in await box.get(path)])
    except TransferError:
        return b""


async def try_all(bench: Bench, situations: Sequence[Situation] = SITUATIONS, *, at_once: int = 2) -> list[Report]:
    """Put a harness into several situations, `at_once` of them at a time.

    Whatever ends it early, cancelling included, every sandbox is closed before it ends.

    Raises:
        SandboxError: A sandbox could not be had.
    """
    places = asyncio.Semaphore(at_once)

    async def one(situation: Situation) -> Report:
        async with places:
            return await bench.run(situation)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(situation)) for situation in situations]
    except ExceptionGroup as error:
        raise error.exceptions[0] from error
    return [task.result() for task in tasks]
