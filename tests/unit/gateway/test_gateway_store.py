"""Trajectories on disk: readable by others, exact for us, and damage is named."""

import asyncio
import bz2
import io
import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from anthropic_wire import AnthropicWire
from capture_oracle import check_round_trip
from gateway_kit import BASH, call_text, spell_oddly, tape, user
from harbor.models.trajectories import Trajectory as AtifTrajectory
from hypothesis import given, settings
from hypothesis import strategies as st
from served import served
from wires import WIRES

from lego_rl.errors import RunError
from lego_rl.gateway.atif import from_atif, to_atif
from lego_rl.gateway.store import (
    TOKENS_FILE,
    TRAJECTORY_FILE,
    load_segments,
    read_text,
    read_trajectory,
    write_trajectory,
)
from lego_rl.gateway.trajectory import Accounting, Trajectory
from lego_rl.messages import Message, Tool, ToolCall

EMPTY = Trajectory((), (), (), (), Accounting(refused={"turns": 1}, budget_hit="turns"))


async def captured(*, dense: bool = False) -> Trajectory:
    engine = tape([call_text("bash", {"command": "ls"}) * 2, spell_oddly("Done."), "Again."], routes=None)
    if not dense:
        engine = tape([call_text("bash", {"command": "ls"}) * 2, spell_oddly("Done."), "Again."])
    wire = AnthropicWire()
    async with served(engine) as at:
        messages = [Message("system", "Mend."), user("Mend it.")]
        answer = await at.ask(wire, messages)
        results = [Message("tool", f"out {call.id} \ud83d\ude00", tool_call_id=call.id) for call in answer.tool_calls]
        await at.ask(wire, [*messages, answer, *results[::-1]])
        await at.ask(wire, [*messages, user("late"), Message("tool", "stray", tool_call_id="nobody's")])
        return await at.close()


@pytest.mark.parametrize("dense", [False, True], ids=["routed", "dense"])
async def test_what_is_read_is_what_was_written(dense: bool) -> None:
    trajectory = await captured(dense=dense)
    assert len(trajectory.segments) == 2
    check_round_trip(trajectory)


DEPTHS = st.integers(0, 100) | st.integers(100, 3000)
INNER = st.sampled_from(
    ["1", "null", '"\\ud800"', '"\\ud83d\\ude00"', "9" * 400, "9" * 5000, "-0.0", "1e308", "1e309", "NaN"]
)


@settings(max_examples=60)
@given(st.sampled_from(list(WIRES)), st.sampled_from(["argument", "schema"]), DEPTHS, INNER)
def test_what_a_harness_may_send_can_be_written_down(name: str, place: str, depth: int, inner: str) -> None:
    wire = WIRES[name]
    marker = Tool("bash", "", {"x": "HERE"}) if place == "schema" else BASH
    call = ToolCall("c", "bash", {"x": "HERE"} if place == "argument" else {})
    body = wire.body([user("Mend it."), Message("assistant", "", (call,)), user("Go on.")], [marker])
    nested = "[" * depth + inner + "]" * depth
    quoted = r"\"HERE\""  # JSON inside a JSON string, where the protocol has it so
    sent = json.dumps(body).replace('"HERE"', nested).replace(quoted, json.dumps(nested)[1:-1])
    assert "HERE" not in sent

    async def ask() -> tuple[int, Trajectory]:
        async with served(tape(["Done."])) as at:
            response = await at.client.post(at.url + wire.path, data=io.BytesIO(sent.encode()))
            return response.status, await at.close()

    status, trajectory = asyncio.run(ask())
    assert status in (200, 400)
    if inner not in ("9" * 5000, "1e309", "NaN") and not 64 < depth <= 80:
        assert status == (200 if depth <= 64 else 400)
    assert trajectory.accounting.calls == (status == 200)
    check_round_trip(trajectory)


