"""The shipped policy directory: its tokenizer, its chat template and its size."""

import json
import random
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.template import ChatTemplate
from lego_rl.messages import Message, Tool
from lego_rl.tasks.words import NOUNS, VERBS

DEMO = Path(str(files("lego_rl.policies") / "demo"))
TOKENIZER = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")


def ids(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False).ids)


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(ids(text), skip_special_tokens=False) == text


def test_markers_are_single_tokens_and_only_qwens_specials_are_special() -> None:
    for marker in (*SPECIAL, *TAGS):
        assert len(ids(marker)) == 1
    text = "".join((*SPECIAL, *TAGS))
    assert TOKENIZER.decode(ids(text), skip_special_tokens=True) == "".join(TAGS)


@pytest.mark.parametrize(
    "context",
    [
        "`{}`",
        "def {}(",
        "./{}/x.py:3:",
        "/app/{}.py",
        "    return {} + 1\n",
        '["{}"]',
        "{}_x",
        "x_{}",
        "f({}, 2)",
        "[:{}]",
    ],
)
def test_a_word_is_the_same_token_wherever_it_stands(context: str) -> None:
    """Copying is one rule for all words only if it is."""
    for word in (*VERBS, *NOUNS):
        (token,) = ids(word)
        assert token in ids(context.format(word))


def test_digits_are_single_tokens() -> None:
    assert ids("2047") == [ids(digit)[0] for digit in "2047"]


def test_everything_fits_the_configured_vocabulary() -> None:
    config = json.loads((DEMO / "config.json").read_text())
    assert TOKENIZER.get_vocab_size() <= config["vocab_size"] <= 4096
    assert config["eos_token_id"] == ids("<|im_end|>")[0]
    stops = json.loads((DEMO / "generation_config.json").read_text())["eos_token_id"]
    assert stops in (config["eos_token_id"], [config["eos_token_id"]])  # transformers writes either


TOOLS = [Tool("Read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})]
WORDS = st.sampled_from(["", "fix it", "a\nb", "<b>", "{'a': 1}", "ü"])


def calls() -> st.SearchStrategy[list[dict[str, object]]]:
    one = st.fixed_dictionaries({"path": WORDS, "limit": st.integers(0, 9)})
    return st.lists(
        one.map(lambda arguments: {"type": "function", "function": {"name": "Read", "arguments": arguments}}),
        max_size=2,
    )


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "system", "content": draw(WORDS)}] if draw(st.booleans()) else []
    for role in draw(st.lists(st.sampled_from(["user", "assistant", "tool"]), min_size=1, max_size=6)):
        message: dict[str, object] = {"role": role, "content": draw(WORDS)}
        if role == "assistant":
            message["tool_calls"] = draw(calls())
            message["reasoning_content"] = draw(st.sampled_from(["", "hm"]))
        messages.append(message)
    return messages


@pytest.fixture(scope="module")
def reference() -> object:
    """The renderer that other people's code will use."""
    return AutoTokenizer.from_pretrained(DEMO)


@given(conversations(), st.booleans())
def test_a_conversation_renders_to_a_prefix_of_its_continuation(
    reference: AutoTokenizer, messages: list[dict[str, object]], with_tools: bool
) -> None:
    tools = [{"type": "function", "function": {"name": "Read", "parameters": {}}}] if with_tools else None
    whole = reference.apply_chat_template(messages, tools=tools, tokenize=False)
    for length in range(1, len(messages)):
        head = reference.apply_chat_template(messages[:length], tools=tools, tokenize=False)
        assert whole.startswith(head)
        if messages[length]["role"] == "assistant":
            asked = reference.apply_chat_template(
                messages[:length], tools=tools, tokenize=False, add_generation_prompt=True
            )
            assert whole.startswith(asked)


def test_the_gateway_renders_what_transformers_renders(reference: AutoTokenizer) -> None:
    messages = [Message("system", "You fix bugs."), Message("user", "`a` is wrong.")]
    specs = [{"role": message.role, "content": message.content} for message in messages]
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in TOOLS
    ]
    expected = reference.apply_chat_template(specs, tools=tools, add_generation_prompt=True, return_dict=False)
    assert ChatTemplate.load(DEMO).opening(messages, TOOLS) == expected


def test_a_call_is_written_as_qwen3_coder_does(reference: AutoTokenizer) -> None:
    call = {"type": "function", "function": {"name": "Edit", "arguments": {"file_path": "/app/a.py", "count": 2}}}
    rendered = reference.apply_chat_template(
        [{"role": "user", "content": "go"}, {"role": "assistant", "content": "", "tool_calls": [call]}], tokenize=False
    )
    assert rendered.endswith(
        "<|im_start|>assistant\n<tool_call>\n<function=Edit>\n<parameter=file_path>\n/app/a.py\n</parameter>\n"
        "<parameter=count>\n2\n</parameter>\n</function>\n</tool_call><|im_end|>\n"
    )


def test_tool_text_cannot_end_a_turn() -> None:
    """A file that spells a marker stays text in the gateway's encoding."""
    encoder = Encoder((DEMO / "tokenizer.json").read_text(encoding="utf-8"))
    rng = random.Random(0)
    text = "".join(rng.choice((*SPECIAL, *TAGS)) for _ in range(20))
    marked = {ids(marker)[0] for marker in (*SPECIAL, *TAGS)}
    assert not marked & set(encoder.encode(encoder.quote(text)))
