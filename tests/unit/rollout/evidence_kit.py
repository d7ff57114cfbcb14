"""Trials that have ended, without any sandbox, and the rows that they end in."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness import registry
from lego_rl.harness.base import HarnessBundle
from lego_rl.messages import Message
from lego_rl.rollout.agent import LiveTrial
from lego_rl.rollout.attribution import HostEvidence, classify, reward_of
from lego_rl.rollout.evidence import (
    Inspection,
    agent_evidence,
    detail_of,
    host_evidence,
)
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.harbor_trial import Failure, Grades
from lego_rl.rollout.shortage import Shortage
from lego_rl.rollout.spec import Grading
from lego_rl.sandbox.loss import LossCause
from lego_rl.sandbox.sandbox import Completed
from lego_rl.sandbox.verdict import Patch, Verdict

ROOT = Path(__file__).parents[3] / "src" / "lego_rl"
POLICY = ROOT / "policies" / "demo"
TEMPLATE = ChatTemplate.load(POLICY)
ANSWER = Reply([TEMPLATE.end_of_turn])
PATCH = Grades(patch=Patch())
GRADED = Grades(Patch(), Verdict(1))


def down(prompt: Sequence[int], sampling: Sampling) -> Reply:
    raise EngineError("down")


def work(
    *,
    began: bool = True,
    sandbox_started: bool = True,
    completed: Completed | None = None,
    script: Callable[..., Reply],
) -> LiveTrial:
    """A trial's work after one request."""
    gateway = Gateway(ScriptedEngine(script), TEMPLATE, tool_call_parser("qwen3_coder"))
    session = gateway.open(Budget(), temperature=1.0)
    made = LiveTrial(
        gateway=gateway,
        session=session,
        harness=registry.make("claude-code"),
        bundle=HarnessBundle("claude-code", "1", "", Path("/nowhere"), 0, ""),
        model="policy",
        sandbox_started=sandbox_started,
        began=began,
        completed=completed,
    )

    async def one_request() -> None:
        exchange = await session.admit(Request((Message("user", "hello"),), ()))
        await asyncio.gather(exchange.answer(), return_exceptions=True)
        await made.close()

    if began:
        asyncio.run(one_request())
    return made


def at_fault(prompt: Sequence[int], sampling: Sampling) -> Reply:
    raise KeyError("a bug")


def worked(**changes: object) -> LiveTrial:
    arguments = {"completed": Completed(0, "", ""), "script": lambda prompt, sampling: ANSWER} | changes
    return work(**arguments)  # type: ignore[arg-type]


NOTHING_FOUND = Inspection()
FULL = Inspection(Shortage("disk", "the disk is full"))
NO_MEMORY = Inspection(Shortage("memory", "no memory"))
SILENT = Inspection(engine_silent=True)


def ended(
    done: LiveTrial, grades: Grades, failure: Failure | None, inspection: Inspection = NOTHING_FOUND
) -> tuple[Ended, int | None]:
    agent = agent_evidence(done, grades, failure)
    row = classify(host_evidence(done, grades, failure, inspection), agent, Grading.FRESH)
    return row.ended, reward_of(row, agent, Grading.FRESH)


def told(done: LiveTrial, grades: Grades, failure: Failure | None, inspection: Inspection = NOTHING_FOUND) -> str:
    host: HostEvidence = host_evidence(done, grades, failure, inspection)
    row = classify(host, agent_evidence(done, grades, failure), Grading.FRESH)
    return detail_of(row, host, done, grades, failure)


def failure(kind: type[Exception] | str) -> Failure:
    """As Harbor records one: all that is left of its class is the name."""
    return Failure(kind if isinstance(kind, str) else kind.__name__, "something", "trace")


LOSSES = {LossCause.KILLED: Ended.SANDBOX_KILLED, LossCause.RUNTIME: Ended.RUNTIME_LOST}
