"""The OpenAI Responses API, streamed or not, with ``input_tokens``.

Source: the public API reference, the official client's stream reader, and the requests of Codex 0.171.0. Nothing is
stored: every request holds its whole conversation, as Codex sends it, and one that points at an earlier answer is
refused in the protocol's own words. A tool in a namespace is shown to the policy as ``namespace.name``. A free-form
tool is a function of one text, ``input``; a call that has other arguments is answered as a function call, so that
nothing of it is lost and the harness refuses it in its own words. Thinking travels as the text of a reasoning item.
"""

import json
from collections.abc import Iterable, Iterator, Mapping

from lego_rl.gateway.call import Request
from lego_rl.gateway.dialects.base import Answer, Asked, BadRequest, Counting, Failure, Problem
from lego_rl.gateway.dialects.fields import as_flag, as_object, as_text
from lego_rl.gateway.dialects.openai_errors import openai_failure
from lego_rl.gateway.dialects.responses_input import Offered, read_input
from lego_rl.gateway.dialects.responses_output import Event, is_incomplete, item_events, output_items
from lego_rl.gateway.dialects.tools import openai_choice
from lego_rl.messages import Json

_REPEATED = ("instructions", "metadata", "parallel_tool_calls", "reasoning", "text", "tool_choice")
"""Fields of a request that its answer holds again. Tools are not among them: three times in a stream, they would be
most of it."""

_STREAM_CODES: dict[Problem, str] = {"bad_request": "invalid_prompt", "context": "context_length_exceeded"}
"""Code of a failed response; of any other problem ``server_error``, after which clients try again."""


class OpenAIResponsesDialect:
    """See `Dialect`."""

    completion_path = "/v1/responses"
    counting: Counting | None = Counting(
        "/v1/responses/input_tokens", "input_tokens", {"object": "response.input_tokens"}
    )

    def read(self, body: Json, headers: Mapping[str, str]) -> Asked:
        """Read a Responses body; Codex names the thread, of which every agent has its own, in a header."""
        fields = as_object(body, "body")
        _refuse_stored(fields)
        conversation = read_input(fields)
        request = Request(
            tuple(conversation.messages),
            tuple(tool for tool, _ in conversation.tools),
            headers.get("thread-id", ""),
            openai_choice(fields.get("tool_choice"), _wire_names(conversation.tools)),
        )
        return Asked(
            request,
            as_flag(fields.get("stream"), "stream"),
            as_text(fields.get("model"), "model"),
            forms={tool.name: form for tool, form in conversation.tools if form is not None},
            repeated={key: fields[key] for key in _REPEATED if fields.get(key) is not None},
        )

    def reply(self, asked: Asked, answer: Answer, reply_id: str) -> dict[str, Json]:
        """A response object."""
        incomplete = is_incomplete(answer)
        return _response(
            asked,
            reply_id,
            status="incomplete" if incomplete else "completed",
            incomplete_details={"reason": "max_output_tokens"} if incomplete else None,
            output=list[Json](output_items(asked, answer, reply_id)),
            usage=_usage(answer),
        )

    def opening(self, asked: Asked, prompt_tokens: int, reply_id: str) -> bytes:
        """``response.created`` and ``response.in_progress``."""
        response = _response(asked, reply_id, status="in_progress")
        return b"".join(
            _numbered([(f"response.{kind}", {"response": response}) for kind in ("created", "in_progress")])
        )

    def ping(self) -> bytes:
        """A comment, as the event-stream format defines it."""
        return b": keep-alive\n\n"

    def events(self, asked: Asked, answer: Answer, reply_id: str) -> Iterator[bytes]:
        """Every item, and the whole response."""
        response = self.reply(asked, answer, reply_id)
        items = output_items(asked, answer, reply_id)
        end: Event = (f"response.{response['status']}", {"response": response})
        return _numbered([*item_events(items), end], first=2)

    def failure(self, problem: Problem, error: Exception) -> Failure:
        """An error body with the status that Codex and the client libraries understand."""
        return openai_failure(problem, error)

    def failure_event(self, asked: Asked, problem: Problem, error: Exception, reply_id: str) -> bytes:
        """``response.failed``."""
        told: dict[str, Json] = {"code": _STREAM_CODES.get(problem, "server_error"), "message": str(error)}
        response = _response(asked, reply_id, status="failed", error=told)
        return b"".join(_numbered([("response.failed", {"response": response})], first=2))


def _refuse_stored(fields: Mapping[str, Json]) -> None:
    """Refuse what only a server that stores responses could answer."""
    previous = fields.get("previous_response_id")
    if previous is not None:
        raise BadRequest(
            "previous_response_id",
            f"previous response with id {as_text(previous, 'previous_response_id')!r} not found: none is stored here, "
            "send the whole conversation",
            code="previous_response_not_found",
        )
    for key in ("background", "conversation", "prompt"):
        if fields.get(key) not in (None, False):
            raise BadRequest(key, "not supported: nothing is stored here", code="unsupported_parameter")


def _wire_names(tools: Offered) -> list[str]:
    return [name for tool, form in tools for name in {tool.name, form.name if form else tool.name}]


def _response(asked: Asked, reply_id: str, **fields: Json) -> dict[str, Json]:
    return {
        "id": f"resp_{reply_id}",
        "object": "response",
        "created_at": 0,
        "model": asked.model,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        **asked.repeated,
        **fields,
    }


def _usage(answer: Answer) -> dict[str, Json]:
    return {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answer.sampled_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.prompt_tokens + answer.sampled_tokens,
    }


def _numbered(events: Iterable[Event], first: int = 0) -> Iterator[bytes]:
    """The events on the wire; all of a stream are numbered in one row."""
    for number, (kind, fields) in enumerate(events, first):
        data = json.dumps({"type": kind, "sequence_number": number, **fields})
        yield f"event: {kind}\ndata: {data}\n\n".encode()
