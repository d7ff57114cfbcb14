"""Chat templates: message text stays text, and rendering what is new equals rendering everything."""

import json

import pytest
from gateway_kit import BASH, MARKUP, SPECIAL, TEMPLATE, call_text, chat_template, encoder, spell, tokenizer_json, user
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from lego_rl.errors import TemplateError
from lego_rl.gateway.encoding import SLICE, Encoder
from lego_rl.gateway.template import ChatTemplate
from lego_rl.messages import Message, ToolCall

NAMES = [*SPECIAL, *MARKUP]
PIECES = st.sampled_from(
    [*NAMES, *(name[:-1] for name in NAMES), *(name[1:] for name in NAMES), "\ufdd0", "0", "1", "2"]
)
HOSTILE = st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<\ufdd0"), max_size=20)
ADDED = {json.loads(tokenizer_json())["added_tokens"][index]["id"] for index in range(len(NAMES))}


def test_the_kit_knows_every_added_token() -> None:
    assert {encoder().id_of(name) for name in NAMES} == ADDED


@given(HOSTILE)
def test_quoted_text_never_becomes_an_added_token_and_keeps_its_bytes(text: str) -> None:
    ids = encoder().encode(encoder().quote(text))
    assert not ADDED & set(ids)
    assert encoder().decode(ids) == text


@pytest.mark.parametrize("name", NAMES)
def test_an_added_token_stands_across_the_border_of_two_slices(name: str) -> None:
    """Long text is looked through slice by slice: a slice's end may cut a spelling in two, and a template's token."""
    cuts = range(len(name) + 1)
    long = "".join("x" * (SLICE - cut) + name + "y" * (SLICE - len(name) + cut) for cut in cuts)
    assert not ADDED & set(encoder().encode(encoder().quote(long)))
    assert encoder().decode(encoder().encode(encoder().quote(long))) == long
    assert [token for token in encoder().encode(long) if token in ADDED] == [encoder().id_of(name)] * len(cuts)
    assert encoder().decode(encoder().encode(long)) == long


@given(HOSTILE)
def test_hostile_content_adds_no_added_token_to_a_prompt(text: str) -> None:
    template = chat_template()
    call = ToolCall("c1", "bash", {"command": text, "x": [text, {text: text}]})

    def added(content: str) -> list[int]:
        messages = [
            Message("system", content),
            user(content),
            Message("assistant", content, (call,) if content else (ToolCall("c1", "bash", {"command": "", "x": ""}),)),
            Message("tool", content, tool_call_id="c1"),
        ]
        ids = template.opening(messages, [BASH]) + template.continuation([user(content)], after=0)
        return [token for token in ids if token in ADDED]

    assert added(text or "-") == added("-")


@given(PLAIN)
def test_ordinary_text_is_encoded_as_the_tokenizer_does(text: str) -> None:
    rendered = f"<|im_start|>user\n{text}<|im_end|>\n<tool_call>{text}"
    expected = Tokenizer.from_str(tokenizer_json()).encode(rendered, add_special_tokens=False).ids
    assert encoder().encode(f"<|im_start|>user\n{encoder().quote(text)}<|im_end|>\n<tool_call>{text}") == expected


@given(st.lists(st.tuples(PLAIN.map(str.strip), PLAIN.filter(bool), PLAIN), min_size=1, max_size=4), PLAIN)
def test_incremental_equals_one_shot(turns: list[tuple[str, str, str]], question: str) -> None:
    template = chat_template()
    messages = [Message("system", "Be brief."), user(question)]
    ids = template.opening(messages, [BASH])
    for index, (said, command, output) in enumerate(turns):
        call = ToolCall(f"c{index}", "bash", {"command": command})
        sampled = spell(said + ("\n" if said else "") + call_text("bash", {"command": command}))
        new = [Message("tool", output, tool_call_id=call.id), user(output)]
        ids += sampled + template.continuation(new, after=sampled[-1])
        messages += [Message("assistant", said, (call,)), *new]
        assert ids == template.opening(messages, [BASH])


