"""What was said is on the disk while a trial runs, and what a kill leaves of it can be read."""

from pathlib import Path

import numpy as np
import pytest
from gateway_kit import CALL, START, result, tape, user
from openai_wires import OpenAIChatWire
from served import served

from lego_rl.errors import RunError
from lego_rl.gateway.call_log import LoggedCall, read_calls
from lego_rl.messages import Message

WIRE = OpenAIChatWire()


async def written(path: Path) -> tuple[list[LoggedCall], list[int]]:
    """The log of a conversation, its sub-agent included, and how many calls it held after each answer."""
    engine, grown = tape([CALL, "A look.", "Done."]), []
    async with served(engine, log=path) as at:
        said = await at.ask(WIRE, START)
        grown.append(len(list(read_calls(path))))
        await at.ask(WIRE, [Message("system", "Explore."), user("Look.")])
        grown.append(len(list(read_calls(path))))
        await at.ask(WIRE, [*START, said, result(said.tool_calls[0], "ok")])
        calls = list(read_calls(path))
        assert [calls[at].answer for at in (0, 2)] == [said, Message("assistant", "Done.")]
        trajectory = await at.close()
    assert list(map(str, read_calls(path))) == list(map(str, calls)), "closing changes nothing"
    for call, generation, sample in zip(calls, trajectory.generations, engine.samples, strict=True):
        assert (call.call_id, call.parent) == (generation.call_id, generation.parent)
        assert np.array_equal(call.context_ids, generation.context_ids)
        assert np.array_equal(call.token_ids, sample.token_ids)
        assert np.array_equal(call.logprobs, sample.logprobs)
    return calls, grown


async def test_every_call_is_there_once_it_is_answered_as_what_is_new_in_it(tmp_path: Path) -> None:
    calls, grown = await written(tmp_path / "calls.log")
    assert grown == [1, 2]
    assert [call.parent for call in calls] == [None, None, 0]
    assert calls[0].messages == tuple(START)
    assert [message.role for message in calls[2].messages] == ["tool"]


async def test_what_a_kill_left_of_the_last_call_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "calls.log"
    await written(path)
    whole = path.read_bytes()
    cut = tmp_path / "cut.log"
    counts = []
    for size in range(len(whole)):
        cut.write_bytes(whole[:size])
        counts.append(len(list(read_calls(cut))))
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2}


async def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.log"
    await written(path)
    damaged = bytearray(path.read_bytes())
    damaged[20] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(RunError, match=r"calls\.log cannot be read"):
        list(read_calls(path))
    with pytest.raises(RunError, match="cannot be read"):
        list(read_calls(tmp_path / "none.log"))
