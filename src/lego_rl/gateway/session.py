"""One trial: its conversations behind one secret, its budget, and the calls in flight.

Invariant: everything the engine was asked, and everything it answered, is in the token tree before the harness hears of
it. Budgets and sampling are the session's; nothing in a request changes them.
"""

import asyncio
import logging
import secrets
from pathlib import Path

from lego_rl.engine.protocol import EngineError
from lego_rl.errors import CaptureError
from lego_rl.gateway.answers import Answers
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.call_log import CallLog
from lego_rl.gateway.dialects.base import Answer
from lego_rl.gateway.exchange import Exchange
from lego_rl.gateway.ledger import Ledger, Over
from lego_rl.gateway.position import Position
from lego_rl.gateway.refusals import FAREWELL, BudgetSpent, ContextOverflow, InternalFault, PromptRefused
from lego_rl.gateway.threads import LARGE_CHARACTERS
from lego_rl.gateway.transcript import Captured
from lego_rl.messages import Message

_LOG = logging.getLogger(__name__)


class Session[C]:
    """One trial's conversations.

    Args:
        answers: Answers the calls and keeps what it answered: an engine, or a chat backend.
        budget: What the trial may spend.
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

    def __init__(self, answers: Answers[C], *, budget: Budget, log: Path | None = None) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.path = f"/s/{self.secret}"
        self.budget = budget
        self.requests = 0
        self.failure: Exception | None = None
        self.unanswered = False
        self._answers = answers
        self._tree = answers.tree
        self._log = None if log is None else CallLog(log)
        self._flights: dict[Call, Exchange] = {}
        self._ledger = Ledger(budget)
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
        placed = await self._answers.place(found, request)
        position = placed.position
        self._tree.continued(position)
        used_up = self._used_up(position)
        if used_up is not None:
            return self._refusal(used_up, position)
        exchange = Exchange(placed.prompt_tokens)
        if exchange.prompt_tokens >= self.budget.context_tokens:
            raise self._overflow(exchange.prompt_tokens)
        twins = [each for each, work in self._flights.items() if not work.is_over and position.asked_by(each)]
        call = self._tree.begin(position, placed.context_ids, placed.prompt_tokens)
        task = asyncio.ensure_future(self._answer(call, request, exchange))
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
        placed = await self._answers.place(found, request)
        return placed.prompt_tokens

    def close(self) -> C:
        """End the session: abort what is in flight and build what was captured.

        Raises:
            CaptureError: A call contradicted itself; nothing of the trial can be trusted.
        """
        self._ledger.closed = True
        self.unanswered |= any(call.recording is None for call in self._flights)
        for exchange in self._flights.values():
            exchange.abort()
        self._answers.close()
        if self._log is not None:
            self._log.close()
        if isinstance(self._fault, CaptureError):
            raise self._fault
        return self._answers.captured(self._ledger.budget_hit, self._ledger.refused)

    def drop_routes(self) -> None:
        """Leave the routes to the trajectory that was built: their place on the disk is free once that is gone."""
        self._answers.drop_routes()

    async def _far_longer(self, found: Position) -> int | None:
        """Tokens of a request, roughly, where they are far more than it may have."""
        if found.new_characters < LARGE_CHARACTERS:
            return None
        return await self._answers.far_longer(found, self.budget.context_tokens)

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

    async def _answer(self, call: Call, request: Request, exchange: Exchange) -> Answer:
        """Have it answered, and sort what fails: only what a fault of this side is, changes the session."""
        try:
            return await self._sample(call, request, exchange)
        except EngineError as error:
            self._ledger.refused["engine_error"] += 1
            self.failure = self.failure or error
            raise
        except ContextOverflow:  # a chat backend alone knows how long a prompt is
            self._ledger.refuse("context", self._tree.begun)
            raise
        except PromptRefused:
            self._ledger.refused["prompt"] += 1
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

    async def _sample(self, call: Call, request: Request, exchange: Exchange) -> Answer:
        try:
            async with asyncio.timeout(self._ledger.remaining()) as limit:
                spoken = await self._answers.answer(call, request)
        except TimeoutError:
            if limit.expired():
                return await self._farewell("wall_clock", exchange)
            raise
        turn = spoken.turn
        self._tree.read(call, turn)
        if self._log is not None:
            self._log.write(call, turn)
        self._ledger.answered(call.index)
        self.unanswered = False
        if isinstance(self.failure, EngineError):
            self.failure = None
        return Answer(turn.message, spoken.truncated, call.prompt_length, spoken.tokens)

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


type AnySession = Session[Captured]
"""Of whatever answers."""
