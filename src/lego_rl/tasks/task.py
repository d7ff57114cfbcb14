"""A task: a Harbor task directory with Lego-RL's test specification."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from lego_rl.errors import TaskError
from lego_rl.tasks import written
from lego_rl.tasks.history import AgentHistory, GradingHistory, History
from lego_rl.tasks.network import NO_NETWORK, PORTS, Network, declared_network
from lego_rl.tasks.own_files import check_own
from lego_rl.tasks.provenance import DeclaredSource, Provenance
from lego_rl.tasks.reports import parser_named
from lego_rl.tasks.test_patch import TEST_PATCH, deciding_files, patch_of, patched_paths
from lego_rl.tasks.withheld import withheld_files

LEAST_MEMORY_MB = 32
"""In less of it the first process of a sandbox does not start."""


@dataclass(frozen=True)
class TestSpec:
    """``tests/spec.json``: which tests decide, and how they are run and read.

    Attributes:
        fail_to_pass: Test ids that fail before the fix and must pass after it.
        pass_to_pass: Test ids that pass before and must still pass.
        command: Shell command run in the work directory; it writes its report where ``$LEGO_REPORT`` says.
        parser: Name of the report parser (`lego_rl.tasks.reports`).
        test_files: Paths relative to the work directory that are the task's own, whatever the patch says;
            their content is in ``tests/files/``, or what ``tests/test.patch`` makes of the work tree.
    """

    __test__ = False

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    command: str
    parser: str
    test_files: tuple[str, ...]


@dataclass(frozen=True)
class TestScript:
    """``tests/test.sh`` of a Harbor task without Lego-RL's specification: what it reports is the reward."""

    __test__ = False


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        id: Unique within a pool; the directory's name.
        path: The Harbor task directory.
        instruction: What the harness is told.
        family: Kind of bug, for built-in tasks; the repository's name for others.
        workdir: Absolute path of the repository inside the sandbox.
        tests: The test specification, or the task's own script.
        agent_timeout_sec: Wall-clock limit of the agent phase.
        memory_mb: Memory limit of the sandbox, in MiB.
        storage_mb: The same for what a trial may change, where the task sets one.
        split: Which split of its pool it belongs to.
        history: How much of its git history it shows, and when.
        network: What its tests may reach; an agent never has a network.
        test_env: Environment variables of the tests.
        editable: Files and folders of the work tree that are the agent's to change though grading would keep them.
        visible: Files of the task directory that agents may see though they are tests or part of the solution.
        docker_image: The image that it names instead of bringing a Dockerfile.
        source: Where it comes from, if it says so.
    """

    id: str
    path: Path
    instruction: str
    family: str
    workdir: str
    tests: TestSpec | TestScript
    agent_timeout_sec: float
    memory_mb: int
    storage_mb: int | None = None
    split: str = "default"
    history: History = field(default_factory=History)
    network: Network = NO_NETWORK
    test_env: Mapping[str, str] = field(default_factory=dict, hash=False)
    editable: tuple[str, ...] = ()
    docker_image: str | None = None
    visible: tuple[str, ...] = ()
    source: Provenance | None = None

    @classmethod
    def load(cls, path: Path) -> "Task":
        """Read a task directory.

        Raises:
            TaskError: A file is missing or says something impossible; the message names it.
            ExtraError: What reads its reports is not installed.
        """
        task = cls.load_unlisted(path)
        if not isinstance(task.tests, TestSpec):
            return task
        parser_named(task.tests.parser).check_usable()
        if task.source is not None and "lists" in task.source.unmeasured:
            raise TaskError(
                f"which tests decide over task {task.id} is not known yet",
                "find out with: lego-rl tasks validate --record",
            )
        if not task.tests.fail_to_pass:
            raise TaskError(
                f"{path / 'tests' / 'spec.json'} names no FAIL_TO_PASS test",
                "a task without a failing test cannot be graded",
            )
        return task

    @classmethod
    def load_unlisted(cls, path: Path) -> "Task":
        """Likewise, but for a task that need not be gradable here: which tests fail before the fix and pass after it
        may be unknown yet, and what reads its reports not be installed.

        Raises:
            TaskError: As `load`, but for these two.
        """
        check_own(path)
        config = _read_config(path / "task.toml")
        instruction = _read_text(path / "instruction.md")
        if "\0" in instruction:
            raise TaskError(f"{path / 'instruction.md'} has a null character", "remove it: no program can be given it")
        tests = _read_tests(path / "tests", config)
        if not (path / "environment").is_dir():
            raise TaskError(
                f"task {path.name} has no environment/ folder", "add environment/ with the repository or a Dockerfile"
            )
        return cls(
            id=path.name,
            path=path,
            instruction=instruction,
            family=config.metadata.family or config.metadata.repo or "unknown",
            workdir=config.environment.workdir,
            tests=tests,
            agent_timeout_sec=config.agent.timeout_sec,
            memory_mb=config.environment.memory_mb,
            storage_mb=config.environment.storage_mb,
            split=config.metadata.split,
            history=_history(path, config, tests if isinstance(tests, TestSpec) else None),
            network=_network(config, path / "task.toml"),
            test_env=config.verifier.env,
            editable=config.metadata.editable,
            docker_image=config.environment.docker_image,
            visible=config.metadata.visible,
            source=config.metadata.source,
        )


def history_of(path: Path) -> History:
    """What a task directory says of its git history; one that need not have Lego-RL's test specification.

    Raises:
        TaskError: It says something impossible.
    """
    if not (path / "task.toml").is_file():
        return History()
    spec = path / "tests" / "spec.json"
    return _history(path, _read_config(path / "task.toml"), _read_spec(spec) if spec.is_file() else None)


class _Metadata(BaseModel):
    family: str = ""
    grader: str = ""
    editable: tuple[Annotated[str, AfterValidator(written.plain)], ...] = ()
    visible: tuple[Annotated[str, AfterValidator(written.plain)], ...] = ()
    repo: str = ""
    split: str = "default"
    base_commit: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    source: DeclaredSource = None
    history: AgentHistory = "reachable"
    grading_history: GradingHistory = "same"
    verifier_ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = PORTS


class _Agent(BaseModel):
    timeout_sec: float = Field(default=600.0, gt=0)


class _Reach(BaseModel):
    network_mode: str | None = None
    allowed_hosts: tuple[str, ...] | None = None


type _Name = Annotated[str, AfterValidator(written.variable)]
type _Value = Annotated[str, AfterValidator(written.literal)]


class _Verifier(_Reach):
    env: dict[_Name, _Value] = Field(default_factory=dict)
    environment: _Reach = _Reach()


class _Environment(_Reach):
    workdir: Annotated[str, AfterValidator(written.folder)] = "/app"
    docker_image: Annotated[str, AfterValidator(written.passable)] | None = None
    memory_mb: int = Field(default=2048, ge=LEAST_MEMORY_MB)
    storage_mb: int | None = Field(default=None, gt=0)


class _Config(BaseModel):
    """What Lego-RL reads of a ``task.toml``; Harbor reads the rest."""

    metadata: Annotated[_Metadata, BeforeValidator(written.spelt)] = _Metadata()
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    environment: _Environment = _Environment()


type _Word = Annotated[str, Field(min_length=1), AfterValidator(written.passable)]


class _Spec(BaseModel):
    """``tests/spec.json`` as it is written."""

    fail_to_pass: tuple[_Word, ...] = Field(alias="FAIL_TO_PASS")
    pass_to_pass: tuple[_Word, ...] = Field(alias="PASS_TO_PASS")
    command: _Word
    parser: _Word
    test_files: tuple[Annotated[str, AfterValidator(written.plain)], ...]


def _read_text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is no regular file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(
            f"cannot read {path}: {error}",
            "a task directory needs task.toml, instruction.md, environment/ and tests/spec.json or tests/test.sh",
        ) from error


def _read_config(path: Path) -> _Config:
    try:
        return _Config.model_validate(tomllib.loads(_read_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise TaskError(f"{path} is not valid TOML: {error}", "mend the file") from error
    except ValidationError as error:
        raise TaskError(f"{path}: {_first(error)}", "mend the file") from error


def _network(config: _Config, path: Path) -> Network:
    """What the tests may reach: as Harbor has it, the verifier's own word, else its environment's, else the task's."""
    verifier = config.verifier
    said = (verifier, verifier.environment, config.environment)
    reach = next((each for each in said if each.network_mode is not None), config.environment)
    try:
        return declared_network(reach.network_mode, reach.allowed_hosts or (), config.metadata.verifier_ports)
    except ValueError as error:
        raise TaskError(f"{path}: the network of its tests: {error}", "mend [verifier]") from error


