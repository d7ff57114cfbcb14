"""Reading sampled text: well-formed calls become typed calls, everything else stays the text it is."""

import json
from collections.abc import Sequence

import pytest
from gateway_kit import BASH, call_text
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import ConfigError
from lego_rl.gateway.tool_calls import ParsedCall, ParsedText, tool_call_parser
from lego_rl.gateway.turn import read_turn
from lego_rl.messages import Json, Message, Tool, ToolCall

PARSER = tool_call_parser("qwen3_coder")
WORD = st.text(st.sampled_from("abcdefghij_."), min_size=1, max_size=8)
VALUE = st.lists(st.sampled_from([*"ab<>/=\n {}\"'", "</parameter>", "<function=x>", "</think>"]), max_size=9).map(
    "".join
)


def one(schema: Json) -> list[Tool]:
    return [Tool("t", "", {"type": "object", "properties": {"x": schema}})]


@given(st.lists(st.tuples(WORD, st.dictionaries(WORD, VALUE, max_size=3)), min_size=1, max_size=3), WORD)
def test_what_is_written_in_the_format_is_read_back(calls: list[tuple[str, dict[str, str]]], said: str) -> None:
    # A value that ends a parameter by the format's own rules cannot be written in it.
    calls = [(n, {k: v for k, v in a.items() if not _ends_early(v)}) for n, a in calls]
    text = "\n".join(call_text(name, arguments) for name, arguments in calls)
    expected = tuple(ParsedCall(name, arguments) for name, arguments in calls)
    assert PARSER.parse(text, []) == ParsedText("", expected)
    assert PARSER.parse(f"{said}\n\n{text}\n", []) == ParsedText(said, expected)


def _ends_early(value: str) -> bool:
    return "</parameter>" in value and any(mark in value for mark in ("<parameter=", "</function>"))


def test_a_value_may_hold_the_closing_tag_and_keeps_its_white_space() -> None:
    value = "\n  a </parameter> b\n\n"
    assert PARSER.parse(call_text("t", {"x": value}), []).calls[0].arguments == {"x": value}


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call>\n<function=ls>",
        "<tool_call>\n<function=ls>\n<parameter=a>\n1\n</function>\n</tool_call>",
        "<tool_call>\n<function=ls>\n<parameter=a>\n1\n</parameter>\n</tool_call>",
        "<tool_call>\n<function=>\n</function>\n</tool_call>",
        "<tool_call>\n<parameter=a>\n1\n</parameter>\n</tool_call>",
        '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>',
        "<function=ls>\n</function>",
        "fine </tool_call>",
        "<tool_call>\n<function=ls>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n</parameter>\n</function>\n</tool_call>",
    ],
)
def test_a_malformed_call_stays_as_it_is_and_is_reported(text: str) -> None:
    assert PARSER.parse(text, [BASH]) == ParsedText(text, (), well_formed=False)
    mixed = PARSER.parse(f"{call_text('bash', {'command': 'ls'})}\n{text}", [BASH])
    assert [call.name for call in mixed.calls] == ["bash"]
    assert mixed.content == text
    assert not mixed.well_formed


def test_text_without_a_call_is_untouched() -> None:
    text = "  a < b, <b>bold</b> and <parameter=x>\n"
    assert PARSER.parse(text, [BASH]) == ParsedText(text)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "5", "5"),
        ({"type": "string"}, "null", "null"),
        ({"type": "integer"}, " 5 ", 5),
        ({"type": "integer"}, "5.0", 5),
        ({"type": "integer"}, "5.5", "5.5"),
        ({"type": "integer"}, "five", "five"),
        ({"type": "integer"}, "true", "true"),
        ({"type": "number"}, "2000", 2000),
        ({"type": "number"}, "2.5e3", 2500.0),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "number"}, "1e999", "1e999"),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "boolean"}, "1", "1"),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "array"}, "[1, 2", "[1, 2"),
        ({"type": "object"}, '{"a": null}', {"a": None}),
        ({"type": ["integer", "null"]}, "None", None),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, "[]", []),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "7", "7"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "None", "None"),
        ({"type": ["string", "null"]}, " null", " null"),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "array"}, '["\\ud800"]', ["\ufffd"]),
        ({}, "7", "7"),
        (None, "7", "7"),
        ("odd", "7", "7"),
    ],
)
def test_arguments_get_the_type_of_the_schema_or_stay_text(schema: Json, text: str, value: Json) -> None:
    (call,) = PARSER.parse(call_text("t", {"x": text}), one(schema)).calls
    assert call.arguments == {"x": value}
    assert type(call.arguments["x"]) is type(value)
    json.dumps(call.arguments, allow_nan=False)


