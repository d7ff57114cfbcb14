"""One trial: its conversations behind one secret, its budget, and the calls in flight.

Invariant: everything the engine was asked, and everything it answered, is in the token tree before the harness hears of
it. Budgets and sampling are the session's; nothing in a request changes them.
"""

import asyncio
import logging
import secrets
from dataclasses import replace
from pathlib import Path

from lego_rl.engine.protocol import Engine, EngineError
from lego_rl.errors import CaptureError
from lego_rl.gateway.accounting import trajectory_of
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.call_log import CallLog
from lego_rl.gateway.dialects.base import Answer
from lego_rl.gateway.exchange import Exchange
from lego_rl.gateway.ledger import Ledger, Over
from lego_rl.gateway.length import tokens_if_far_longer
from lego_rl.gateway.placing import placing
from lego_rl.gateway.position import Position
from lego_rl.gateway.recording import record
from lego_rl.gateway.refusals import FAREWELL, BudgetSpent, ContextOverflow, InternalFault
from lego_rl.gateway.sampling import SessionSampling
from lego_rl.gateway.settings import DEFAULT_CAPTURE, CaptureSettings
from lego_rl.gateway.spool import TEMPORARY, RouteSpool
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.threads import LARGE_CHARACTERS, REQUESTS
from lego_rl.gateway.tool_calls import ToolCallParser
from lego_rl.gateway.tool_calls.text import TextParser
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.gateway.tree import TokenTree
from lego_rl.gateway.turn import read_turn
from lego_rl.messages import Message
from lego_rl.threads import in_thread

_LOG = logging.getLogger(__name__)


