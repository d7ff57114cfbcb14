"""The ``hermes`` format: a JSON object a call, and nothing repaired."""

import json

import pytest
from gateway_kit import TEMPLATE, encoder
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import ConfigError
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import ParsedCall, ParsedText, tool_call_parser
from lego_rl.gateway.tool_calls.probe import check_parser
from lego_rl.messages import Json

PARSER = tool_call_parser("hermes")
NAME = st.text(min_size=1, max_size=8)
VALUE: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from(["</tool_call>", "<tool_call>{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=5), VALUE, max_size=3)


def written(name: str, arguments: dict[str, Json]) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@given(st.lists(st.tuples(NAME, ARGUMENTS), min_size=1, max_size=3), st.text("abc .\n", max_size=9))
def test_what_is_written_in_the_format_is_read_back(calls: list[tuple[str, dict[str, Json]]], said: str) -> None:
    text = "\n".join(written(name, arguments) for name, arguments in calls)
    expected = tuple(ParsedCall(name, arguments) for name, arguments in calls)
    assert PARSER.parse(f"{said}\n{text}\n", []) == ParsedText(said.rstrip(), expected)


MALFORMED = {
    "no end": '<tool_call>\n{"name": "ls", "arguments": {}}',
    "no object": "<tool_call>\n[]\n</tool_call>",
    "cut": '<tool_call>\n{"name": "ls", "argum',
    "no arguments": '<tool_call>\n{"name": "ls"}\n</tool_call>',
    "arguments as text": '<tool_call>\n{"name": "ls", "arguments": "{}"}\n</tool_call>',
    "no name": '<tool_call>\n{"arguments": {}}\n</tool_call>',
    "empty name": '<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>',
    "a raw newline": '<tool_call>\n{"name": "ls", "arguments": {"a": "b\nc"}}\n</tool_call>',
    "no number": '<tool_call>\n{"name": "ls", "arguments": {"a": NaN}}\n</tool_call>',
    "too deep": '<tool_call>\n{"name": "ls", "arguments": {"a": ' + "[" * 70 + "]" * 70 + "}}\n</tool_call>",
    "far too deep": "<tool_call>\n" + '{"a":' * 100_000,
    "another format": "<tool_call>\n<function=ls>\n</function>\n</tool_call>",
    "an end alone": "fine </tool_call>",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_call_stays_text_and_is_reported(text: str) -> None:
    assert PARSER.parse(text, []) == ParsedText(text, (), well_formed=False)
    fine = written("ls", {})
    both = PARSER.parse(f"{fine}\n{text}", [])
    assert both.calls[0] == ParsedCall("ls", {})
    assert not both.well_formed


def test_text_without_a_call_is_content() -> None:
    assert PARSER.parse(' {"name": "ls"} \n', []) == ParsedText(' {"name": "ls"} \n')


@given(
    st.text(st.sampled_from('{}[]",: \n<>/ab\\'))
    | st.lists(st.sampled_from(["<tool_call>", "{", '"', "}"])).map("".join)
)
def test_no_text_stops_it(text: str) -> None:
    parsed = PARSER.parse(f"<tool_call>{text}", [])
    assert parsed.calls or parsed.content == f"<tool_call>{text}"


HERMES = TEMPLATE.replace(
    TEMPLATE[
        TEMPLATE.index("{{- '<tool_call>\\n<function='") : TEMPLATE.index("{%- endfor %}\n        {{- '<|im_end|>")
    ],
    """{{- '<tool_call>\\n{"name": "' + tool_call.function.name + '", "arguments": ' }}
            {{- tool_call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        """,
)
MUTE = TEMPLATE.replace("message.tool_calls or []", "[]")


def test_template_and_parser_are_probed_against_each_other() -> None:
    templates = {"qwen3_coder": ChatTemplate(encoder(), TEMPLATE), "hermes": ChatTemplate(encoder(), HERMES)}
    for name, template in templates.items():
        check_parser(template, name)
        (other,) = templates.keys() - {name}
        with pytest.raises(ConfigError, match=f"set policy.tool_parser = '{name}'"):
            check_parser(template, other)
    with pytest.raises(ConfigError, match="a format that a parser reads"):
        check_parser(ChatTemplate(encoder(), MUTE), "hermes")
    with pytest.raises(ConfigError, match="no tool-call parser"):
        check_parser(templates["hermes"], "hermess")
