"""An engine as what answers a session: prompts are rendered, answers are sampled, and every token is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lego_rl.engine.protocol import Engine
from lego_rl.gateway.accounting import trajectory_of
from lego_rl.gateway.answers import Spoken
from lego_rl.gateway.broken_off import tokens_of_prefix
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.length import tokens_if_far_longer
from lego_rl.gateway.placing import Placed, placing
from lego_rl.gateway.position import Position
from lego_rl.gateway.recording import record
from lego_rl.gateway.sampling import SessionSampling
from lego_rl.gateway.settings import DEFAULT_CAPTURE, CaptureSettings
from lego_rl.gateway.spool import TEMPORARY, RouteSpool
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.threads import REQUESTS
from lego_rl.gateway.tool_calls import ToolCallParser
from lego_rl.gateway.tool_calls.text import TextParser
from lego_rl.gateway.trajectory import BudgetHit, Refusal, Trajectory
from lego_rl.gateway.tree import TokenTree
from lego_rl.gateway.turn import Turn, read_turn
from lego_rl.messages import Message
from lego_rl.threads import in_thread


@dataclass(frozen=True)
class EnginePolicy:
    """A policy that an engine samples from; see `Policy`.

    Attributes:
        engine: Samples.
        template: The policy's chat template.
        parser: Of the policy's tool-call format.
        capture: What stays in the policy's context, and which calls train.
        spool: Folder on a disk, for what is captured and not needed before a session ends.
    """

    engine: Engine
    template: ChatTemplate
    parser: ToolCallParser
    capture: CaptureSettings = field(default=DEFAULT_CAPTURE, kw_only=True)
    spool: Path = field(default=TEMPORARY, kw_only=True)

    def answers(self, budget: Budget, *, temperature: float, seed: int | None) -> "EngineAnswers":
        """See `Policy`."""
        return EngineAnswers(self, budget, temperature=temperature, seed=seed)

    async def progressed(self) -> None:
        """See `Policy`."""
        await self.engine.progressed()


class EngineAnswers:
    """One session of a policy that an engine samples from; see `Answers`.

    Args:
        policy: Of all sessions.
        budget: What this one may spend.
        temperature: Of every call.
        seed: Makes the session's sampling reproducible.
    """

    def __init__(self, policy: EnginePolicy, budget: Budget, *, temperature: float, seed: int | None) -> None:
        template = policy.template
        self.tree = TokenTree(self._kept_of)
        self._engine = policy.engine
        self._template = template
        self._parser = policy.parser
        self._sampling = SessionSampling(
            budget, temperature=temperature, stop_token_ids=template.stop_token_ids, seed=seed
        )
        self._train_roles = policy.capture.train_roles
        self._placing = placing(policy.capture, template)
        self._spool = RouteSpool(policy.spool)
        self._tool_calls = 0

    async def far_longer(self, found: Position, limit: int) -> int | None:
        """See `Answers`."""
        asked = found.request if found.parent is None else replace(found.request, tools=())
        left = limit - found.known
        more = await in_thread(lambda: tokens_if_far_longer(asked, left, self._template.count), REQUESTS)
        return None if more is None else found.known + more

    async def place(self, found: Position, request: Request) -> Placed:
        """See `Answers`."""
        return await self._placing.place(self.tree, found, request)

    async def answer(self, call: Call, request: Request) -> Spoken:
        """See `Answers`."""
        prompt_ids = call.prompt_ids()
        sample = await self._engine.generate(prompt_ids, self._sampling.of(call), routes_from=max(0, call.start - 1))
        # Recorded before anything is read: whatever the text is, the auditor's calls and the tree's stay the same.
        self.tree.finish(call, record(sample, prompt_ids, self._spool))
        turn = read_turn(
            self._template.decode(sample.token_ids),
            self._parser if request.tool_choice != "none" else TextParser(),
            request.tools,
            self._new_tool_call_id,
            in_reasoning=self._template.opens_reasoning,
        )
        return Spoken(turn, sample.finish_reason == "length", len(sample.token_ids))

    def captured(self, budget_hit: BudgetHit | None, refused: Mapping[Refusal, int]) -> Trajectory:
        """See `Answers`."""
        return trajectory_of(self.tree, budget_hit, refused, self._train_roles)

    def close(self) -> None:
        """See `Answers`."""
        self._spool.close()

    def drop_routes(self) -> None:
        """See `Answers`: their place on the disk is free once what was captured is gone."""
        self.tree.drop_routes()

    def _kept_of(self, call: Call, turn: Turn, sent: Message) -> int:
        return tokens_of_prefix(call.answered().token_ids, turn, sent, self._template.decode)

    def _new_tool_call_id(self) -> str:
        self._tool_calls += 1
        return f"call_{self._tool_calls:06d}"
