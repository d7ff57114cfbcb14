"""What a harness is put through, and what has to come of it.

Each situation is one run of the harness with a policy that plays a part, and what goes wrong around it. The laws of
`lego_rl.conformance.laws` hold in all of them; `Situation.outcome` says what else this one must show.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lego_rl.conformance.hostile import SETTINGS
from lego_rl.conformance.policy import FIX, Interference, Shell, Step, no_interference
from lego_rl.conformance.wire import Fault
from lego_rl.engine.protocol import EngineError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Refusal, Trajectory
from lego_rl.harness.base import Conduct

ROOMY = Budget(turns=30, context_tokens=1_000_000, output_tokens=4_000, wall_clock_sec=240.0)
"""A budget that no situation reaches by itself."""


@dataclass(frozen=True)
class Seen:
    """What came of a run.

    Attributes:
        trajectory: What was captured.
        mended: Whether the job was done.
        requests: Requests for completions that reached the wire.
        conduct: What the harness is known to do.
        obeyed: What the harness did because files of the repository said so.
        broken_off: Calls whose answer broke off or never arrived.
    """

    trajectory: Trajectory
    mended: bool
    requests: int
    conduct: Conduct
    obeyed: frozenset[str] = frozenset()
    broken_off: Collection[str] = ()

    def refused(self, reason: Refusal) -> int:
        """Requests for which no model call was completed, for a reason."""
        return self.trajectory.accounting.refused.get(reason, 0)

    def roles(self) -> set[str]:
        """What the calls were for."""
        return {call.role for call in self.trajectory.generations}


type Outcome = Callable[[Seen], str]
"""What is missing of what a situation must show; empty if nothing is."""


@dataclass(frozen=True)
class Situation:
    """One situation.

    Attributes:
        name: Short, for a table.
        about: One line for people.
        outcome: What must come of it besides the laws.
        steps: The policy's job.
        budget: Of the session.
        room_tokens: Context beyond the first prompt of a plain fix, in place of the budget's; ``None``: the budget's.
        faults: What goes wrong on the wire: number of a request → fault.
        interfere: What goes wrong with the engine; made anew for each run.
        files: Further files of the repository: path in it → text.
        needs: Tool without which the situation cannot be had.
    """

    name: str
    about: str
    outcome: Outcome
    steps: Sequence[Step] = FIX
    budget: Budget = ROOMY
    room_tokens: int | None = None
    faults: Mapping[int, Fault] = field(default_factory=dict)
    interfere: Interference = no_interference
    files: Mapping[str, str] = field(default_factory=dict)
    needs: str | None = None


def _mended(seen: Seen) -> str:
    return "" if seen.mended else "the job was not done"


def _plain(seen: Seen) -> str:
    main = [call for call in seen.trajectory.generations if call.role == "main"]
    if len(main) != len(FIX) + 1:
        return f"the main conversation has {len(main)} calls, not {len(FIX) + 1}"
    return _mended(seen)


def _parse_fault(seen: Seen) -> str:
    return "" if seen.trajectory.accounting.tool_parse_faults else "the malformed call is not counted"


def _recovered(seen: Seen) -> str:
    return _mended(seen) if seen.refused("engine_error") else "no request was refused for the engine's failure"


def _asked_again(seen: Seen) -> str:
    calls = [call for call in seen.trajectory.generations if call.call_id in seen.broken_off]
    if not calls:
        return "no answer broke off"
    if any(call.fate == "delivered" for call in calls):
        return "an answer that was asked for again counts as delivered"
    return _mended(seen)


def _cut(seen: Seen) -> str:
    """No more than that it broke off: what the harness had of it by then, a whole call for instance, `Law.DELIVERED`
    reads from the bytes."""
    return _mended(seen) if seen.broken_off else "no answer broke off"


def _broken_off(seen: Seen) -> str:
    if seen.conduct.broken_off == "asks again":
        return _asked_again(seen)
    calls = seen.trajectory.generations
    parents = {calls[call.parent].call_id for call in calls if call.parent is not None and call.kept}
    whole = {call.call_id for call in calls if call.fate == "delivered" and call.call_id in seen.broken_off} - parents
    if whole:
        return f"{len(whole)} answers that broke off count as delivered, and no call goes on from their beginning"
    if seen.conduct.broken_off == "keeps" and not parents & set(seen.broken_off):
        return "no call goes on from the beginning that was kept"
    return _mended(seen)


def _too_long(seen: Seen) -> str:
    if seen.conduct.too_long == "summarises":
        return _mended(seen) if "compaction" in seen.roles() else "no call sums the history up"
    if seen.mended or seen.requests > _REFUSED:
        return f"it went on after its prompt was refused: {seen.requests} requests"
    return ""


def _sealed(seen: Seen) -> str:
    known = seen.conduct.repository_runs
    if seen.obeyed - known:
        return f"the repository was obeyed: {', '.join(sorted(seen.obeyed - known))}"
    if known - seen.obeyed:
        return f"what is known to run did not: {', '.join(sorted(known - seen.obeyed))}"
    return _plain(seen)


def _sub_agent(seen: Seen) -> str:
    return _mended(seen) if "subagent" in seen.roles() else "no call counts as a sub-agent's"


def _sub_agents(seen: Seen) -> str:
    begun = sum(call.role == "subagent" and call.parent is None for call in seen.trajectory.generations)
    return _mended(seen) if begun == 2 else f"{begun} conversations count as sub-agents', not 2"


def _few_turns(seen: Seen) -> str:
    accounting = seen.trajectory.accounting
    if accounting.calls != 2 or accounting.budget_hit != "turns":
        return f"{accounting.calls} calls, budget hit: {accounting.budget_hit}"
    return ""


def _full_context(seen: Seen) -> str:
    if not seen.refused("context") and "compaction" not in seen.roles():
        return "no request was refused for its length, and no call sums the history up before"
    if seen.conduct.too_long == "summarises" and "compaction" not in seen.roles():
        return "no call sums the history up"
    return ""


def _clock(seen: Seen) -> str:
    hit = seen.trajectory.accounting.budget_hit
    return "" if hit == "wall_clock" else f"budget hit: {hit}"


async def _fails_once(call: int) -> None:
    if call == 3:
        raise EngineError("the engine is restarting")


async def _hangs(call: int) -> None:
    if call >= 3:
        await asyncio.Event().wait()


_NOISE = tuple(Shell(f"seq {1000 * index} {1000 * index + 700}") for index in range(1, 9))
_REFUSED = 3
"""Number of the request that is refused as too long; the command that mends the file comes after it."""
_ROOM_TOKENS = 4_000

SITUATIONS: tuple[Situation, ...] = (
    Situation("fix", "five turns, nothing goes wrong", _plain),
    Situation("malformed", "a call that cannot be parsed", _parse_fault, ("malformed", *FIX)),
    Situation("unknown-tool", "a call of a tool that does not exist", _mended, (FIX[0], "unknown tool", *FIX[1:])),
    Situation("unavailable", "the engine fails once, then works", _recovered, interfere=_fails_once),
    Situation("cut", "an answer breaks off in its call", _cut, faults={3: "cut"}),
    Situation("cut-again", "two first answers break off after their text", _broken_off, faults={1: "cut", 2: "cut"}),
    Situation("lost", "an answer never arrives", _asked_again, faults={3: "lost"}),
    Situation("too-long", "one prompt is refused as too long", _too_long, faults={_REFUSED: "too long"}),
    Situation("subagent", "a sub-agent is called", _sub_agent, (FIX[0], "subagent", *FIX[1:]), needs="subagent"),
    Situation("subagents", "two of them in one turn", _sub_agents, (FIX[0], "subagents", *FIX[1:]), needs="subagent"),
    Situation("turns", "the turns are used up", _few_turns, budget=Budget(2, 1_000_000, 4_000, 240.0)),
    Situation("context", "the context fills up", _full_context, (*_NOISE, *FIX), room_tokens=_ROOM_TOKENS),
    Situation("wall-clock", "the time is up", _clock, budget=Budget(30, 1_000_000, 4_000, 4.0), interfere=_hangs),
    Situation("hostile-repo", "the repository's settings would take the harness over", _sealed, files=SETTINGS),
)
