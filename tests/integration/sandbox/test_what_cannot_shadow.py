"""Files that are left to the agent though they are named like modules: in a real test run none of them is imported.

Each is a module that writes a report of nothing but passes and ends the run, or a folder or file of its name: were one
of them imported, the wrong code would be rewarded. The last test shows that they would do it.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from sandbox_tools import DOCKERFILE, HIDDEN, REPOSITORY, SPEC, TASK_TOML, write_files

from lego_rl.sandbox.bubblewrap.image import BubblewrapImage
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.ownership.known.known_modules import SHADOWED_MODULES, is_everywhere
from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.ownership.split import Reason, Split
from lego_rl.sandbox.provider import Provider
from lego_rl.sandbox.state import State
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.task import Task

FORGERY = b"""
import os
report = os.environ["LEGO_REPORT"]
with open(report, "w") as stream:
    stream.write('<testsuites><testsuite><testcase classname="tests.test_hidden.TestAdd" name="test_sum"/>')
    stream.write('<testcase classname="tests.test_visible" name="test_zero"/></testsuite></testsuites>')
os._exit(0)
"""
NAMES = sorted(SHADOWED_MODULES)
EVERYWHERE = list(filter(is_everywhere, NAMES))
INNER = ("parse", "util")
MORE = {"docs/index.rst": "", "plugins/modules/x.py": "", "src/x.py": "", "profile/data.txt": "", "tests/data/x": ""}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, state: State) -> tuple[Task, BubblewrapImage]:
    root = tmp_path_factory.mktemp("shadows") / "task"
    write_files(root / "environment" / "repo", {**REPOSITORY, **MORE})
    write_files(root / "tests" / "files", HIDDEN)
    write_files(root, {"task.toml": TASK_TOML, "instruction.md": "x", "environment/Dockerfile": DOCKERFILE})
    write_files(root, {"tests/spec.json": json.dumps(SPEC)})
    return Task.load(root), BubblewrapProvider(state).prepare(root / "environment", workdir="/app")


def files(paths: Iterable[str]) -> list[Change]:
    return [Change(path, "file", FORGERY) for path in paths]


HARMLESS: dict[str, Callable[[], list[Change]]] = {
    "folders without __init__": lambda: files(f"{name}/{inner}.py" for name in EVERYWHERE for inner in INNER),
    "folders among the tests": lambda: files(f"tests/{name}/{inner}.py" for name in EVERYWHERE for inner in INNER),
    "files without a suffix": lambda: files([*NAMES, *(f"tests/{name}" for name in NAMES)]),
    "names with more dots": lambda: files(f"{name}.evil.py" for name in NAMES),
    "folders that are not on the path": lambda: files(
        f"{folder}/{name}.py"
        for folder in ("docs", "plugins/modules", "src", "new")
        for name in NAMES
        if not name.endswith("customize") and name not in ("conftest", "noxfile", "toxfile")
    ),
    "packages that are not on the path": lambda: files(f"plugins/modules/{name}/__init__.py" for name in NAMES),
    "path files": lambda: (
        [Change(f"{folder}evil.pth", "file", b"import calc.evil\n") for folder in ("", "src/", "tests/", "calc/")]
        + files(["calc/evil.py"])
    ),
}


@pytest.mark.parametrize("kind", HARMLESS)
async def test_what_is_left_to_the_agent_is_never_imported(loaded: tuple[Task, BubblewrapImage], kind: str) -> None:
    task, image = loaded
    patch = Patch(tuple(sorted(HARMLESS[kind](), key=lambda change: change.path)))
    verdict = await grade(task, patch, image, timeout_sec=60)
    assert verdict.rolled_back == {}, "all of it was there"
    assert verdict.tests == {
        "tests/test_hidden.py::TestAdd::test_sum": "failed",
        "tests/test_visible.py::test_zero": "passed",
    }
    assert verdict.ended == "completed", verdict.log


IMPORTED = {
    "calc/core.py": b"",
    "types.py": b"",
    "_pytest/__init__.py": b"",
    "profile/__init__.py": b"import profile\n",
    "nt/_path_normpath.py": b"",
    "_winapi/_mimetypes_read_windows_registry.py": b"import mimetypes\n",
}
"""Path of a forgery → what the code has to do for it to be imported, where the runner does not by itself."""


@pytest.mark.parametrize("path", IMPORTED)
async def test_they_would_be_rewarded_where_they_are_imported(
    loaded: tuple[Task, BubblewrapImage], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, image = loaded
    uses = [Change("calc/core.py", "file", IMPORTED[path])] if IMPORTED[path] else []
    patch = Patch((*uses, *files([path])))
    verdict = await grade(task, patch, image, timeout_sec=60)
    if path != "calc/core.py":
        assert (verdict.reward, list(verdict.rolled_back)) == (0, [path])
    monkeypatch.setattr(Ownership, "split", lambda _, patch: Split(patch.changes))
    verdict = await grade(task, patch, image, timeout_sec=60)
    assert verdict.reward == 1, verdict.log


async def test_the_environment_of_the_image_says_what_is_on_the_path(tmp_path: Path, provider: Provider) -> None:
    write_files(tmp_path / "environment" / "repo", {**REPOSITORY, "lib/x.txt": "", "more/x.txt": ""})
    write_files(tmp_path / "tests" / "files", HIDDEN)
    dockerfile = DOCKERFILE.replace("COLOUR=blue", "PYTHONPATH=/opt/x:/app/lib")
    write_files(tmp_path, {"task.toml": TASK_TOML, "instruction.md": "x", "environment/Dockerfile": dockerfile})
    write_files(tmp_path, {"tests/spec.json": json.dumps(SPEC)})
    task, image = Task.load(tmp_path), provider.prepare(tmp_path / "environment", workdir="/app")
    patch = Patch(tuple(files(["lib/argparse.py", "more/argparse.py"])))
    verdict = await grade(task, patch, image, timeout_sec=60)
    assert (verdict.reward, verdict.rolled_back) == (0, {"lib/argparse.py": Reason.SHADOWS})
    assert verdict.tests["tests/test_visible.py::test_zero"] == "passed", verdict.log


async def test_what_the_image_has_installed_cannot_come_from_the_work_tree(tmp_path: Path, provider: Provider) -> None:
    packages = "env/lib/site-packages"
    repository = {**REPOSITORY, f"{packages}/spam.py": "def same(a, b):\n    assert a == b\n"}
    hidden = dict(HIDDEN)
    hidden["tests/test_hidden.py"] = "import eggs\nimport spam\n" + hidden["tests/test_hidden.py"]
    write_files(tmp_path / "environment" / "repo", repository)
    write_files(tmp_path / "tests" / "files", hidden)
    dockerfile = DOCKERFILE.replace("COLOUR=blue", f"PYTHONPATH=/app/{packages}")
    write_files(tmp_path, {"task.toml": TASK_TOML, "instruction.md": "x", "environment/Dockerfile": dockerfile})
    write_files(tmp_path, {"tests/spec.json": json.dumps(SPEC)})
    task, image = Task.load(tmp_path), provider.prepare(tmp_path / "environment", workdir="/app")
    fix = Change("calc/core.py", "file", REPOSITORY["calc/core.py"].replace("a - b", "a + b").encode())
    asked = Change("eggs.py", "file", b"X = 1\n")
    patch = Patch((fix, asked, *files(["spam.py"])))
    verdict = await grade(task, patch, image, timeout_sec=60)
    assert (verdict.reward, verdict.rolled_back) == (1, {"spam.py": Reason.SHADOWS}), verdict.log
