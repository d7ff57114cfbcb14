import bz2
from pathlib import Path

from lego_rl.analysis.behaviour import analyse
from lego_rl.bench.transcripts import Texts
from lego_rl.commands.bench_analyse import make_evaluation
from lego_rl.evaluate.folder import read_evaluation
from lego_rl.rollout.settled import settled_records
from lego_rl.rollout.store import RunDirectory

SHORT = Texts(turns=40)


def test_what_is_made_is_what_the_store_reads(tmp_path: Path) -> None:
    make_evaluation(tmp_path / "made", 32, SHORT)
    assert [len(cell.trials) for cell in read_evaluation([tmp_path / "made"]).cells] == [16, 16]
    for table in analyse(tmp_path / "made"):
        assert (table.sides[0].trials, table.sides[0].tasks, table.sides[0].masked) == (16, 2, 0)
        value = {line.measure.key: line.values[0].value for line in table.lines}
        assert value["turns"] == 40
        assert value["malformed"] == 0
        assert value["own_tests"]
        assert value["recovered"]
    shard = next((tmp_path / "made" / "cells").glob("*")) / "0-of-1"
    for record in settled_records(RunDirectory(shard)):
        assert record.transcript is not None
        (said,) = record.transcript.conversations
        calls = [call.id for message in said for call in message.tool_calls]
        assert calls == [f"call_{turn:06d}" for turn in range(39)]
        assert [message.tool_call_id for message in said if message.role == "tool"] == calls


def test_no_two_conversations_are_alike_and_each_is_as_long_as_it_is_said_to_be() -> None:
    found = {bz2.decompress(SHORT.document("x", number)) for number in range(8)}
    assert len(found) == 8
    assert min(map(len, found)) > 4_000 * SHORT.turns
    assert SHORT.document("x", 3) == Texts(SHORT.turns).document("x", 3)
