"""Converted rows in real sandboxes: the empty patch is 0 and the fix is 1, by the row's own command and log parser.

The rows are SYNTHETIC; their images are stood in for by a work tree and the host's programs, so that no conda
environment is there to activate and no `pip` to install with, as in a sandbox without a network.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from lego_rl.sandbox.verdict import Change, Patch, Verdict
from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.reports import Report, listing_parser
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.unified_diff import BaseFile, apply_diff
from lego_rl.tasks.validate.record import Listing, Lists
from tests.unit.tasks.convert.synthetic_rows import FAILS, PASSES, TREE, Row, classic, openswe, present, rebench

DOCKERFILE = b"FROM scratch\nWORKDIR /testbed\nCOPY repo/ ./\n"
PRINTED = f'print("PASSED {FAILS}\\nPASSED {PASSES}")\n'


@pytest.fixture(scope="session")
def bubblewrap(state: State) -> SandboxSettings:
    return SandboxSettings(state=state.root)


def task_of(form: str, row: Row) -> TaskDirectory:
    """The task of a row, with a work tree in place of its image."""
    task = format_named(form).convert(row)
    files = {"Dockerfile": DOCKERFILE, **{f"repo/{path}": content for path, content in TREE.items()}}
    environment = replace(task.environment, docker_image=None, files=files, memory_mb=1024)
    return replace(task, environment=environment, base_commit=None, grading_history="same")


def gold(task: TaskDirectory) -> Patch:
    assert task.solution is not None
    made = apply_diff(task.solution.patch, lambda path: BaseFile(TREE[path]) if path in TREE else None)
    return Patch(tuple(Change(file.path, "file", file.content or b"") for file in made))


async def graded(folder: Path, settings: SandboxSettings, *patches: Patch) -> list[Verdict]:
    task = Task.load_unlisted(folder)
    image = await asyncio.to_thread(
        provider_of(settings).prepare, folder / "environment", workdir=task.workdir, history=task.history
    )
    return [await grade(task, patch, image, timeout_sec=120) for patch in patches]


@pytest.mark.parametrize(
    ("form", "row"),
    [
        ("swebench", present(log_parser="parse_log_pytest")),
        ("swebench", classic()),
        ("swe-rebench", rebench()),
    ],
    ids=["present", "classic", "swe-rebench"],
)
async def test_the_empty_patch_is_0_and_the_fix_is_1(
    form: str, row: Row, tmp_path: Path, bubblewrap: SandboxSettings
) -> None:
    task = task_of(form, row)
    empty, fixed = await graded(task.write(tmp_path), bubblewrap, Patch(), gold(task))
    assert (empty.reward, empty.tests) == (0, {FAILS: "failed", PASSES: "passed"})
    assert (fixed.reward, fixed.tests) == (1, {FAILS: "passed", PASSES: "passed"})
    assert (empty.exit_status, fixed.exit_status) == (1, 0)


@pytest.mark.parametrize("end", ["import os; os._exit(3)", "raise SystemExit(0)", "raise SyntaxError"])
async def test_printed_passes_of_a_run_that_failed_are_none(
    end: str, tmp_path: Path, bubblewrap: SandboxSettings
) -> None:
    task = task_of("swebench", present(log_parser="parse_log_pytest"))
    forged = Patch((Change("src/calc.py", "file", f"{PRINTED}{end}\n".encode()),))
    (verdict,) = await graded(task.write(tmp_path), bubblewrap, forged)
    assert verdict.reward == 0 and "passed" not in verdict.tests.values()


async def test_a_row_without_lists_is_measured_and_then_graded(tmp_path: Path, bubblewrap: SandboxSettings) -> None:
    """OpenSWE: its script applied the fix to whatever it was given; what is left of it does not."""
    task = task_of("openswe", openswe())
    folder = task.write(tmp_path)
    empty, fixed = await graded(folder, bubblewrap, Patch(), gold(task))
    assert (empty.reward, fixed.reward) == (0, 0), "nobody knows yet which tests decide"
    found = [listing_parser("pytest-log").found(Report(one.report, one.exit_status)) for one in (empty, fixed)]
    assert found == [{FAILS: "failed", PASSES: "passed"}, {FAILS: "passed", PASSES: "passed"}]
    Listing(folder, Lists((FAILS,), (PASSES,), ())).keep()
    assert isinstance(Task.load(folder).tests, TestSpec)
    empty, fixed = await graded(folder, bubblewrap, Patch(), gold(task))
    assert (empty.reward, fixed.reward) == (0, 1)
