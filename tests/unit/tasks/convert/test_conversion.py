"""A conversion as a whole: bad rows are listed and the rest goes on, nothing is written twice, kills leave no halves.

All rows are SYNTHETIC (`synthetic_rows`)."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from synthetic_rows import Row, classic, gym, present
from typer.testing import CliRunner

from lego_rl.cli import app
from lego_rl.errors import TaskError
from lego_rl.tasks.convert.run import Summary, convert
from lego_rl.tasks.convert.skipped import SKIPPED, Skipped
from lego_rl.tasks.task import Task


def rows_file(folder: Path, *rows: Row | str) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """What tells whether a file was written again."""
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.name != SKIPPED and path != folder
    }


def some(count: int) -> list[Row]:
    return [present(instance_id=f"pallets__flask-{number}") for number in range(count)]


def test_bad_rows_are_listed_and_the_rest_goes_on(tmp_path: Path) -> None:
    out, rows = tmp_path / "out", some(3)
    file = rows_file(tmp_path, rows[0], "no json", classic(version="99", instance_id="pallets__flask-99"), *rows[1:])
    seen: list[int] = []
    summary = convert("swebench", [file], out, workers=2, on_row=lambda summary: seen.append(summary.rows))
    assert (summary.written, summary.tasks, len(summary.skipped)) == (3, 3, 2)
    assert seen == [1, 2, 3, 4, 5]
    listed = [json.loads(line) for line in (out / SKIPPED).read_text().splitlines()]
    assert [(one["place"], one["instance"]) for one in listed] == [
        (f"{file}:2", ""),
        (f"{file}:3", "pallets__flask-99"),
    ]
    assert "no test command of pallets/flask 99" in listed[1]["reason"]
    assert {Task.load(path).id for path in out.iterdir() if path.is_dir()} == {row["instance_id"] for row in rows}


def test_a_second_run_writes_nothing(tmp_path: Path) -> None:
    out, file = tmp_path / "out", rows_file(tmp_path, *some(20), "no json")
    convert("swebench", [file], out, workers=2)
    before = state(out)
    again = convert("swebench", [file], out, workers=1)
    assert (again.written, again.unchanged, again.replaced, len(again.skipped)) == (0, 20, 0, 1)
    assert state(out) == before


def test_what_was_measured_of_a_task_survives_another_run(tmp_path: Path) -> None:
    out, file = tmp_path / "out", rows_file(tmp_path, present())
    convert("swebench", [file], out, workers=1)
    spec = out / "pallets__flask-9999" / "tests" / "spec.json"
    spec.write_text(spec.read_text().replace("pass", "measured"))
    measured = spec.read_text()
    convert("swebench", [file], out, workers=1)
    assert spec.read_text() == measured


def test_a_row_that_changed_replaces_its_task(tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert("swebench", [rows_file(tmp_path, present())], out, workers=1)
    changed = convert("swebench", [rows_file(tmp_path, present(problem_statement="Other."))], out, workers=1)
    assert (changed.written, changed.replaced) == (0, 1)
    assert Task.load(out / "pallets__flask-9999").instruction == "Other.\n"
    assert [path.name for path in out.iterdir()] == ["pallets__flask-9999"]


def test_nothing_that_was_not_converted_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "pallets__flask-9999").mkdir(parents=True)
    (out / "pallets__flask-9999" / "mine.txt").write_text("mine")
    summary = convert("swebench", [rows_file(tmp_path, present())], out, workers=1)
    assert [one.reason for one in summary.skipped] == ["there is another task called pallets__flask-9999"]
    assert (out / "pallets__flask-9999" / "mine.txt").read_text() == "mine"
    assert sorted(path.name for path in out.iterdir()) == ["pallets__flask-9999", SKIPPED]


def test_the_first_of_two_rows_of_one_name_is_the_task(tmp_path: Path) -> None:
    rows = [*some(40), present(instance_id="Pallets__Flask-1"), present(instance_id="pallets__flask-2", hints_text="")]
    file = rows_file(tmp_path, *rows)
    for _ in range(2):
        summary = convert("swebench", [file], tmp_path / "out", workers=3)
        assert [one.place.rpartition(":")[2] for one in summary.skipped] == ["41", "42"]
        assert all("is made of the row at" in one.reason for one in summary.skipped)


def test_names_that_differ_by_case_alone_do_not_stand_beside_each_other(tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert("swebench", [rows_file(tmp_path, present(instance_id="Pallets__Flask-1"))], out, workers=1)
    summary = convert("swebench", [rows_file(tmp_path, present(instance_id="pallets__flask-1"))], out, workers=1)
    assert "by the case of letters alone" in summary.skipped[0].reason


def test_no_row_leads_out_of_the_folder(tmp_path: Path) -> None:
    hostile = ["../evil", "/tmp/evil", "..", "a/../../evil", "evil\0", ".evil", "evil\n"]
    out = tmp_path / "deep" / "out"
    file = rows_file(tmp_path, *(present(instance_id=name) for name in hostile))
    summary = convert("swebench", [file], out, workers=1)
    assert len(summary.skipped) == len(hostile)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "out", "rows.jsonl", SKIPPED]


def test_a_row_called_as_a_file_of_the_pool_is_skipped_and_the_rest_goes_on(tmp_path: Path) -> None:
    out, names = tmp_path / "out", [SKIPPED, "validation.jsonl", "make-x.json", "Pool.PARQUET"]
    file = rows_file(tmp_path, *(present(instance_id=name) for name in names), *some(2))
    for written in (2, 0):
        summary = convert("swebench", [file], out, workers=1)
        assert (summary.written, summary.tasks, len(summary.skipped)) == (written, 2, 4)
        assert all("is the name of a file" in one.reason for one in summary.skipped)
        assert len((out / SKIPPED).read_text().splitlines()) == 4


def test_the_command_says_what_became_of_the_rows(tmp_path: Path) -> None:
    good = rows_file(tmp_path, *some(2), classic(version="99"))
    done = CliRunner().invoke(app, ["tasks", "convert", "swebench", str(good), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert "2 tasks in" in done.output and "skipped rows: 1" in done.output
    assert re.search(r"1 x .*the tables know no test command.*, as pallets__flask-9999", done.output)
    assert str(tmp_path / "out" / SKIPPED) in done.output


def test_rows_before_damage_become_tasks(tmp_path: Path) -> None:
    rows, out = some(40), tmp_path / "out"
    (tmp_path / "rows.json").write_text(json.dumps([*rows[:38], classic(version="99")])[:-1] + ', {"instance_id": "x')
    with pytest.raises(TaskError, match=r"rows\.json ends at byte"):
        convert("swebench", [tmp_path / "rows.json"], out, workers=1)
    assert len(_tasks(out)) == 38 + 1
    assert [json.loads(line)["instance"] for line in (out / SKIPPED).read_text().splitlines()] == [
        "pallets__flask-9999"
    ]


def test_what_became_of_the_rows_before_a_fault_is_printed(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([present(), classic(version="99")])[:-1] + ", {")
    command = ["tasks", "convert", "swebench", str(tmp_path / "rows.json"), "--out", str(tmp_path / "out")]
    for options in ([], ["--strict"]):
        done = CliRunner().invoke(app, [*command, *options])
        assert isinstance(done.exception, TaskError)
        assert "1 tasks in" in done.output and "skipped rows: 1" in done.output
    (tmp_path / "rows.json").write_text("[]")
    none = CliRunner().invoke(app, command)
    assert isinstance(none.exception, TaskError) and "there is no row" in str(none.exception)


def test_a_row_that_cannot_be_handed_on_is_skipped_with_its_id(tmp_path: Path) -> None:
    row = json.dumps(present(instance_id="pallets__flask-77"))
    nested = row.replace('"hints_text": ', f'"more": {"[" * 900 + "]" * 900}, "hints_text": ', 1)
    summary = convert("swebench", [rows_file(tmp_path, *some(2), nested)], tmp_path / "out", workers=1)
    assert summary.written == 2
    assert [(one.instance, one.reason) for one in summary.skipped] == [
        ("pallets__flask-77", "it is nested more than 100 deep")
    ]


def test_what_one_conversion_skipped_is_listed_until_its_rows_are_read_again(tmp_path: Path) -> None:
    out, bad = tmp_path / "out", classic(version="99")

    def listed() -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in (out / SKIPPED).read_text().splitlines()]
        return [(line["format"], line["place"]) for line in lines]

    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text(f"{json.dumps(bad)}\n{json.dumps(present())}\n{json.dumps(bad)}\n")
    other.write_text(f"{json.dumps(gym())}\n")
    convert("swebench", [one], out, workers=1)
    assert listed() == [("swebench", f"{one}:1"), ("swebench", f"{one}:3")]
    convert("swe-gym", [other], out, workers=1)  # of another format
    convert("swebench", [rows_file(tmp_path, *some(1))], out, workers=1)  # of another file
    assert len(listed()) == 2
    convert("swe-gym", [one], out, workers=1)  # the same file as another format
    assert len(listed()) == 5

    def stop(_: Skipped) -> None:
        raise TaskError("stopped", "no")

    with pytest.raises(TaskError, match="stopped"):
        convert("swebench", [one], out, workers=1, on_skipped=stop)
    assert len(listed()) == 5  # what was not looked at stays
    one.write_text(f"{json.dumps(bad)}\n{json.dumps(present())}\n")
    convert("swebench", [one], out, workers=1)
    assert [place for form, place in listed() if form == "swebench"] == [f"{one}:1"]


def test_a_folder_in_place_of_the_list_is_told_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "out" / SKIPPED).mkdir(parents=True)
    with pytest.raises(TaskError, match="is a folder, and the list of skipped rows goes there"):
        convert("swebench", [rows_file(tmp_path, *some(1))], tmp_path / "out", workers=1)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [SKIPPED]


def test_strict_stops_at_the_first_row_that_cannot_be_converted(tmp_path: Path) -> None:
    file = rows_file(tmp_path, present(), classic(version="99"))
    command = ["tasks", "convert", "swebench", str(file), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--strict"])
    assert isinstance(done.exception, TaskError) and f"{file}:2 (pallets__flask-9999)" in str(done.exception)
    assert Task.load(tmp_path / "out" / "pallets__flask-9999")
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


def test_a_conversion_that_makes_no_task_fails(tmp_path: Path) -> None:
    file = rows_file(tmp_path, classic(version="99"))
    done = CliRunner().invoke(app, ["tasks", "convert", "swebench", str(file), "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, TaskError) and "none of 1 rows" in str(done.exception)
    unknown = CliRunner().invoke(app, ["tasks", "convert", "swe", str(file), "--out", str(tmp_path / "o")])
    assert isinstance(unknown.exception, TaskError) and "no format 'swe'" in str(unknown.exception)


def test_what_a_hostile_row_says_steers_no_terminal(tmp_path: Path) -> None:
    file = rows_file(tmp_path, present(), present(instance_id="a\x1b[2Jb", repo="x\x1b]0;y\x07"))
    done = CliRunner().invoke(app, ["tasks", "convert", "swebench", str(file), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0 and "\x1b" not in done.output and "\x07" not in done.output


_PROGRAM = """
import sys
from pathlib import Path
from lego_rl.tasks.convert.run import convert
if __name__ == "__main__":
    convert("swebench", [Path(sys.argv[1])], Path(sys.argv[2]), workers=2)