IDS = st.sampled_from(["", "a", "b"])
ARGUMENTS = st.dictionaries(IDS, st.none() | st.lists(st.none() | st.booleans(), max_size=2), max_size=2)
SPOKEN = st.one_of(
    st.builds(Message, st.sampled_from(["system", "user"]), IDS),
    st.builds(Message, st.just("tool"), IDS, tool_call_id=IDS),
    st.builds(
        Message,
        st.just("assistant"),
        IDS,
        st.lists(st.builds(ToolCall, IDS, IDS, ARGUMENTS), max_size=2).map(tuple),
        reasoning=st.none() | IDS,
    ),
)


@settings(max_examples=60)
@given(st.lists(SPOKEN, min_size=1, max_size=6).map(tuple))
def test_any_conversation_is_read_back_as_it_was(messages: tuple[Message, ...]) -> None:
    document = to_atif(replace(EMPTY, conversations=(messages,)), harness="h", version="1", session_id="t")
    text = json.dumps(document.to_json_dict())
    assert from_atif(AtifTrajectory.model_validate_json(text))[0] == (messages,)


def test_a_trial_without_a_call_has_a_record_too() -> None:
    check_round_trip(EMPTY)


def test_the_files_are_readable_without_this_package(tmp_path: Path) -> None:
    trajectory = asyncio.run(captured())
    write_trajectory(trajectory, tmp_path, harness="claude-code", version="2.1", session_id="t7")
    document = json.loads(bz2.decompress((tmp_path / TRAJECTORY_FILE).read_bytes()))
    assert document["schema_version"].startswith("ATIF-v1.")
    assert document["agent"]["name"] == "claude-code"
    assert [step["source"] for step in document["steps"]] == ["system", "user", "agent", "agent"]
    results = document["steps"][2]["observation"]["results"]
    calls = document["steps"][2]["tool_calls"]
    assert {each["source_call_id"] for each in results} == {each["tool_call_id"] for each in calls}
    with np.load(tmp_path / TOKENS_FILE, allow_pickle=False) as archive:
        assert archive["token_lengths"].sum() == len(archive["token_ids"]) == trajectory.accounting.sampled_tokens
    assert sorted(path.name for path in tmp_path.iterdir()) == [TOKENS_FILE, TRAJECTORY_FILE]


def _written_over(archive: bytes) -> Iterator[bytes]:
    """The archive with one place of its first member written over, which makes the file no shorter."""
    name_length, extra_length = struct.unpack_from("<HH", archive, 26)
    directory = archive.index(b"PK\x01\x02")
    encrypted_flag, method, data = directory + 8, directory + 10, 30 + name_length + extra_length + 12
    for place, byte in ((encrypted_flag, 1), (method, 99), (data, 0xFF)):
        yield archive[:place] + bytes([byte]) + archive[place + 1 :]


def test_damage_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=TOKENS_FILE):
        load_segments(tmp_path)
    write_trajectory(asyncio.run(captured()), tmp_path, harness="h", version="1", session_id="t")
    tokens, text = tmp_path / TOKENS_FILE, tmp_path / TRAJECTORY_FILE
    whole = tokens.read_bytes()
    for damaged in (b"", whole[:-100], b"x" * 1000, *_written_over(whole)):
        tokens.write_bytes(damaged)
        with pytest.raises(RunError, match=TOKENS_FILE):
            load_segments(tmp_path)
    tokens.write_bytes(whole)
    said = text.read_bytes()
    other = bz2.compress(bz2.decompress(said).replace(b'"lego_rl"', b'"other"'))
    for broken in (b"", b"{}", said[:-9], bz2.compress(b"{}"), bz2.compress(b"\xff"), other):
        text.write_bytes(broken)
        with pytest.raises(RunError, match=TRAJECTORY_FILE):
            read_trajectory(tmp_path)
    text.write_bytes(b"")
    with pytest.raises(RunError, match=TRAJECTORY_FILE):
        read_text(tmp_path)


