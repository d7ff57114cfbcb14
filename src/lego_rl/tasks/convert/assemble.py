"""The task directory of a row, once its format has said what the environment is and how the tests run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lego_rl.errors import TaskError
from lego_rl.tasks.convert import harbor
from lego_rl.tasks.convert.diff_tests import touched
from lego_rl.tasks.convert.row import RowError, SweRow, diff_of, instruction, refused, with_end
from lego_rl.tasks.directory import EnvironmentPart, TaskDirectory, TestsPart
from lego_rl.tasks.provenance import Provenance
from lego_rl.tasks.reports import PARSERS
from lego_rl.tasks.task_id import fault_of_id

TESTBED = "/testbed"
"""Where SWE-bench's images and their descendants have the repository."""
MEMORY_MB, STORAGE_MB = 8192, 20480
AGENT_SECONDS, VERIFIER_SECONDS = 1800.0, 2400.0
"""The tests get three quarters of the latter: the half hour of swebench's own harness."""
BUILD_SECONDS = 3600.0


@dataclass(frozen=True)
class Tested:
    """How the tests of a row run.

    Attributes:
        fail_to_pass: Test ids.
        pass_to_pass: Test ids.
        command: Of the specification.
        parser: Of the specification.
    """

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    command: str
    parser: str


@dataclass(frozen=True)
class HiddenTests:
    """Tests that an agent does not see: as files, as a patch, or none where the image has them.

    Attributes:
        files: Path in the work tree → content.
        patch: A unified diff against the image's work tree.
        patched: The paths that it makes, changes or deletes.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    patch: bytes | None = None
    patched: tuple[str, ...] = ()


def environment(workdir: str, *, image: str | None = None, files: dict[str, bytes] | None = None) -> EnvironmentPart:
    """What a repository of a data set is given."""
    return EnvironmentPart(
        workdir,
        files or {},
        docker_image=image,
        cpus=2,
        memory_mb=MEMORY_MB,
        storage_mb=STORAGE_MB,
        build_timeout_sec=None if files is None else BUILD_SECONDS,
    )


def tests_part(tested: Tested, workdir: str, *, bring: str, hidden: HiddenTests) -> TestsPart:
    """``tests/`` of a row's task, with what stock Harbor runs.

    Args:
        tested: How they run.
        workdir: Where.
        bring: Shell commands that bring the hidden tests, for stock Harbor.
        hidden: The hidden tests.
    """
    return TestsPart(
        tested.fail_to_pass,
        tested.pass_to_pass,
        tested.command,
        tested.parser,
        harbor.test_script(tested.command, workdir, bring=bring),
        files=hidden.files,
        patch=hidden.patch,
        patched=hidden.patched,
        support=harbor.judge_files(),
        timeout_sec=VERIFIER_SECONDS,
    )


def swe_task(
    fields: SweRow,
    tested: Tested,
    place: EnvironmentPart,
    source: Provenance,
    *,
    issue: str | None = None,
) -> TaskDirectory:
    """The task of a row whose hidden tests are a patch of the image's work tree.

    The tests see the tags of the past, from which packages read their version.

    Args:
        fields: What the row says.
        tested: How its tests run.
        place: Where the agent works.
        source: Where the row comes from.
        issue: What the agent is told; the problem statement by default.

    Raises:
        RowError: One of its patches cannot be used, or the directory cannot be made.
    """
    check_parser(tested.parser)
    hidden = diff_of(fields.test_patch, "test_patch")
    diff_of(fields.patch, "patch")
    tests = tests_part(
        tested,
        place.workdir,
        bring=harbor.by_patch(fields.base_commit, hidden),
        hidden=HiddenTests(patch=with_end(fields.test_patch), patched=touched(hidden)),
    )
    return checked(
        TaskDirectory(
            id=check_id(fields.instance_id),
            name=harbor_name(source),
            description=f"An issue of {fields.repo}",
            instruction=instruction(fields.problem_statement if issue is None else issue),
            environment=place,
            tests=tests,
            solution=harbor.solution(with_end(fields.patch), place.workdir),
            repo=fields.repo,
            base_commit=fields.base_commit,
            grading_history="tags",
            source=source,
            agent_timeout_sec=AGENT_SECONDS,
        )
    )


def check_parser(name: str) -> None:
    """Whether there is a report parser of a name; the package that it may need is no matter here.

    Raises:
        RowError: There is none.
    """
    if name not in PARSERS:
        raise RowError(f"there is no log parser {name.partition(':')[2] or name}")


def check_id(instance: str) -> str:
    """An instance's id, as the name of its directory.

    Raises:
        RowError: It cannot be one.
    """
    if fault := fault_of_id(instance):
        raise RowError(f"its id {fault}")
    return instance


def harbor_name(source: Provenance) -> str:
    """Harbor's name of a task."""
    return f"{source.format}/{source.instance_id}"


def checked(task: TaskDirectory) -> TaskDirectory:
    """A task whose files can all be written.

    Raises:
        RowError: One cannot.
    """
    try:
        task.files()
    except TaskError as error:
        raise refused(error) from error
    except UnicodeEncodeError as error:
        raise RowError(f"a text of it is none: {error}") from error
    return task
