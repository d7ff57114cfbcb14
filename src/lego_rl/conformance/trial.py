"""One harness in one situation: the real harness, gateway and sandbox, and a scripted engine.

Invariant: what is reported of a run is what the engine, the gateway and the kernel say of it, never the harness.
"""

import asyncio
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file
from importlib.resources import files as resources
from pathlib import Path

from lego_rl.conformance import laws
from lego_rl.conformance.policy import FILE, INSTRUCTION, MENDED, Policy
from lego_rl.conformance.silence import tried
from lego_rl.conformance.situations import ROOMY, SITUATIONS, Seen, Situation
from lego_rl.conformance.wire import Wire
from lego_rl.engine.protocol import Engine, Sample, Sampling
from lego_rl.engine.scripted import ScriptedEngine
from lego_rl.errors import CaptureError
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.session import Session
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import CallRole, Trajectory
from lego_rl.harness import registry
from lego_rl.harness.base import Conduct, Harness, HarnessBundle, OptionValue
from lego_rl.harness.start import BUNDLE_MOUNT, PORT, place, start
from lego_rl.sandbox.box import Completed, Sandbox
from lego_rl.sandbox.image import Image, prepare_image
from lego_rl.sandbox.mounts import read_only
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain, prepare_toolchain

_MOST_SECONDS = 300.0
"""After this a harness is killed, which breaks the law that it ends by itself."""
_ROOM_TOKENS = 4_000
"""What the context of a full one holds beyond the first prompt."""

LAWS = ("exact", "accounted", "delivered", "silent", "ended", "outcome")
"""In the order in which they are shown.

exact: each trained token is one that the engine sampled, with its log-prob, after the very ids before it, once.
accounted: each sampled token is trainable or excluded for a reason.
delivered: no other token is excluded than those that the harness never saw.
silent: nothing was sent to anybody but the gateway.
ended: the harness ended by itself.
outcome: the situation showed what it is there for.
"""


@dataclass(frozen=True)
class Report:
    """What became of one situation.

    Attributes:
        situation: Which.
        broken: Law → what is wrong; a law that held is not in it.
        missing: Tool that the harness has not, so that the situation cannot be had.
        roles: What the model calls were for, and how many of each.
        segments: Training sequences.
        seconds: Of the harness's run.
        completed: How the harness ended.
        trajectory: What was captured; ``None`` where it contradicts itself.
    """

    situation: Situation
    broken: Mapping[str, str]
    roles: Mapping[CallRole, int]
    segments: int
    seconds: float
    completed: Completed
    trajectory: Trajectory | None = None
    missing: str = ""

    @property
    def held(self) -> bool:
        """Whether no law was broken."""
        return not self.broken


type EngineOf = Callable[[Policy], Engine]
"""Makes an engine that says what a policy does."""


def scripted(policy: Policy) -> Engine:
    """An engine that makes up log-probs, for a policy that decides nothing by itself."""
    return ScriptedEngine(policy, version=1)


class Tape:
    """An engine that keeps what every call was given and returned."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.samples: list[Sample] = []

    @property
    def weight_version(self) -> int:
        """See `Engine.weight_version`."""
        return self._engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        """See `Engine.generate`."""
        sample = await self._engine.generate(prompt_ids, sampling, routes_from=routes_from)
        self.samples.append(sample)
        return sample


@dataclass(frozen=True)
class Bench:
    """What the situations of one harness share; made by `prepare`."""

    harness: Harness
    bundle: HarnessBundle
    conduct: Conduct
    image: Image
    toolchain: Toolchain
    state: State
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
        state = State.default()
        state.reap_stale()
        with as_file(resources("lego_rl.policies") / "demo") as policy:
            template = ChatTemplate.load(policy)
            encoder = Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))
        with as_file(resources("lego_rl.conformance") / "job") as job:
            image = prepare_image(job, state, workdir="/app")
        return cls(
            harness=harness,
            bundle=bundle,
            conduct=registry.REGISTRY[name].conduct,
            image=image,
            toolchain=prepare_toolchain(state),
            state=state,
            template=template,
            encoder=encoder,
        )

    async def run(self, situation: Situation) -> Report:
        """Put the harness into a situation.

        Raises:
            SandboxError: The sandbox could not be had.
        """
        if situation.budget.context_tokens == 0:
            room = await self._first_prompt_tokens() + _ROOM_TOKENS
            situation = replace(situation, budget=replace(situation.budget, context_tokens=room))
        return await _Run(self, situation).report()

    async def _first_prompt_tokens(self) -> int:
        """Tokens of the main conversation's first prompt."""
        run = _Run(self, replace(SITUATIONS[0], steps=(), budget=ROOMY))
        await run.report()
        return max((len(sample.prompt_ids) for sample in run.tape.samples), default=0)