"""


def test_a_killed_conversion_leaves_whole_tasks_and_is_finished_by_the_next(tmp_path: Path) -> None:
    count, out = 400, tmp_path / "out"
    file = rows_file(tmp_path, *some(count))
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    run = subprocess.Popen([sys.executable, str(program), str(file), str(out)], start_new_session=True)
    deadline = time.monotonic() + 120
    while len(_tasks(out)) < 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGKILL)  # all processes of this conversion, and of it alone
    run.wait()
    whole = _tasks(out)
    assert 20 <= len(whole) < count
    for path in whole:
        Task.load(path)
    before = {path: state(path) for path in whole}
    summary: Summary = convert("swebench", [file], out, workers=2)
    assert (summary.unchanged, summary.tasks) == (len(whole), count)
    assert {path: state(path) for path in whole} == before
    assert len(_tasks(out)) == count and not list(out.glob(".*"))


def test_processes_end_with_a_conversion_that_is_killed(tmp_path: Path) -> None:
    out, program = tmp_path / "out", tmp_path / "program.py"
    file = rows_file(tmp_path, *some(400))
    program.write_text(_PROGRAM)
    run = subprocess.Popen([sys.executable, str(program), str(file), str(out)], start_new_session=True)
    deadline = time.monotonic() + 120
    while not _tasks(out) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(_session(run.pid)) > 2
    run.kill()  # it alone
    run.wait()
    while _session(run.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _session(run.pid)


def _session(leader: int) -> list[Path]:
    """The processes of a session."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(process)
    return found


def _tasks(out: Path) -> list[Path]:
    return sorted(path for path in out.iterdir() if not path.name.startswith(".")) if out.is_dir() else []
