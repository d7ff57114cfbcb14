"""The task that sandboxes are measured with: a repository of realistic size, a change to it, tests that are trivial.

Invariant: the same bytes in every run, so figures of two machines or two days are of the same work.
"""

import json
import random
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dulwich import porcelain

from lego_rl.tasks.task import Task

WORKDIR = "/app"
FILES_PER_FOLDER = 30
WHO = b"Nobody <nobody@example.com>"
DAY = 24 * 3600
LINES = (20, 220)
"""Fewest and most lines of a file."""
HIDDEN_TEST = "tests/test_change.py"
CHANGE = (
    "for n in 1 4 9 16 25; do echo '# changed' >> src/part00/module$n.py; done; "
    "mkdir -p src/extra && echo 'VALUE = 1' > src/extra/new.py; rm src/part01/module31.py; "
    "mv src/part02/module61.py src/part02/renamed.py; mkdir -p src/__pycache__ && echo x > src/__pycache__/m.pyc"
)
"""What stands for an agent's work: edits, a new file, a deletion, a rename, byte code."""
CHANGED_PATHS = 9
"""Paths of the patch that `CHANGE` makes: a rename is two."""

_TASK_TOML = """\
schema_version = "1.4"

[metadata]
grader = "tests"
family = "benchmark"

[environment]
workdir = "/app"
network_mode = "no-network"
memory_mb = 1024
storage_mb = 256
"""


@dataclass(frozen=True)
class TaskSize:
    """How large the repository is.

    Attributes:
        files: Python files of the work tree.
        commits: Of its history, the first with all files, each further one with a change to one of them.
    """

    files: int = 1500
    commits: int = 50


def write_task(folder: Path, size: TaskSize) -> Task:
    """Write the task's folder and read it back."""
    repository = folder / "environment" / "repo"
    draw = random.Random(0)
    for number in range(size.files):
        path = repository / f"src/part{number // FILES_PER_FOLDER:02d}/module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_module(draw, number))
    _write_history(repository, size, draw)
    spec = {
        "FAIL_TO_PASS": [f"{HIDDEN_TEST}::test_change"],
        "PASS_TO_PASS": [],
        "command": "true",
        "parser": "pytest-junit",
        "test_files": [HIDDEN_TEST],
    }
    files = {
        "task.toml": _TASK_TOML,
        "instruction.md": "Change something.\n",
        "tests/spec.json": json.dumps(spec),
        f"tests/files/{HIDDEN_TEST}": "def test_change():\n    assert True\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Task.load(folder)


def _write_history(repository: Path, size: TaskSize, draw: random.Random) -> None:
    with closing(porcelain.init(repository)) as repo:
        porcelain.add(repo, [str(path) for path in sorted(repository.rglob("*.py"))])
        for number in range(size.commits):
            if number:
                changed = draw.choice(sorted(repository.rglob("*.py")))
                changed.write_text(f"{changed.read_text()}LATER_{number} = {draw.getrandbits(64)}\n")
                porcelain.add(repo, [str(changed)])
            porcelain.commit(
                repo,
                message=f"Change {number}".encode(),
                author=WHO,
                committer=WHO,
                author_timestamp=DAY * number,
                commit_timestamp=DAY * number,
                author_timezone=0,
                commit_timezone=0,
            )


def _module(draw: random.Random, number: int) -> str:
    lines = [f'"""Module {number}."""\n']
    for line in range(draw.randint(*LINES)):
        lines.append(f"VALUE_{number}_{line} = {draw.getrandbits(64)}  # {draw.getrandbits(32):08x}\n")
    return "".join(lines)