class _Run:
    """One run; see `Bench.run`."""

    def __init__(self, bench: Bench, situation: Situation) -> None:
        self._bench = bench
        self._situation = situation
        self._policy = Policy(
            bench.template, bench.encoder, bench.conduct, situation.steps, interfere=situation.interfere
        )
        self.tape = Tape(bench.engine_of(self._policy))
        self._gateway = Gateway(self.tape, bench.template, tool_call_parser("qwen3_coder"))

    async def report(self) -> Report:
        bench, situation = self._bench, self._situation
        box = await Sandbox.start(
            bench.image, bench.toolchain, mounts=read_only({BUNDLE_MOUNT: str(bench.bundle.path)}), state=bench.state
        )
        session = self._gateway.open(situation.budget, temperature=1.0, seed=0)
        try:
            await verify_seal(box, None)
            started = time.perf_counter()
            completed, requests = await self._serve(box, session)
            seconds = time.perf_counter() - started
            try:
                trajectory = await self._gateway.close(session)
            except CaptureError as error:
                return Report(situation, {"exact": str(error)}, {}, 0, seconds, completed)
            broken = await self._broken(box, completed, trajectory, requests)
        finally:
            await box.close()
        roles = Counter(call.role for call in trajectory.generations)
        missing = situation.needs if situation.needs in self._policy.lacks else None
        if missing:
            broken.pop("outcome", None)
        return Report(
            situation,
            broken,
            roles,
            len(trajectory.segments),
            seconds,
            completed,
            trajectory,
            missing or "",
        )

    async def _serve(self, box: Sandbox, session: Session) -> tuple[Completed, int]:
        """Run the harness while the gateway answers it over the wire; how it ended, and its requests."""
        with tempfile.TemporaryDirectory(prefix="lego-rl-") as folder, socket.socket(socket.AF_UNIX) as host:
            address = Path(folder) / "gateway"
            host.bind(str(address))
            host.listen()
            host.setblocking(False)
            listener = await self._gateway.serve(host.dup(), session)
            wire = Wire(address, lambda: len(self.tape.samples), self._situation.faults)
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
        return completed, wire.requests

    async def _broken(
        self, box: Sandbox, completed: Completed, trajectory: Trajectory, requests: int
    ) -> dict[str, str]:
        if not self.tape.samples:
            said = (completed.stderr or completed.stdout).strip().splitlines()[-3:]
            return {
                "outcome": f"no model call was made, exit code {completed.returncode}: {' '.join(said) or 'silent'}"
            }
        mended = MENDED.encode() in b"".join([record.content for record in await box.get(f"/app/{FILE}")])
        found = {
            "exact": laws.exact(trajectory, self.tape.samples),
            "accounted": laws.accounted(trajectory, self.tape.samples),
            "delivered": laws.delivered(trajectory, self._situation.unseen),
            "silent": await tried(box),
            "ended": f"it was killed after {_MOST_SECONDS:.0f} s" if completed.timed_out or completed.died else "",
            "outcome": self._situation.outcome(Seen(trajectory, mended, requests)),
        }
        return {law: wrong for law, wrong in found.items() if wrong}


async def try_all(bench: Bench, situations: Sequence[Situation] = SITUATIONS, *, at_once: int = 2) -> list[Report]:
    """Put a harness into several situations, `at_once` of them at a time."""
    places = asyncio.Semaphore(at_once)

    async def one(situation: Situation) -> Report:
        async with places:
            return await bench.run(situation)

    return await asyncio.gather(*map(one, situations))