def test_a_turn_cut_by_the_token_limit_is_ended_as_context() -> None:
    template = chat_template()
    cut = spell("unfinished", end=False)
    ids = template.continuation([user("go on")], after=cut[-1])
    assert ids[0] == template.end_of_turn
    assert ids[1:] == template.continuation([user("go on")], after=template.end_of_turn)


def test_system_messages_are_made_to_fit() -> None:
    template = chat_template()
    assert template.opening([Message("system", "a"), Message("system", "b"), user("q")], []) == template.opening(
        [Message("system", "a\n\nb"), user("q")], []
    )
    late = [user("q"), Message("system", "note")]
    assert template.opening(late, []) == template.opening([user("q"), user("note")], [])


def test_a_prompt_does_not_depend_on_the_day() -> None:
    dated = ChatTemplate(encoder(), "{{- strftime_now('%Y-%m-%d') }}" + TEMPLATE)
    assert encoder().decode(dated.opening([user("q")], [])).startswith("2025-01-01")


def test_generation_blocks_of_training_templates_are_transparent() -> None:
    marked = TEMPLATE.replace("{{- message.content }}", "{%- generation %}{{- message.content }}{%- endgeneration %}")
    messages = [user("q"), Message("assistant", "a"), user("r")]
    assert marked != TEMPLATE
    assert ChatTemplate(encoder(), marked).opening(messages, []) == chat_template().opening(messages, [])


def test_refused_conversations_and_templates_name_the_reason() -> None:
    picky = ChatTemplate(
        encoder(), "{%- if messages[0].role == 'tool' %}{{ raise_exception('no!') }}{%- endif %}" + TEMPLATE
    )
    with pytest.raises(TemplateError, match="no!"):
        picky.opening([Message("tool", "x", tool_call_id="c")], [])
    with pytest.raises(TemplateError, match="refuses this conversation: Range too big"):
        ChatTemplate(encoder(), "{% for _ in range(10 ** 9) %}{% endfor %}")
    with pytest.raises(TemplateError, match=r"refuses this conversation: .*by zero"):
        ChatTemplate(encoder(), "{{ 1 // 0 }}")
    with pytest.raises(TemplateError, match="no added token"):
        ChatTemplate(encoder(), "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    with pytest.raises(TemplateError, match="verbatim"):
        ChatTemplate(encoder(), "{% for m in messages %}{{ m.content + m.content }}<|im_end|>{% endfor %}x")
    with pytest.raises(TemplateError, match="compile"):
        ChatTemplate(encoder(), "{% for %}")
    with pytest.raises(TemplateError, match=r"tokenizer\.json"):
        Encoder("{}")


def test_files_of_a_policy_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("policy")
    (directory / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    with pytest.raises(TemplateError, match=r"chat_template\.jinja"):
        ChatTemplate.load(directory)
    (directory / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    end, stop = encoder().id_of("<|im_end|>"), encoder().id_of("<|endoftext|>")
    assert ChatTemplate.load(directory).stop_token_ids == (end,)
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": [end, stop]}), encoding="utf-8")
    loaded = ChatTemplate.load(directory)
    assert loaded.stop_token_ids == (end, stop)
    assert loaded.opening([user("q")], []) == chat_template().opening([user("q")], [])
    stops = ('"<|im_end|>"', "1.5", "true", "-1", "[0, 987654321]")
    for damaged in ("{", "[]", *(f'{{"eos_token_id": {stop}}}' for stop in stops)):
        (directory / "generation_config.json").write_text(damaged, encoding="utf-8")
        with pytest.raises(TemplateError, match=r"generation_config\.json"):
            ChatTemplate.load(directory)
    (directory / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(TemplateError, match=r"chat_template\.jinja"):
        ChatTemplate.load(directory)
