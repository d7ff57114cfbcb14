"""Our tool-call parsers beside vLLM's of the same names, on the same texts, whole and streamed token by token.

Where a text is as a chat template writes it, both read the same calls and the same content; where it is not, ours read
less, and `parser_differences` says what and why. vLLM lives in an environment of its own; one process of it answers.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_kit import tokenizer_json
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from parser_differences import DIFFERENCES, Difference, hermes, xml
from parser_reads import TOOL, VLLM, Read, ours, plain
from test_bundled_templates import TEMPLATES

from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.messages import Json, Message, ToolCall

# vLLM's imports alone are some 10 s of CPU: minutes where cores are short.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def vllm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLM]:
    python: Path = request.config.getoption("--vllm-python")
    if not python.exists():
        pytest.fail(f"there is no {python}; install vLLM's parsers with: make setup-vllm")
    scratch = tmp_path_factory.mktemp("vllm")
    (scratch / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    with (
        (scratch / "log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            [python.absolute(), Path(__file__).with_name("vllm_calls.py"), "tokenizer.json"],
            env={"PATH": os.defpath, "HOME": str(scratch), "OMP_NUM_THREADS": "1"},
            cwd=scratch,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        ) as process,
    ):
        yield VLLM(process, scratch / "log")


def stripped(read: Read) -> Read:
    """White space around a call belongs to the format; the sides leave another part of it in the content."""
    return Read(read.content.strip(), read.calls) if read.calls else read


def assert_all_read(vllm: VLLM, parser: str, text: str, expected: Read) -> None:
    assert plain(ours(parser, text)) == plain(expected)
    assert tool_call_parser(parser).parse(text, [TOOL]).well_formed
    for theirs in vllm.read(parser, text):
        assert plain(stripped(theirs)) == plain(expected), f"vLLM {vllm.version}"


def written(template: ChatTemplate, said: str, calls: list[tuple[str, dict[str, Json]]]) -> str:
    made = tuple(ToolCall(f"call_{at}", name, arguments) for at, (name, arguments) in enumerate(calls))
    return template.written(Message("assistant", said, made), [TOOL])


TURNS: dict[str, tuple[str, list[tuple[str, dict[str, Json]]]]] = {
    "a call": ("", [("t", {"text": "ls -la"})]),
    "text before": ("I look.\n\nThen I mend it.", [("t", {"text": "ls"})]),
    "no arguments": ("", [("t", {})]),
    "parallel calls": ("Both.", [("t", {"text": "a"}), ("u", {"path": "b"}), ("t", {"text": "a"})]),
    "an unknown tool": ("", [("nope", {"text": "1"})]),
    "an unknown parameter": ("", [("t", {"colour": "red"})]),
    "every type": (
        "",
        [
            (
                "t",
                {
                    "text": "5",
                    "whole": -7,
                    "number": 2.5,
                    "flag": True,
                    "items": [1, "x", None, [True]],
                    "object": {"a": None, "b": {"c": [1.5]}},
                    "count": 3,
                    "note": "n",
                },
            )
        ],
    ),
    "other values": ("", [("t", {"whole": 10**20, "number": 1e-7, "flag": False, "items": [], "object": {}})]),
    "a whole number": ("", [("t", {"number": 4})]),
    "quotes and newlines": ("", [("t", {"text": 'say "it\'s"\n\tC:\\n\\\\ \r\n`$x` {{y}} {% z %}'})]),
    "white space": ("", [("t", {"text": "  a\n\nb \n"}), ("t", {"text": ""}), ("t", {"text": "\n"})]),
    "unicode": ("Voilà, 日本 🙂.", [("t", {"text": "é 日本 🙂 \u2028 e\u0301 \u200b"})]),
    "angle brackets": ("", [("t", {"text": "if a < b > c: <div class='x'>&amp;</div> </ < / > a<<2 <b"})]),
    "text that looks like a type": ("", [("t", {"text": "null"}), ("t", {"text": "[1]"}), ("t", {"text": "true"})]),
    "markup of thoughts": ("", [("t", {"text": "<think>x</think>"})]),
    "openings in a value": ("", [("t", {"text": "a <tool_call> b <function=t> c"})]),
    "code": ("", [("t", {"text": "def f(x: dict[str, int]) -> None:\n    return {'a': x[\"b\"] % 2}\n"})]),
}


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_calls_that_a_chat_template_writes(vllm: VLLM, name: str, turn: str) -> None:
    template, parser = TEMPLATES[name]
    said, calls = TURNS[turn]
    assert_all_read(vllm, parser, written(template, said, calls), Read(said, tuple(calls)))


@pytest.mark.parametrize("name", [name for name in TEMPLATES if not name.startswith("qwen3_5")])
def test_a_null_that_a_chat_template_writes(vllm: VLLM, name: str) -> None:
    # Qwen3.5's templates write Python's word for it: see the differences.
    template, parser = TEMPLATES[name]
    calls: list[tuple[str, dict[str, Json]]] = [("t", {"note": None, "count": None})]
    assert_all_read(vllm, parser, written(template, "", calls), Read("", tuple(calls)))


SPELLINGS: dict[str, tuple[str, str, dict[str, Json]]] = {
    "XML on one line": (
        "qwen3_coder",
        "<tool_call><function=t><parameter=text>x</parameter></function></tool_call>",
        {"text": "x"},
    ),
    "an end of a call in a value": ("qwen3_coder", xml("text", "a </tool_call> b"), {"text": "a </tool_call> b"}),
    "a whole number with a point": ("qwen3_coder", xml("whole", "5.0"), {"whole": 5}),
    "space around a number": ("qwen3_coder", xml("whole", " 5 "), {"whole": 5}),
    "a word of Python": ("qwen3_coder", xml("flag", "True"), {"flag": True}),
    "text for a number": ("qwen3_coder", xml("whole", "five"), {"whole": "five"}),
    "NaN": ("qwen3_coder", xml("number", "NaN"), {"number": "NaN"}),
    "a number out of range": ("qwen3_coder", xml("number", "1e999"), {"number": "1e999"}),
    "invalid JSON": ("qwen3_coder", xml("items", "[1, 2"), {"items": "[1, 2"}),
    "Python's null as text": ("qwen3_coder", xml("note", "None"), {"note": "None"}),
    "JSON on one line": ("hermes", '<tool_call>{"name":"t","arguments":{"a":1}}</tool_call>', {"a": 1}),
    "escapes": ("hermes", hermes('{"a": "\\u00e9\\/\\ud83d\\ude42"}'), {"a": "é/🙂"}),
    "keys of the format as arguments": (
        "hermes",
        hermes('{"name": "n", "arguments": {"a": 1}}'),
        {"name": "n", "arguments": {"a": 1}},
    ),
    "types are the JSON's": ("hermes", hermes('{"text": 5, "whole": "5"}'), {"text": 5, "whole": "5"}),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_other_spellings_of_a_call(vllm: VLLM, name: str) -> None:
    parser, text, arguments = SPELLINGS[name]
    assert_all_read(vllm, parser, text, Read("", (("t", arguments),)))


TEXTS = [
    "",
    "Done.",
    "  a < b \n",
    "x <think>y</think> z",
    "a </tool_call> b",
    '{"name": "t", "arguments": {}}',
    "<tool",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("parser", ["qwen3_coder", "hermes"])
def test_text_without_a_call(vllm: VLLM, parser: str, text: str) -> None:
    assert ours(parser, text) == Read(text)
    whole, streamed = vllm.read(parser, text)
    assert whole == Read(text), f"vLLM {vllm.version}"
    # Nothing ends the stream of hermes: what may be the beginning of a call is never sent.
    assert streamed == Read("" if (parser, text) == ("hermes", "<tool") else text), f"vLLM {vllm.version}"


@pytest.mark.parametrize("case", DIFFERENCES, ids=[case.why for case in DIFFERENCES])
def test_a_known_difference(vllm: VLLM, case: Difference) -> None:
    expected = case.ours or Read(case.text)
    assert plain(ours(case.parser, case.text)) == plain(expected)
    for theirs, said in zip(vllm.read(case.parser, case.text), (case.whole, case.streamed or case.whole), strict=True):
        assert plain(theirs) == plain(said), f"vLLM {vllm.version}"
        assert plain(theirs) != plain(expected) or case.streamed, "no difference any more: move it to the others"


@pytest.mark.parametrize("name", ["qwen3_6", "qwen3"])
def test_a_call_counts_from_its_last_character_on(vllm: VLLM, name: str) -> None:
    template, parser = TEMPLATES[name]
    calls: list[tuple[str, dict[str, Json]]] = [("t", {"text": "a\n<b>", "whole": 5}), ("t", {"items": [1]})]
    text = written(template, "So.", calls)
    ends = [at + len("</tool_call>") for at in range(len(text)) if text.startswith("</tool_call>", at)]
    assert len(ends) == 2
    for length in range(len(text) + 1):
        read = ours(parser, text[:length])
        assert read.calls == tuple(calls[: sum(end <= length for end in ends)])
        _, streamed = vllm.read(parser, text[:length])
        assert plain(Read("", streamed.calls[: len(read.calls)])) == plain(Read("", read.calls))


MARKS = ["<", ">", "/", "=", '"', "'", "\\", "\n", "{", "}", "<tool_call>", "<function=t>", "</think>", "<parameters>"]
STRINGS = st.lists(st.sampled_from(MARKS) | st.text(st.characters(codec="utf-8"), max_size=4), max_size=8).map("".join)
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "text": STRINGS,
        "whole": st.integers(),
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.booleans(),
        "items": st.lists(VALUES, max_size=3),
        "object": st.dictionaries(STRINGS, VALUES, max_size=3),
        "count": st.integers(),
        "note": STRINGS.filter(lambda text: text != "null"),
        "unknown": STRINGS,
    },
)
SAID = st.text(st.sampled_from("abc .,é\n"), max_size=12).map(str.strip)
ENDS = {"qwen3_coder": ("</parameter>", "<parameter=", "</function>"), "hermes": ("</tool_call>",)}
"""What vLLM's parsers take for the format inside a value too: see the differences."""


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "qwen3_5_think", "qwen3_6"])
@settings(
    max_examples=250,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(said=SAID, calls=st.lists(st.tuples(st.sampled_from(["t", "u.v-w"]), ARGUMENTS), min_size=1, max_size=3))
def test_any_call_that_a_chat_template_writes(
    vllm: VLLM, name: str, said: str, calls: list[tuple[str, dict[str, Json]]]
) -> None:
    template, parser = TEMPLATES[name]
    values = json.dumps([arguments for _, arguments in calls], ensure_ascii=False)
    assume(not any(end in values for end in ENDS[parser]))
    # A tool that was not offered has no types: its arguments are text in the format that has no JSON.
    if parser == "qwen3_coder":
        calls = [(n, {k: v for k, v in a.items() if n == "t" or isinstance(v, str)}) for n, a in calls]
    assert_all_read(vllm, parser, written(template, said, calls), Read(said, tuple(calls)))
