"""Of an answer that breaks off, as much counts as heard as a client of each dialect can have read, and no more."""

import json
from pathlib import Path

import pytest
from toy_harness import BASH, encoder, template

from lego_rl.conformance.heard import tokens_heard
from lego_rl.conformance.toolbox import Toolbox
from lego_rl.gateway.call import Request
from lego_rl.gateway.dialects import DIALECTS
from lego_rl.gateway.dialects.base import Answer, Asked, Dialect
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.turn import read_turn
from lego_rl.messages import Tool

WORDS = "I look for it."
CALL = Toolbox({}).call("bash", {"command": 'echo "été" {x}', "background": False})
TEXT = f"{WORDS}\n{CALL}"
THOUGHT = f"<think>\nIt may be there.\n</think>\n\n{CALL}"
TOOLS = [Tool(BASH["name"], BASH["description"], BASH["parameters"])]
PLACES = [pytest.param(dialect, id=Path(dialect.completion_path).name) for dialect in DIALECTS]


def sampled(text: str) -> list[int]:
    """A turn of which every ASCII character is a token."""
    return [*(token for piece in text for token in encoder().encode(piece)), template().end_of_turn]


def events(dialect: Dialect, text: str) -> list[bytes]:
    """A stream, as the gateway writes it: its head, then one chunk an event."""
    turn = read_turn(text, tool_call_parser("qwen3_coder"), TOOLS, lambda: "call_1", in_reasoning=False)
    asked = Asked(Request([], TOOLS), stream=True, model="policy")
    answer = Answer(turn.message, truncated=False, prompt_tokens=9, sampled_tokens=9)
    pieces = [dialect.opening(asked, 9, "reply"), *dialect.events(asked, answer, "reply")]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces), b"0\r\n\r\n"]


@pytest.mark.parametrize("dialect", PLACES)
@pytest.mark.parametrize(("text", "words"), [(TEXT, WORDS), (THOUGHT, "<think>\nIt may be there."), (WORDS, WORDS)])
def test_the_words_are_heard_once_their_event_is_there_and_the_call_with_its_arguments(
    dialect: Dialect, text: str, words: str
) -> None:
    ids = sampled(text)
    raw = b"".join(events(dialect, text))
    heard = [tokens_heard(ids, raw[:size], template().decode) for size in range(0, len(raw) + 1, 7)]
    assert heard == sorted(heard)
    upto = next(count for count in range(len(ids)) if template().decode(ids[:count]).rstrip() == words)
    assert set(heard) | {len(ids)} == {0, upto, len(ids)} if text != WORDS else {0, len(ids)}
    assert tokens_heard(ids, raw, template().decode) == len(ids)


def test_nothing_of_a_reply_in_one_piece_is_heard() -> None:
    body = json.dumps({"choices": [{"message": {"content": WORDS}}]}).encode()
    assert tokens_heard(sampled(WORDS), b"HTTP/1.1 200 OK\r\n\r\n" + body[:-9], template().decode) == 0


def test_nothing_is_heard_in_nothing() -> None:
    assert tokens_heard(sampled(TEXT), b"", template().decode) == 0
