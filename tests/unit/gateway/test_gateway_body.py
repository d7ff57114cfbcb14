"""A body that is read in parts is what it would be if it were read at once."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.gateway.body import BodyReader, once
from lego_rl.json_text import read_json
from lego_rl.messages import Json

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
TEXTS = VALUES.map(json.dumps) | st.text(max_size=12) | st.sampled_from(
    ["", "{", '{"a":NaN}', '{"a":1e999}', '{"a":[1e999]}', '{"a":"\\ud800"}', '{"\\ud800":1}', '{"a":1,"a":[2]}']
    + ['{"a":' + "[" * depth + "]" * depth + "}" for depth in (8, 9, 10, 11, 5000)]
    + ['{"a":[{"b":' + "[" * depth + "]" * depth + "}]}" for depth in (6, 7, 8, 9)]
)  # fmt: skip
DEPTH = 10


def outcome(content: bytes, reader: BodyReader | None) -> tuple[str, object]:
    try:
        if reader is None:
            return "value", read_json(content.decode("utf-8"), depth=DEPTH)
        return "value", reader.read(content, reader.split(content))
    except ValueError as error:
        return "refused", type(error)


@settings(max_examples=300)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(0, 3000))
def test_parts_are_read_as_the_whole_would_be(texts: list[str], most: int) -> None:
    reader = BodyReader(depth=DEPTH, most=most)
    for text in [*texts, *texts]:
        content = text.encode("utf-8", "surrogatepass")
        expected, found = outcome(content, None), outcome(content, reader)
        assert repr(found) == repr(expected)


SEPARATORS = st.sampled_from([",", ", ", ",  ", " ,", ",\n"])


@settings(max_examples=300)
@given(st.data(), st.lists(VALUES, max_size=5), st.integers(0, 3000))
def test_lists_that_grow_and_change_are_read_as_they_are(data: st.DataObject, values: list[Any], most: int) -> None:
    reader = BodyReader(depth=DEPTH, most=most)
    for _ in range(6):
        values = values[: data.draw(st.integers(0, len(values)))] + data.draw(st.lists(VALUES, max_size=3))
        between = data.draw(SEPARATORS)
        for name in data.draw(st.permutations(["a", "b"])):
            body = f'{{"{name}":[{between.join(map(json.dumps, values))}],"c":[{json.dumps(values)}]}}'.encode()
            assert repr(outcome(body, reader)) == repr(outcome(body, None))


def test_elements_that_only_begin_as_known_ones_are_others() -> None:
    reader = BodyReader(depth=DEPTH, most=10**6)
    for content in (b"[1,2]", b"[12]", b"[1.5,2]", b"[1 ,2]", b"[1]", b"[1,2,]", b"[]", b'["1"]', b"[1,2"):
        body = b'{"a":' + content + b"}"
        assert outcome(body, reader) == outcome(body, None)


def test_what_was_read_before_is_the_same_object_and_nothing_is_made_of_it_twice() -> None:
    reader, made = BodyReader(depth=DEPTH, most=10**6), []

    def make(value: Mapping[str, Json], where: str) -> str:
        made.append(where)
        return f"made of {value['n']}"

    def other(value: Mapping[str, Json], where: str) -> int:
        return 7

    def body(*numbers: int) -> bytes:
        return json.dumps({"messages": [{"n": number} for number in numbers]}).encode()

    def read(content: bytes) -> list[dict[str, Json]]:
        value: Any = reader.read(content, reader.split(content))
        messages: list[dict[str, Json]] = value["messages"]
        return messages

    first = read(body(1, 2))
    again = read(body(0, 1, 2))
    assert again[1] is first[0] and again[2] is first[1]
    assert [once(make, each, "first") for each in first] == ["made of 1", "made of 2"]
    assert [once(make, each, "again") for each in again] == ["made of 0", "made of 1", "made of 2"]
    assert made == ["first", "first", "again"]
    assert once(other, first[0], "") == 7  # another wire format makes something else of the same bytes
    assert once(make, first[0], "") == "made of 1"


def test_only_what_is_new_counts_as_unread_and_what_is_remembered_is_bounded() -> None:
    reader = BodyReader(depth=DEPTH, most=5000)
    content = json.dumps({"messages": [{"text": "x" * 400}, {"text": "y" * 400}]}).encode()
    parts = reader.split(content)
    assert parts is not None and parts.unread > 800
    reader.read(content, parts)
    known = reader.split(content)
    assert known is not None and known.unread == 0
    for number in range(20):
        other = json.dumps({"messages": [{"text": f"{number}" * 400}]}).encode()
        reader.read(other, reader.split(other))
    assert sum(map(len, reader._known)) < 2 * 5000
