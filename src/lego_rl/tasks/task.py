"""A task: a Harbor task directory with Lego-RL's test specification."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.tasks.content import directory_digest
from lego_rl.tasks.history import History
from lego_rl.tasks.network import NO_NETWORK, Network, declared_network
from lego_rl.tasks.own_files import check_own
from lego_rl.tasks.provenance import Provenance
from lego_rl.tasks.reports import parser_named
from lego_rl.tasks.task_files import Config, read_config, read_spec, read_text
from lego_rl.tasks.test_patch import TEST_PATCH, deciding_files, patch_of, patched_paths
from lego_rl.tasks.withheld import withheld_files


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

    @cached_property
    def content_digest(self) -> str:
        """Of all that its directory holds, when it is first asked for.

        Raises:
            TaskError: A file cannot be read.
        """
        try:
            return directory_digest(self.path)
        except OSError as error:
            raise TaskError(f"task {self.id} cannot be read: {error}", "make its files readable by you") from error

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
        config = read_config(path / "task.toml")
        instruction = read_text(path / "instruction.md")
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
    return _history(path, read_config(path / "task.toml"), _read_spec(spec) if spec.is_file() else None)


def _network(config: Config, path: Path) -> Network:
    """What the tests may reach: as Harbor has it, the verifier's own word, else its environment's, else the task's."""
    verifier = config.verifier
    said = (verifier, verifier.environment, config.environment)
    reach = next((each for each in said if each.network_mode is not None), config.environment)
    try:
        return declared_network(reach.network_mode, reach.allowed_hosts or (), config.metadata.verifier_ports)
    except ValueError as error:
        raise TaskError(f"{path}: the network of its tests: {error}", "mend [verifier]") from error


def _read_tests(folder: Path, config: Config) -> TestSpec | TestScript:
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
    spec = TestSpec(**dict(read_spec(path)))
    if both := set(spec.fail_to_pass) & set(spec.pass_to_pass):
        raise TaskError(f"{path} has {min(both)} in FAIL_TO_PASS and in PASS_TO_PASS", "leave it in one of them")
    if alike := parser_named(spec.parser).ambiguous((*spec.fail_to_pass, *spec.pass_to_pass)):
        raise TaskError(
            f"{path}: a report cannot tell {' from '.join(alike)}",
            "rename one of the test files, or leave one test out",
        )
    return spec


def _history(path: Path, config: Config, spec: TestSpec | None) -> History:
    deciding = deciding_files(spec.test_files, spec.fail_to_pass) if spec is not None else frozenset()
    asked = config.metadata
    return History(asked.base_commit, asked.history, asked.grading_history, withheld_files(path, deciding))