NESTS = st.tuples(st.integers(0, 100) | st.integers(900, 3000), st.sampled_from([("[", "]"), ('{"a":', "}")]))


@given(NESTS, st.sampled_from(['"\\ud800"', "1", "null", "true", "[]", "1e999", ""]), st.booleans())
def test_any_value_can_be_written_and_too_deep_a_one_stays_text(
    nest: tuple[int, tuple[str, str]], inner: str, closed: bool
) -> None:
    depth, (opening, closing) = nest
    text = opening * depth + inner + closing * depth * closed
    (call,) = PARSER.parse(call_text("t", {"x": text}), one({"type": ["object", "array"]})).calls
    value = call.arguments["x"]
    # By hand: a container of more than 64 levels, or one that is no JSON, is the text that was sampled.
    is_json = inner not in ("1e999", "") and (closed or not depth)
    levels = depth + (inner == "[]")
    if opening == "[" and not inner and closed:
        is_json = depth > 0
    assert isinstance(value, str) == (not (is_json and 0 < levels <= 64))
    if isinstance(value, str):
        assert value == text
    json.dumps(value, allow_nan=False).encode()


def test_a_parser_that_fails_leaves_the_turn_as_text() -> None:
    class Failing:
        def parse(self, text: str, tools: Sequence[Tool]) -> ParsedText:
            raise RecursionError

    turn = read_turn("<think>hm</think>Done.", Failing(), [BASH], lambda: "c1", in_reasoning=False)
    assert turn.message == Message("assistant", "Done.", reasoning="hm")
    assert not turn.well_formed


def test_unknown_tools_and_parameters_are_passed_on() -> None:
    (call,) = PARSER.parse(call_text("nope", {"x": "1"}), one({"type": "integer"})).calls
    assert call == ParsedCall("nope", {"x": "1"})


def test_unknown_parsers_are_refused() -> None:
    with pytest.raises(ConfigError, match="qwen3_coder"):
        tool_call_parser("hermes-9000")


@pytest.mark.parametrize(
    ("text", "in_reasoning", "expected"),
    [
        ("Done.", False, Message("assistant", "Done.")),
        ("<think>\nhm\n</think>\n\nDone.", False, Message("assistant", "Done.", reasoning="hm")),
        ("\n<think></think>Done.", False, Message("assistant", "Done.", reasoning="")),
        ("hm\n</think>\n\nDone.", True, Message("assistant", "Done.", reasoning="hm")),
        ("never ends", True, Message("assistant", "", reasoning="never ends")),
        ("<think>\nnever ends", False, Message("assistant", "<think>\nnever ends")),
        ("a <think>b</think>", False, Message("assistant", "a <think>b</think>")),
        (
            "<think>\n"
            + call_text("bash", {"command": "ls"})
            + "\n</think>\n\n"
            + call_text("bash", {"command": "cd"}),
            False,
            Message(
                "assistant",
                "",
                (ToolCall("c1", "bash", {"command": "cd"}),),
                reasoning=call_text("bash", {"command": "ls"}),
            ),
        ),
    ],
)
def test_reasoning_is_split_off(text: str, in_reasoning: bool, expected: Message) -> None:
    assert read_turn(text, PARSER, [BASH], lambda: "c1", in_reasoning=in_reasoning).message == expected


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "rest",
    [
        "",
        "x</parameter></function>",
        "".join(f"x</parameter><parameter=k{number}>" for number in range(10_000)),
        "".join(f"x</parameter><parameter=k{number}>" for number in range(10_000)) + "</parameter></function>",
        "x</parameter><parameter=k>" * 10_000,
    ],
    ids=["never ended", "ended too late", "many parameters", "many parameters, ended too late", "one key again"],
)
def test_a_policy_that_repeats_itself_costs_no_more_than_its_length(rest: str) -> None:
    # Searched anew from each beginning this text takes minutes, during which no other trial is served.
    text = "<tool_call>\n<function=bash>\n<parameter=command>\n" * 10_000 + rest
    assert PARSER.parse(text, [BASH]) == ParsedText(text, (), well_formed=False)
