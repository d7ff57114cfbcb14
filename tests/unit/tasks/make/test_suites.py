"""Which tests of a tree are relied on, and which files are named and left out."""

import re
from collections.abc import Mapping

import pytest

from lego_rl.errors import TaskError
from lego_rl.tasks.make.running import TestRun
from lego_rl.tasks.make.suite import MOST_CULPRITS, find_suite
from lego_rl.tasks.make.tree import Tree


class Files:
    """Runs test files of one test each: a file passes, or ends or holds up every run that it is in."""

    def __init__(self, **files: str) -> None:
        self.files = {f"tests/test_{name}.py": how for name, how in files.items()}
        self.tree = Tree({"small.py": b"a = 1\n", **dict.fromkeys(self.files, b"")})
        self.commands: list[str] = []

    async def run(self, files: Mapping[str, bytes | None], command: str, timeout_sec: float) -> TestRun:
        self.commands.append(command)
        named = re.findall(r"tests/test_\w+\.py", command) or list(self.files)
        ends = {self.files[path] for path in named}
        if "hangs" in ends:
            return TestRun("timed_out", b"", "waiting", timeout_sec)
        if "exits" in ends:
            return TestRun("no_report", b"", "bye", 1.0)
        cases = "".join(
            f'<testcase classname="{path[:-3].replace("/", ".")}" name="test" time="0.1"/>' for path in named
        )
        return TestRun("completed", f"<testsuite>{cases}</testsuite>".encode(), "", 1.0)


@pytest.mark.parametrize(("how", "said"), [("hangs", "timed out: waiting"), ("exits", "no report: bye")])
async def test_one_file_that_ends_every_run_is_named_and_left_out(how: str, said: str) -> None:
    bench = Files(one="passes", odd=how, two="passes")
    suite = await find_suite(bench.tree, bench)
    assert suite.stable == {"tests/test_one.py::test", "tests/test_two.py::test"}
    assert suite.files == ("tests/test_one.py", "tests/test_two.py")
    assert suite.left_out == {"tests/test_odd.py": said}
    assert suite.tried["sealed"].startswith(f"{said}; file by file 2 tests passed, 1 files did not end")
    assert suite.tried["configured"].startswith("2 tests passed")
    assert sum("test_odd" in command for command in bench.commands) == 1


async def test_where_no_file_ends_the_reason_is_the_whole_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Files(**{f"a{number}": "exits" for number in range(3 * MOST_CULPRITS)})
    with pytest.raises(TaskError, match=r"no test of it passes \(sealed: no report: bye; configured: no report: bye\)"):
        await find_suite(bench.tree, bench)
    assert len(bench.commands) == 2 * (1 + MOST_CULPRITS)


async def test_files_that_all_end_are_run_together() -> None:
    bench = Files(one="passes", two="passes")
    suite = await find_suite(bench.tree, bench)
    assert (len(suite.stable), suite.left_out, len(bench.commands)) == (2, {}, 5)
