"""Texts in which our tool-call parsers and those of vLLM 0.32.0 read something else, and why.

Ours never repair: what is not a call as the format has it stays text, byte for byte, and is reported. Each case says
what every side reads, so that a change of any of them is noticed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from parser_reads import TOOL, Read

from lego_rl.messages import Json


@dataclass(frozen=True)
class Difference:
    """One text.

    Attributes:
        why: The reason.
        parser: The format.
        text: What was sampled.
        ours: What we read; ``None`` where all of it stays text.
        whole: What vLLM reads in the whole text.
        streamed: What a client of vLLM's stream is left with, where that is something else again.
    """

    why: str
    parser: str
    text: str
    ours: Read | None
    whole: Read
    streamed: Read | None = None


def xml(key: str, value: str) -> str:
    """A ``qwen3_coder`` call with one argument."""
    return f"<tool_call>\n<function={TOOL.name}>\n<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>"


def read(key: str, value: Json, content: str = "") -> Read:
    """Such a call, read."""
    return Read(content, ((TOOL.name, {key: value}),))


def hermes(arguments: str) -> str:
    """A ``hermes`` call."""
    return f'<tool_call>\n{{"name": "{TOOL.name}", "arguments": {arguments}}}\n</tool_call>'


def calls(*arguments: Json) -> Read:
    """Calls and nothing else."""
    return Read("", tuple((TOOL.name, each) for each in arguments))


DEEP = "[" * 70 + "]" * 70
DEEP_VALUE: Json = []
for _ in range(69):
    DEEP_VALUE = [DEEP_VALUE]

_X, _H = xml("text", "x"), hermes('{"text": "x"}')
_OPEN = "<tool_call>\n<function=t>\n<parameter=text>\n1\n"

DIFFERENCES: Sequence[Difference] = (
    # Calls as the chat templates write them. vLLM loses what the policy wrote.
    Difference(
        "vLLM ends a value at the first closing tag, the policy wrote on",
        "qwen3_coder",
        xml("text", "a </parameter> b"),
        read("text", "a </parameter> b"),
        read("text", "a "),
    ),
    Difference(
        "vLLM takes a tag inside a value for a parameter",
        "qwen3_coder",
        xml("text", "a <parameter=y> b"),
        read("text", "a <parameter=y> b"),
        calls({"text": "a ", "y": " b"}),
    ),
    Difference(
        "vLLM ends the call at the end of a function inside a value",
        "qwen3_coder",
        xml("text", "a </function> b"),
        read("text", "a </function> b"),
        calls({}),
        calls('{"text": "a '),
    ),
    Difference(
        "vLLM ends the object at the end of a call inside a string",
        "hermes",
        hermes('{"text": "a </tool_call> b"}'),
        calls({"text": "a </tool_call> b"}),
        Read(hermes('{"text": "a </tool_call> b"}')),
        calls('{"text": "a'),
    ),
    # Values that the types of the schema leave open.
    Difference(
        "templates may write a null as Python does",
        "qwen3_coder",
        xml("count", "None"),
        read("count", None),
        read("count", "None"),
    ),
    Difference(
        "a number where text is allowed too is the text that was written",
        "qwen3_coder",
        xml("either", "7"),
        read("either", "7"),
        read("either", 7),
    ),
    Difference(
        "no number of JSON is written so", "qwen3_coder", xml("whole", "1_0"), read("whole", "1_0"), read("whole", 10)
    ),
    Difference(
        "a boolean is no integer", "qwen3_coder", xml("whole", "true"), read("whole", "true"), read("whole", True)
    ),
    Difference("a number is no boolean", "qwen3_coder", xml("flag", "1"), read("flag", "1"), read("flag", True)),
    Difference(
        "an array is no object", "qwen3_coder", xml("object", "[1]"), read("object", "[1]"), read("object", [1])
    ),
    # Values that could not be written down again.
    Difference(
        "too deep to be passed on stays text",
        "qwen3_coder",
        xml("items", DEEP),
        read("items", DEEP),
        read("items", DEEP_VALUE),
    ),
    Difference(
        "half a character has no encoding",
        "qwen3_coder",
        xml("items", r'["\ud800"]'),
        read("items", ["\ufffd"]),
        read("items", ["\ud800"]),
    ),
    Difference("too deep to be passed on", "hermes", hermes(f'{{"a": {DEEP}}}'), None, calls({"a": DEEP_VALUE})),
    Difference(
        "half a character in an object",
        "hermes",
        hermes(r'{"a": "\ud800"}'),
        calls({"a": "\ufffd"}),
        calls({"a": "\ud800"}),
    ),
    Difference("JSON has no NaN", "hermes", hermes('{"a": NaN}'), None, calls({"a": float("nan")})),
    Difference("no number holds it", "hermes", hermes('{"a": 1e999}'), None, calls({"a": float("inf")})),
    # Objects in an order, or with a name, that no template writes: vLLM's stream cuts them by their text.
    Difference(
        "arguments before the name",
        "hermes",
        '<tool_call>\n{"arguments": {"a": 1}, "name": "t"}\n</tool_call>',
        calls({"a": 1}),
        calls({"a": 1}),
        calls('{"a": 1}, "name": "t"'),
    ),
    Difference(
        "something after the arguments",
        "hermes",
        '<tool_call>\n{"name": "t", "arguments": {"a": 1}, "id": "7"}\n</tool_call>',
        calls({"a": 1}),
        calls({"a": 1}),
        calls('{"a": 1}, "id": "7"'),
    ),
    Difference(
        "an escape in the name",
        "hermes",
        '<tool_call>\n{"name": "t\\u0065", "arguments": {}}\n</tool_call>',
        Read("", (("te", {}),)),
        Read("", (("te", {}),)),
        Read("", (("t\\u0065", {}),)),
    ),
    # Text beside the calls. What is said is trained and echoed, so we keep it.
    Difference(
        "vLLM leaves out what follows a call",
        "qwen3_coder",
        f"A\n{_X}\nB",
        read("text", "x", "A\nB"),
        read("text", "x", "A"),
        read("text", "x", "A\n\nB"),
    ),
    Difference(
        "vLLM leaves out what follows an object",
        "hermes",
        f"A\n{_H}\nB",
        read("text", "x", "A\nB"),
        read("text", "x", "A\n"),
    ),
    # Not calls: cut, unclosed, nested, doubled.
    Difference("the beginning of a call", "qwen3_coder", "<tool_call>", None, Read()),
    Difference("a call cut after its name", "qwen3_coder", "<tool_call>\n<function=t>", None, calls({})),
    Difference("a call cut inside a value", "qwen3_coder", _OPEN, None, calls({}), calls('{"text": "1')),
    Difference("a call cut after a value", "qwen3_coder", _OPEN + "</parameter>", None, calls({"text": "1"})),
    Difference(
        "a call cut before its end", "qwen3_coder", _OPEN + "</parameter>\n</function>", None, calls({"text": "1"})
    ),
    Difference(
        "a value that is not closed",
        "qwen3_coder",
        _OPEN + "</function>\n</tool_call>",
        None,
        calls({}),
        calls('{"text": "1'),
    ),
    Difference(
        "a function that is not closed",
        "qwen3_coder",
        _OPEN + "</parameter>\n</tool_call>",
        None,
        calls({"text": "1"}),
    ),
    Difference(
        "a call that is not opened",
        "qwen3_coder",
        "<function=t>\n<parameter=text>\n1\n</parameter>\n</function>",
        None,
        calls({"text": "1"}),
    ),
    Difference(
        "a call opened twice",
        "qwen3_coder",
        f"<tool_call>\n{_X}",
        read("text", "x", "<tool_call>"),
        calls({"text": "x"}),
    ),
    Difference(
        "a function opened twice",
        "qwen3_coder",
        _X.replace("<function=t>", "<function=t>\n<function=t>"),
        None,
        calls({"text": "x"}),
    ),
    Difference(
        "a parameter written twice",
        "qwen3_coder",
        _X.replace("</function>", "<parameter=text>\ny\n</parameter>\n</function>"),
        None,
        calls({"text": "y"}),
        calls('{"text": "x'),
    ),
    Difference(
        "something between the parameters",
        "qwen3_coder",
        _X.replace("</function>", "junk\n</function>"),
        None,
        calls({"text": "x"}),
    ),
    Difference(
        "a parameter of another spelling", "qwen3_coder", _X.replace("parameter=", "parameter "), None, calls({})
    ),
    Difference(
        "a space in a name",
        "qwen3_coder",
        _X.replace("=text>", "=text >"),
        None,
        calls({"text ": "x"}),
    ),
    Difference("a function without a name", "qwen3_coder", _X.replace("=t>", "=>"), None, Read()),
    Difference("a call of the other format", "qwen3_coder", _H, None, Read()),
    Difference("the beginning of an object's call", "hermes", "<tool_call>", None, Read("<tool_call>"), Read()),
    Difference(
        "an object cut after its name",
        "hermes",
        _H[:26],
        None,
        Read(_H[:26]),
        Read("", (("t", ""),)),
    ),
    Difference(
        "an object cut before its end",
        "hermes",
        _H.removesuffix("}\n</tool_call>"),
        None,
        Read(_H.removesuffix("}\n</tool_call>")),
        calls({"text": "x"}),
    ),
    Difference(
        "an object without a closing tag", "hermes", _H.removesuffix("\n</tool_call>"), None, calls({"text": "x"})
    ),
    Difference(
        "invalid JSON: a comma too many",
        "hermes",
        hermes('{"a": 1,}'),
        None,
        Read(hermes('{"a": 1,}')),
        calls('{"a": 1,}}'),
    ),
    Difference(
        "invalid JSON: a raw newline",
        "hermes",
        hermes('{"a": "b\nc"}'),
        None,
        Read(hermes('{"a": "b\nc"}')),
        calls('{"a": "b\nc"}}'),
    ),
    Difference(
        "something after the object",
        "hermes",
        _H.replace("\n</", " junk\n</"),
        None,
        Read(_H.replace("\n</", " junk\n</")),
        calls('{"text": "x"}} junk'),
    ),
    Difference(
        "no arguments",
        "hermes",
        '<tool_call>\n{"name": "t"}\n</tool_call>',
        None,
        Read('<tool_call>\n{"name": "t"}\n</tool_call>'),
        Read("", (("t", ""),)),
    ),
    Difference("arguments as text", "hermes", hermes('"{}"'), None, calls("{}")),
    Difference("arguments that are null", "hermes", hermes("null"), None, calls(None)),
    Difference("an empty name", "hermes", _H.replace('"t"', '""'), None, Read("", (("", {"text": "x"}),)), Read()),
    Difference(
        "a list instead of an object",
        "hermes",
        "<tool_call>\n[]\n</tool_call>",
        None,
        Read("<tool_call>\n[]\n</tool_call>"),
        Read(),
    ),
    Difference("an XML call", "hermes", _X, None, Read(_X), Read()),
    Difference(
        "an object's call opened twice",
        "hermes",
        f"<tool_call>\n{_H}",
        read("text", "x", "<tool_call>"),
        Read(f"<tool_call>\n{_H}"),
        calls('{"text": "x"}}'),
    ),
    Difference(
        "a malformed call costs vLLM the well-formed one",
        "hermes",
        f"{_H}\n<tool_call>\n[]\n</tool_call>",
        read("text", "x", "<tool_call>\n[]\n</tool_call>"),
        Read(f"{_H}\n<tool_call>\n[]\n</tool_call>"),
        calls({"text": "x"}),
    ),
)