class Session:
    """One trial's conversations.

    Args:
        engine: Samples.
        template: The policy's chat template.
        parser: Of the policy's tool-call format.
        budget: What the trial may spend.
        temperature: Of every call.
        seed: Makes the trial's sampling reproducible; ``None`` leaves it to the engine.
        capture: What stays in the policy's context, and which calls train.
        spool: Folder on a disk, for what is captured and not needed before the session ends.
        log: File for the calls as they are answered, for whoever watches; ``None`` where nobody does.

    Attributes:
        path: ``/s/<secret>``, below which the session answers.
        budget: What the trial may spend.
        requests: Requests for completions that could be read, however they ended.
        failure: What failed on this side. An `EngineError` is transient, the next answered call clears it; anything
            else stays, and every later request is refused. No harness and no policy can bring about an `EngineError`
            or a `CaptureError`; what nobody foresaw may be a bug that the agent's own words bring out.
        unanswered: Whether the newest model call that came to an end came to it without an answer: the time was up,
            nobody waited any more, or the session was closed. An engine that hangs looks like this, and so does one
            that samples for long.
    """

    def __init__(
        self,
        engine: Engine,
        template: ChatTemplate,
        parser: ToolCallParser,
        *,
        budget: Budget,
        temperature: float,
        seed: int | None,
        capture: CaptureSettings = DEFAULT_CAPTURE,
        spool: Path = TEMPORARY,
        log: Path | None = None,
    ) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.path = f"/s/{self.secret}"
        self.budget = budget
        self.requests = 0
        self.failure: Exception | None = None
        self.unanswered = False
        self._engine = engine
        self._template = template
        self._parser = parser
        self._sampling = SessionSampling(
            budget, temperature=temperature, stop_token_ids=template.stop_token_ids, seed=seed
        )
        self._capture = capture
        self._placing = placing(capture, template)
        self._tree = TokenTree(template.decode)
        self._spool = RouteSpool(spool)
        self._log = None if log is None else CallLog(log)
        self._flights: dict[Call, Exchange] = {}
        self._ledger = Ledger(budget)
        self._tool_calls = 0
        self._fault: CaptureError | InternalFault | None = None

    def start_clock(self) -> None:
        """A request arrives, however slowly: from the first one on, the time of the session runs."""
        self._ledger.start_clock()

    async def admit(self, request: Request) -> Exchange:
        """Take a request: render it, and start the model call unless a budget is used up.

        Raises:
            ContextOverflow: The prompt leaves no room for an answer.
            TemplateError: The template refuses the conversation.
            CaptureError: An earlier call of this session contradicted itself.
            InternalFault: An earlier call met a bug or a wrong configuration of this side.
        """
        self.requests += 1
        if self._fault is not None:
            raise self._fault
        self._ledger.start_clock()
        if request.least_tokens > self.budget.context_tokens:
            raise self._overflow(request.least_tokens)
        found = self._tree.locate(request)
        self._tree.echo(request, found)
        used_up = self._ledger.used_up(len(self._tree.calls), self._tree.begun)
        if used_up is not None:
            return self._refusal(used_up, found)
        if (tokens := await self._far_longer(found)) is not None:
            raise self._overflow(tokens)
        placed = await self._placing.place(self._tree, found, request)
        position, context_ids = placed.position, placed.context_ids
        self._tree.continued(position)
        used_up = self._used_up(position)
        if used_up is not None:
            return self._refusal(used_up, position)
        exchange = Exchange(position.known + len(context_ids))
        if exchange.prompt_tokens >= self.budget.context_tokens:
            raise self._overflow(exchange.prompt_tokens)
        twins = [each for each, work in self._flights.items() if not work.is_over and position.asked_by(each)]
        call = self._tree.begin(position, context_ids)
        task = asyncio.ensure_future(self._answer(call, position, request, exchange))
        task.add_done_callback(lambda done: self._landed(done, call))
        exchange.start(task, call)
        for twin in twins:
            self._ledger.refused["superseded"] += 1
            self._flights.pop(twin).supersede(exchange)
        self._flights[call] = exchange
        return exchange

    async def count(self, request: Request) -> int:
        """Prompt tokens that `request` would have.

        Raises:
            ContextOverflow: It has more messages than a prompt may have tokens.
            BudgetSpent: No model call is left that it could be for, or there were too many counts.
            TemplateError: The template refuses the conversation.
        """
        if request.least_tokens > self.budget.context_tokens:
            raise ContextOverflow(request.least_tokens, self.budget.context_tokens)
        found = self._tree.locate(request)
        if self._used_up(found) is not None or not self._ledger.may_count():
            self._ledger.refused["count"] += 1
            raise BudgetSpent
        if (tokens := await self._far_longer(found)) is not None:
            raise ContextOverflow(tokens, self.budget.context_tokens)
        placed = await self._placing.place(self._tree, found, request)
        return placed.position.known + len(placed.context_ids)

    def close(self) -> Trajectory:
        """End the session: abort what is in flight and build what was captured.

        Raises:
            CaptureError: A call contradicted itself; nothing of the trial can be trusted.
        """
        self._ledger.closed = True
        self.unanswered |= any(call.recording is None for call in self._flights)
        for exchange in self._flights.values():
            exchange.abort()
        self._spool.close()
        if self._log is not None:
            self._log.close()
        if isinstance(self._fault, CaptureError):
            raise self._fault
        return trajectory_of(self._tree, self._ledger.budget_hit, self._ledger.refused, self._capture.train_roles)

    def drop_routes(self) -> None:
        """Leave the routes to the trajectory that was built: their place on the disk is free once that is gone."""
        self._tree.drop_routes()

    async def _far_longer(self, found: Position) -> int | None:
        """Tokens of a request, roughly, where they are far more than it may have."""
        if found.new_characters < LARGE_CHARACTERS:
            return None
        limit = self.budget.context_tokens - found.known
        asked = found.request if found.parent is None else replace(found.request, tools=())
        more = await in_thread(lambda: tokens_if_far_longer(asked, limit, self._template.count), REQUESTS)
        return None if more is None else found.known + more

    def _overflow(self, prompt_tokens: int) -> ContextOverflow:
        self._ledger.refuse("context", self._tree.begun)
        return ContextOverflow(prompt_tokens, self.budget.context_tokens)

    def _used_up(self, position: Position) -> Over | None:
        """Why there may be no model call for a request; a first try that it would supersede spends nothing."""
        unanswered = sum(call.recording is None and not position.asked_by(call) for call in self._flights)
        return self._ledger.used_up(len(self._tree.calls) + unanswered, self._tree.begun)

    def _refusal(self, reason: Over, position: Position) -> Exchange:
        """The prompt may not have been rendered, so its tokens are the known ones."""
        exchange = Exchange(position.known)
        exchange.start(asyncio.ensure_future(self._farewell(reason, exchange)), None)
        return exchange

    async def _farewell(self, reason: Over, exchange: Exchange) -> Answer:
        """A plain last turn: every harness takes an answer without a tool call as the end of its run."""
        self._ledger.refuse(reason, self._tree.begun)
        return Answer(Message("assistant", FAREWELL), False, exchange.prompt_tokens, 0)

    async def _answer(self, call: Call, position: Position, request: Request, exchange: Exchange) -> Answer:
        """Sample, and sort what fails: only an `EngineError` leaves the session as it was."""
        try:
            return await self._sample(call, position, request, exchange)
        except EngineError as error:
            self._ledger.refused["engine_error"] += 1
            self.failure = self.failure or error
            raise
        except CaptureError as error:
            self._fault = error
            self.failure = error
            raise
        except Exception as error:
            _LOG.exception("model call %d of this session met what nobody foresaw", call.index)
            self._ledger.refused["internal"] += 1
            fault = InternalFault(error)
            if not isinstance(self._fault, CaptureError):  # that one is final: nothing of the trial can be trusted
                self._fault, self.failure = fault, error
            raise fault from error

    async def _sample(self, call: Call, position: Position, request: Request, exchange: Exchange) -> Answer:
        prompt_ids = call.prompt_ids()
        known = max(0, position.known - 1)
        try:
            async with asyncio.timeout(self._ledger.remaining()) as limit:
                sample = await self._engine.generate(prompt_ids, self._sampling.of(call), routes_from=known)
        except TimeoutError:
            if limit.expired():
                return await self._farewell("wall_clock", exchange)
            raise
        # Recorded before anything is read: whatever the text is, the auditor's calls and the tree's stay the same.
        self._tree.finish(call, record(sample, prompt_ids, self._spool))
        turn = read_turn(
            self._template.decode(sample.token_ids),
            self._parser if request.tool_choice != "none" else TextParser(),
            request.tools,
            self._new_tool_call_id,
            in_reasoning=self._template.opens_reasoning,
        )
        self._tree.read(call, turn)
        if self._log is not None:
            self._log.write(call, turn)
        self._ledger.answered(call.index)
        self.unanswered = False
        if isinstance(self.failure, EngineError):
            self.failure = None
        return Answer(turn.message, sample.finish_reason == "length", len(prompt_ids), len(sample.token_ids))

    def _landed(self, task: "asyncio.Task[Answer]", call: Call) -> None:
        """Whatever became of the work: a call without an answer leaves the tree, and why is counted."""
        superseded = self._flights.pop(call, None) is None
        if call.recording is None:
            self._tree.discard(call)
            self.unanswered |= not superseded
        if task.cancelled():
            if not superseded and not self._ledger.closed:
                self._ledger.refused["client_gone"] += 1
        else:
            task.exception()  # taken note of in `_answer`; nobody else may be there to ask for it

    def _new_tool_call_id(self) -> str:
        self._tool_calls += 1
        return f"call_{self._tool_calls:06d}"
