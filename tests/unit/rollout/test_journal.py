"""The journal: crash at any byte, damage, and a second writer."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.errors import RunError
from lego_rl.messages import Json
from lego_rl.rollout.journal import Journal, read_journal

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def written(path: Path, count: int) -> bytes:
    with Journal(path) as journal:
        for number in range(count):
            journal.append("trial-scored", {"id": f"é{number}", "reward": number % 2})
    return path.read_bytes()


def test_entries_come_back_in_order_across_processes(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, 2)
    with Journal(path) as journal:
        assert [entry.data["id"] for entry in journal.entries] == ["é0", "é1"]
        journal.append("step", {"step": 1})
    assert [(entry.number, entry.kind) for entry in read_journal(path)] == [
        (0, "trial-scored"),
        (1, "trial-scored"),
        (2, "step"),
    ]


def test_a_crash_at_every_byte_leaves_the_whole_entries_and_a_journal_that_can_be_continued(tmp_path: Path) -> None:
    raw = written(tmp_path / "whole", 2)
    ends = [index + 1 for index, byte in enumerate(raw) if byte == ord("\n")]
    for length in range(len(raw) + 1):
        path = tmp_path / "torn"
        path.write_bytes(raw[:length])
        complete = sum(end <= length for end in ends)
        assert len(read_journal(path)) == complete
        with Journal(path) as journal:
            assert len(journal.entries) == complete
            journal.append("step", {"step": length})
        assert [entry.kind for entry in read_journal(path)] == ["trial-scored"] * complete + ["step"]


def test_a_last_line_whose_bytes_did_not_reach_the_disk_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    raw = written(path, 3)
    second_end = raw.index(b"\n", raw.index(b"\n") + 1) + 1
    path.write_bytes(raw[:second_end] + bytes(len(raw) - second_end))
    assert len(read_journal(path)) == 2


@pytest.mark.parametrize("position", range(10, 60, 7))
def test_damage_before_the_last_line_is_named_and_never_skipped(tmp_path: Path, position: int) -> None:
    path = tmp_path / "journal"
    raw = bytearray(written(path, 3))
    raw[position] ^= 0x01
    path.write_bytes(raw)
    with pytest.raises(RunError, match=r"line 1 of .* is damaged"):
        Journal(path)
    with pytest.raises(RunError, match=r"line 1 of .* is damaged"):
        read_journal(path)
    assert path.read_bytes() == raw


def test_a_missing_line_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    lines = written(path, 3).splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2] + lines[2])
    with pytest.raises(RunError, match="line 2 of"):
        read_journal(path)


def test_a_second_writer_in_this_process_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path), pytest.raises(RunError, match="another process is writing"):
        Journal(path)
    Journal(path).close()


def test_a_second_process_is_refused_and_a_killed_writer_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    program = (
        "import sys, pathlib; from lego_rl.rollout.journal import Journal;"
        "j = Journal(pathlib.Path(sys.argv[1])); j.append('a', {}); print('ready', flush=True); sys.stdin.read()"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        with pytest.raises(RunError, match="another process is writing"):
            Journal(path)
        writer.kill()
    with Journal(path) as journal:
        assert [entry.kind for entry in journal.entries] == ["a"]


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.append("a", {"fits": True})
        before = path.read_bytes()
        # A limit on the file's size is how a full disk can be had without filling one.
        program = f"""
import resource, signal, pathlib
from lego_rl.errors import RunError
from lego_rl.rollout.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(pathlib.Path({str(path)!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 10}, {len(before) + 10}))
try:
    journal.append("b", {{"text": "x" * 1000}})
except RunError as error:
    print(error.fix)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "--resume" in result.stdout
    assert path.read_bytes() == before


@settings(max_examples=25)
@given(data=st.dictionaries(st.text(max_size=6), json_values, max_size=4))
def test_any_data_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, data: dict[str, Json]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    with Journal(path) as journal:
        journal.append("any", data)
    assert read_journal(path)[0].data == data
    path.unlink()


def test_a_journal_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot read the journal"):
        read_journal(tmp_path / "none")
