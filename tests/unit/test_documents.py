"""Whatever is wrong with a document, one exception says so, and commands say it in a line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.documents import DocumentError, read_json, read_toml
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate

DIGITS = "1" * 5_000
"""More than Python converts (`sys.get_int_max_str_digits`)."""
DEEP = 100_000


@pytest.mark.parametrize("text", ["", "{", "[1,]", DIGITS, "[" * DEEP, b"\xff", '{"a":' * DEEP])
def test_no_json(text: str | bytes) -> None:
    with pytest.raises(DocumentError):
        read_json(text)


@pytest.mark.parametrize("text", ["a", "a = ", f"a = {DIGITS}", f"a = {'[' * DEEP}", f"a = {'{b=' * DEEP}"])
def test_no_toml(text: str) -> None:
    with pytest.raises(DocumentError):
        read_toml(text)


@given(st.text())
def test_a_text_is_a_document_or_none(text: str) -> None:
    for read in (read_json, read_toml):
        try:
            read(text)
        except DocumentError as error:
            assert str(error)


@pytest.mark.parametrize("command", [["index", "--out", "index.parquet"], ["validate"]])
@pytest.mark.parametrize("file", ["spec", "config"])
def test_a_task_that_python_cannot_read_is_named_in_a_line(tmp_path: Path, command: list[str], file: str) -> None:
    pool = tmp_path / "pool"
    folder = write_task(generate(0, "comparison", 0), pool)
    if file == "spec":
        path = folder / "tests" / "spec.json"
        path.write_text(json.dumps(json.loads(path.read_text()))[:-1] + f', "extra": {DIGITS}}}')
    else:
        path = folder / "task.toml"
        path.write_text(f"x = {'[' * 5_000}{']' * 5_000}\n{path.read_text()}")
    program = shutil.which("lego-rl", path=str(Path(sys.executable).parent))
    assert program is not None
    done = subprocess.run(
        [program, "tasks", *command, str(pool)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert folder.name in done.stdout + done.stderr
