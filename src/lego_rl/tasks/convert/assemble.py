"""The task directory of a row, once its format has said what the environment is and how the tests run."""

from dataclasses import dataclass

from lego_rl.errors import TaskError
from lego_rl.tasks.convert import harbor
from lego_rl.tasks.convert.diff_tests import touched
from lego_rl.tasks.convert.row import RawRow, RowError, SweRow, diff_of, instruction, provenance, refused, with_end
from lego_rl.tasks.directory import EnvironmentPart, TaskDirectory, TestsPart
from lego_rl.tasks.history import AgentHistory, GradingHistory
from lego_rl.tasks.provenance import Unmeasured
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


def swe_task(
    form: str,
    row: RawRow,
    fields: SweRow,
    tested: Tested,
    place: EnvironmentPart,
    *,
    image: str,
    data_source: str = "",
    licence: str = "",
    issue: str | None = None,
    history: AgentHistory = "reachable",
    grading_history: GradingHistory = "tags",
    unmeasured: tuple[Unmeasured, ...] = ("image", "tests"),
) -> TaskDirectory:
    """The task of a row whose hidden tests are a patch of the image's work tree.

    Args:
        form: Name of the format.
        row: As its file has it.
        fields: What it says.
        tested: How its tests run.
        place: Where the agent works.
        image: The image's name, for the record.
        data_source: The set, where rows of the format are of one.
        licence: Of the repository.
        issue: What the agent is told; the problem statement by default.
        history: How much of its history the agent sees.
        grading_history: How much the tests see; tags of the past, from which packages read their version.
        unmeasured: What nobody here has seen.

    Raises:
        RowError: One of its patches cannot be used, or the directory cannot be made.
    """
    check_parser(tested.parser)
    hidden = diff_of(fields.test_patch, "test_patch")
    diff_of(fields.patch, "patch")
    tests = TestsPart(
        tested.fail_to_pass,
        tested.pass_to_pass,
        tested.command,
        tested.parser,
        harbor.test_script(tested.command, place.workdir, bring=harbor.by_patch(fields.base_commit, hidden)),
        patch=with_end(fields.test_patch),
        patched=touched(hidden),
        support=harbor.judge_files(),
        timeout_sec=VERIFIER_SECONDS,
    )
    return checked(
        TaskDirectory(
            id=check_id(fields.instance_id),
            name=harbor_name(form, fields.instance_id),
            description=f"An issue of {fields.repo}",
            instruction=instruction(fields.problem_statement if issue is None else issue),
            environment=place,
            tests=tests,
            solution=harbor.solution(with_end(fields.patch), place.workdir),
            repo=fields.repo,
            base_commit=fields.base_commit,
            history=history,
            grading_history=grading_history,
            source=provenance(
                form, row, fields, image=image, data_source=data_source, licence=licence, unmeasured=unmeasured
            ),
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


def harbor_name(form: str, instance: str) -> str:
    """Harbor's name of a task."""
    return f"{form}/{instance}"


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