def test_files_of_another_format_are_refused_and_say_which(tmp_path: Path) -> None:
    write_trajectory(asyncio.run(captured()), tmp_path, harness="h", version="1", session_id="t")
    tokens, text = tmp_path / TOKENS_FILE, tmp_path / TRAJECTORY_FILE
    whole, said = tokens.read_bytes(), text.read_bytes()
    with np.load(io.BytesIO(whole)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for number, problem, fix in ((2, "format 2, this version of lego-rl reads 1", "update"), (None, "no", "wrote")):
        arrays.pop("format", None)
        np.savez(tokens, **arrays | ({} if number is None else {"format": np.array(number)}))
        for read in (load_segments, read_trajectory):
            with pytest.raises(RunError, match=f"{TOKENS_FILE} has {problem}") as raised:
                read(tmp_path)
            assert fix in raised.value.fix
        tokens.write_bytes(whole)
        document = json.loads(bz2.decompress(said))
        document["extra"]["lego_rl"].pop("format")
        if number is not None:
            document["extra"]["lego_rl"]["format"] = number
        text.write_bytes(bz2.compress(json.dumps(document).encode()))
        with pytest.raises(RunError, match=f"{TRAJECTORY_FILE} has {problem}") as raised:
            read_trajectory(tmp_path)
        assert fix in raised.value.fix
        text.write_bytes(said)
    read_trajectory(tmp_path)


def test_files_of_two_trials_are_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        trajectory = asyncio.run(captured())
        if name == "other":  # the same conversation, but for the last answer
            calls = (*trajectory.generations[:-1], replace(trajectory.generations[-1], finish_reason="length"))
            counts = replace(trajectory.accounting, truncated=1)
            trajectory = replace(trajectory, generations=calls, accounting=counts)
        write_trajectory(trajectory, tmp_path / name, harness="h", version="1", session_id=name)
        read_trajectory(tmp_path / name)
    (tmp_path / "one" / TOKENS_FILE).write_bytes((tmp_path / "other" / TOKENS_FILE).read_bytes())
    with pytest.raises(RunError, match="contradict each other: the counts say truncated 0, the calls 1") as raised:
        read_trajectory(tmp_path / "one")
    assert "copy" in raised.value.fix


def test_a_conversation_too_many_is_refused(tmp_path: Path) -> None:
    trajectory = asyncio.run(captured())
    more = replace(trajectory, conversations=(*trajectory.conversations, trajectory.conversations[0]))
    write_trajectory(more, tmp_path, harness="h", version="1", session_id="t")
    with pytest.raises(RunError, match="3 conversations for 2 chains of calls"):
        read_trajectory(tmp_path)


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "parent": ({"parent": 1}, "continues call 1, which is none before it"),
    "kept": ({"kept": 9_999}, "keeps 9999 tokens"),
    "delivered prefix": ({"delivered_prefix": 9_999}, "delivered up to token 9999"),
    "versions": ({"weight_versions": ()}, "weight versions that do not cover"),
    "id": ({"call_id": "FIRST"}, "two calls have one id"),
    "routes": ({"routes_recorded": 9_999}, "9999 of them recorded"),
    "log-probs": ({"logprobs": np.array([np.nan], np.float32)}, "not all finite"),
    "tokens": ({"token_ids": np.array([-1], np.int32)}, "a token below 0"),
    "role": ({"role": "boss"}, "role"),
    "fate": ({"fate": "lost"}, "fate"),
}


@pytest.mark.parametrize("name", WRONG)
def test_calls_that_contradict_themselves_are_refused(name: str, tmp_path: Path) -> None:
    trajectory = asyncio.run(captured())
    first, second, *others = trajectory.generations
    changes, problem = WRONG[name]
    changes = {key: first.call_id if value == "FIRST" else value for key, value in changes.items()}
    if name in ("log-probs", "tokens"):  # of another length than what it replaces would be found sooner
        key, value = next(iter(changes.items()))
        assert isinstance(value, np.ndarray)
        changes[key] = np.resize(value, len(second.token_ids))
    calls = (first, replace(second, **changes), *others)  # type: ignore[arg-type]
    write_trajectory(replace(trajectory, generations=calls), tmp_path, harness="h", version="1", session_id="t")
    with pytest.raises(RunError, match=problem):
        load_segments(tmp_path)
