"""The one writer of Harbor task directories: a task in typed fields, and the files that they become.

Invariant: a directory is whole or not there, whatever happens to this process, and the same fields give the same bytes
on every machine. Every path in it is plain and lies below it, whoever chose the names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tomli_w

from lego_rl.errors import TaskError
from lego_rl.tasks.history import AgentHistory, GradingHistory
from lego_rl.tasks.provenance import Provenance
from lego_rl.tasks.staging import stage, written
from lego_rl.tasks.task_id import fault_of_id

MAX_PATH_BYTES, MAX_NAME_BYTES = 1_024, 255

type TomlValue = str | int | float | list[str] | list[int] | dict[str, TomlValue]


@dataclass(frozen=True)
class EnvironmentPart:
    """``[environment]`` of a ``task.toml``, and the folder of that name.

    Attributes:
        workdir: Absolute path of the repository inside the sandbox.
        files: Path below ``environment/`` → content.
        docker_image: The image that the sandbox starts from, where no Dockerfile makes one.
        cpus: Processors that stock Harbor is asked for.
        memory_mb: Memory limit, in MiB.
        storage_mb: Disk limit, in MiB.
        build_timeout_sec: Seconds that stock Harbor gives an image build; its own default where ``None``.
    """

    workdir: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    docker_image: str | None = None
    cpus: int = 1
    memory_mb: int = 2048
    storage_mb: int = 1024
    build_timeout_sec: float | None = None

    def table(self) -> dict[str, TomlValue]:
        """``[environment]``. An agent never has a network."""
        table: dict[str, TomlValue] = {"workdir": self.workdir, "network_mode": "no-network"}
        if self.docker_image is not None:
            table["docker_image"] = self.docker_image
        if self.build_timeout_sec is not None:
            table["build_timeout_sec"] = self.build_timeout_sec
        return table | {"cpus": self.cpus, "memory_mb": self.memory_mb, "storage_mb": self.storage_mb}


@dataclass(frozen=True)
class TestsPart:
    """What decides: ``tests/`` and ``[verifier]``.

    Attributes:
        fail_to_pass: Test ids that fail before the fix and must pass after it; empty where they are not measured yet.
        pass_to_pass: Test ids that pass before and must still pass.
        command: Shell command run in the work directory; it writes its report where ``$LEGO_REPORT`` says.
        parser: Name of the report parser (`lego_rl.tasks.reports`).
        script: ``tests/test.sh``, for stock Harbor.
        files: Hidden tests: path in the work tree → content. Not both these and a `patch`.
        patch: A unified diff against the image's work tree that makes the hidden tests (`lego_rl.tasks.test_patch`).
        patched: The paths that `patch` makes, changes or deletes, in the work tree.
        support: Other files of ``tests/``, for `script`: path below ``tests/`` → content.
        env: Environment variables of the tests.
        timeout_sec: Seconds that Harbor gives the verifier; the tests get at most three quarters of them.
    """

    __test__ = False

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    command: str
    parser: str
    script: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    patch: bytes | None = None
    patched: tuple[str, ...] = ()
    support: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_sec: float = 60.0

    def specification(self) -> bytes:
        """``tests/spec.json``."""
        spec = {
            "FAIL_TO_PASS": self.fail_to_pass,
            "PASS_TO_PASS": self.pass_to_pass,
            "command": self.command,
            "parser": self.parser,
            "test_files": sorted((*self.files, *self.patched)),
        }
        return f"{json.dumps(spec, indent=2)}\n".encode()


@dataclass(frozen=True)
class SolutionPart:
    """``solution/``: what nobody but validation and stock Harbor's oracle sees.

    Attributes:
        patch: ``gold.patch``, a unified diff against the work tree.
        script: ``solve.sh``.
        files: The fixed files, where they are known: path in the work tree → content.
    """

    patch: bytes
    script: str
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskDirectory:
    """A Harbor task with Lego-RL's test specification, in memory.

    Attributes:
        id: The directory's name.
        name: Harbor's name, ``organisation/task``.
        description: One line.
        instruction: What the harness is told.
        environment: Where the agent works.
        tests: What decides.
        solution: The fix; ``None`` where there is none.
        family: Kind of bug, or group of the report.
        split: Which split of its pool it belongs to.
        repo: The repository's name, ``owner/name`` where it is known.
        base_commit: Full id of the commit that the agent starts from.
        history: How much of its git history the agent sees.
        grading_history: How much the tests see.
        source: Where it comes from.
        agent_timeout_sec: Seconds of the agent phase.
    """

    id: str
    name: str
    description: str
    instruction: str
    environment: EnvironmentPart
    tests: TestsPart
    solution: SolutionPart | None = None
    family: str = ""
    split: str = ""
    repo: str = ""
    base_commit: str | None = None
    history: AgentHistory = "reachable"
    grading_history: GradingHistory = "same"
    source: Provenance | None = None
    agent_timeout_sec: float = 300.0

    def files(self) -> dict[str, bytes]:
        """Every file: path in the directory → content.

        Raises:
            TaskError: The id or a path is none that a directory can have, or hidden tests are given twice.
        """
        if fault := fault_of_id(self.id):
            raise TaskError(f"the id {fault}", "give the task another id")
        if self.tests.files and self.tests.patch is not None:
            raise TaskError(f"task {self.id} brings its hidden tests as files and as a patch", "leave one of them")
        files = {
            "task.toml": tomli_w.dumps(self._config()).encode(),
            "instruction.md": self.instruction.encode(),
            "tests/spec.json": self.tests.specification(),
            "tests/test.sh": self.tests.script.encode(),
            **_below("environment", self.environment.files),
            **_below("tests", self.tests.support),
            **_below("tests/files", self.tests.files),
        }
        if self.tests.patch is not None:
            files["tests/test.patch"] = self.tests.patch
        if self.solution is not None:
            files |= {"solution/solve.sh": self.solution.script.encode(), "solution/gold.patch": self.solution.patch}
            files |= _below("solution/files", self.solution.files)
        folders = {"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)}
        for path in files:
            if not _is_plain(path) or path in folders:
                raise TaskError(f"task {self.id} has a file called {path[:200]!r}", "name a path below the work tree")
        return files

    def stage(self, pool: Path) -> Path:
        """Write the directory into a folder of its own below `pool`, named so that anyone can tell whose it is.

        Returns:
            The directory; whoever takes it away removes the folder that it is in, and `remove_leftovers` does where
            nobody is left to (`lego_rl.tasks.staging`).

        Raises:
            TaskError: As `files`.
            OSError: The disk does not take it.
        """
        return stage(self.files(), pool)

    def write(self, pool: Path) -> Path:
        """Write the directory below `pool`, all of it or nothing, and return it.

        Raises:
            TaskError: As `files`, or there is one of that name.
            OSError: The disk does not take it.
        """
        files = self.files()
        root = pool / self.id
        if root.exists():
            raise TaskError(f"there is a task in {root}", "remove it first, or name another folder")
        with written(files, pool) as unfinished:
            unfinished.rename(root)
        return root

    def replace(self, pool: Path) -> Path:
        """Write the directory in place of the one that is there, if there is one; for a moment there is neither.

        Raises:
            TaskError: As `files`.
            OSError: The disk does not take it.
        """
        files = self.files()
        root = pool / self.id
        with written(files, pool) as unfinished:
            if root.exists():
                root.rename(unfinished.with_name("replaced"))
            unfinished.rename(root)
        return root

    def _config(self) -> dict[str, TomlValue]:
        """``task.toml``; what says nothing that Harbor and Lego-RL would not assume is left out."""
        metadata: dict[str, TomlValue] = {"grader": "tests"}
        said = {"family": self.family, "repo": self.repo, "split": self.split, "base_commit": self.base_commit or ""}
        metadata |= {key: value for key, value in said.items() if value}
        if self.history != "reachable":
            metadata["history"] = self.history
        if self.grading_history != "same":
            metadata["grading_history"] = self.grading_history
        if self.source is not None:
            metadata["source"] = self.source.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        verifier: dict[str, TomlValue] = {"timeout_sec": self.tests.timeout_sec}
        if self.tests.env:
            verifier["env"] = dict(self.tests.env)
        return {
            "schema_version": "1.4",
            "task": {"name": self.name, "description": self.description},
            "metadata": metadata,
            "agent": {"timeout_sec": self.agent_timeout_sec, "network_mode": "no-network"},
            "verifier": verifier,
            "environment": self.environment.table(),
        }


def _below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{path}": content for path, content in files.items()}


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return (
        "\0" not in path
        and {"", ".", ".."}.isdisjoint(parts)
        and len(path.encode(errors="replace")) <= MAX_PATH_BYTES
        and max(len(part.encode(errors="replace")) for part in parts) <= MAX_NAME_BYTES
    )