def _read_tests(folder: Path, config: _Config) -> TestSpec | TestScript:
    """What decides: Lego-RL's specification, or, where there is none, the script that every Harbor task has."""
    file = folder / "spec.json"
    if not file.exists() and config.metadata.grader != "tests" and (folder / "test.sh").is_file():
        return TestScript()
    spec = _read_spec(file)
    patch = patch_of(folder.parent)
    if patch is not None:
        _check_patch(patch, spec)
    for name in spec.test_files:
        if patch is None and not (folder / "files" / name).is_file():
            raise TaskError(
                f"task {folder.parent.name} has no tests/files/{name}, which tests/spec.json names",
                "add the hidden test",
            )
        if any(f"{name}/".startswith(f"{place}/") for place in config.metadata.editable):
            raise TaskError(
                f"task {folder.parent.name} leaves its test file {name} to the agent", "mend editable in [metadata]"
            )
    return spec


def _check_patch(patch: Path, spec: TestSpec) -> None:
    if (patch.parent / "files").exists():
        raise TaskError(f"{patch.parent} has hidden tests in files/ and in {TEST_PATCH}", "leave one of them")
    if differing := set(patched_paths(patch)) ^ set(spec.test_files):
        raise TaskError(
            f"{patch} and test_files in spec.json differ on {min(differing)}", "name all files of the patch"
        )


def _read_spec(path: Path) -> TestSpec:
    try:
        spec = _Spec.model_validate(json.loads(_read_text(path)))
    except (json.JSONDecodeError, RecursionError, ValidationError) as error:
        said = _first(error) if isinstance(error, ValidationError) else repr(error)
        raise TaskError(
            f"{path} is not a test specification: {said}",
            "it needs FAIL_TO_PASS, PASS_TO_PASS and test_files (lists of text), command and parser",
        ) from error
    if both := set(spec.fail_to_pass) & set(spec.pass_to_pass):
        raise TaskError(f"{path} has {min(both)} in FAIL_TO_PASS and in PASS_TO_PASS", "leave it in one of them")
    if alike := parser_named(spec.parser).ambiguous((*spec.fail_to_pass, *spec.pass_to_pass)):
        raise TaskError(
            f"{path}: a report cannot tell {' from '.join(alike)}",
            "rename one of the test files, or leave one test out",
        )
    return TestSpec(**dict(spec))


def _history(path: Path, config: _Config, spec: TestSpec | None) -> History:
    deciding = deciding_files(spec.test_files, spec.fail_to_pass) if spec is not None else frozenset()
    asked = config.metadata
    return History(asked.base_commit, asked.history, asked.grading_history, withheld_files(path, deciding))


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
