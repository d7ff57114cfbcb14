"""``swe-smith``: rows of SWE-smith, whose patch *makes* the bug in a mirror of the repository.

The fix is the patch turned round. The mirror's commit has no bug, so its history would be the fix: the environment's
recipe applies the bug, removes the patch and begins a history anew, and the agent sees one commit. The tests that fail
are part of the mirror and stay visible; they are the task's own, whatever an agent does to them, by their names in the
lists. (SWE-smith hides their files in a branch of the mirror that no image has.) A row whose bug lies in one of those
files cannot be solved and is refused.
"""

import re
import shlex

from pydantic import Field

from lego_rl.tasks.convert import harbor
from lego_rl.tasks.convert.assemble import (
    AGENT_SECONDS,
    TESTBED,
    HiddenTests,
    Tested,
    check_id,
    checked,
    environment,
    harbor_name,
    tests_part,
)
from lego_rl.tasks.convert.row import (
    CommitId,
    Fields,
    ImageName,
    Names,
    NamesIfAny,
    RawRow,
    Repository,
    RowError,
    Time,
    Word,
    diff_of,
    image_named,
    instruction,
    listed,
    pull_request_of,
    row_digest,
    with_end,
)
from lego_rl.tasks.convert.shell import MAX_COMMAND_BYTES, command_of, script_of
from lego_rl.tasks.convert.tables import smith
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.provenance import Provenance
from lego_rl.tasks.unified_diff import DiffError, reversed_diff

FORMAT = "swe-smith"
DATA_SOURCE = "SWE-bench/SWE-smith"
BUG = "bug.patch"

_DOCKERFILE = f"""\
FROM {{image}}
WORKDIR {TESTBED}
COPY {BUG} /tmp/lego-{BUG}
RUN git apply --whitespace=nowarn /tmp/lego-{BUG} && rm /tmp/lego-{BUG} && rm -rf .git && git init -q \\
    && git add -A && git -c user.name=lego-rl -c user.email=lego-rl@localhost commit -q -m base
"""


class _Row(Fields):
    instance_id: Word
    repo: Repository
    patch: Word
    problem_statement: Word
    image_name: ImageName
    base_commit: CommitId | None = None
    created_at: Time = ""
    fail_to_pass: Names = Field(default=(), alias="FAIL_TO_PASS")
    pass_to_pass: NamesIfAny = Field(default=None, alias="PASS_TO_PASS")


def convert(row: RawRow) -> TaskDirectory:
    """The task of a row.

    Raises:
        RowError: It cannot become one; the message says why.
    """
    fields = _Row.read(row)
    before, after = listed(fields.fail_to_pass, fields.pass_to_pass)
    mirror = fields.repo.partition("/")[2]
    if not fields.repo.startswith("swesmith/") or re.fullmatch(r".+__.+\.[0-9a-f]{8}", mirror) is None:
        raise RowError(f"{fields.repo!r} is no mirror of SWE-smith's")
    bug = with_end(fields.patch)
    changed = {path for file in diff_of(fields.patch, "patch") for path in file.paths}
    if shared := changed & {test.partition("::")[0] for test in before}:
        raise RowError(f"its bug lies in {min(shared)}, which holds a FAIL_TO_PASS test: nobody could mend it")
    try:
        gold = reversed_diff(bug)
    except DiffError as error:
        raise RowError(f"its patch {error}") from error
    image = image_of(fields.image_name)
    tested = Tested(before, after, command_of(_script(smith(mirror), before, after)), "pytest-log")
    recipe = {"Dockerfile": _DOCKERFILE.format(image=image).encode(), BUG: bug}
    source = Provenance(
        format=FORMAT,
        instance_id=fields.instance_id,
        data_source=DATA_SOURCE,
        repo=fields.repo,
        base_commit=fields.base_commit or "",
        pull_request=pull_request_of(row, fields.instance_id),
        created_at=fields.created_at,
        image=image,
        row_sha256=row_digest(row),
        unmeasured=("image", "tests"),
    )
    return checked(
        TaskDirectory(
            id=check_id(fields.instance_id),
            name=harbor_name(source),
            description=f"A bug in {upstream(mirror)}",
            instruction=instruction(fields.problem_statement),
            environment=environment(TESTBED, files=recipe),
            tests=tests_part(tested, TESTBED, bring=harbor.NOTHING, hidden=HiddenTests()),
            solution=harbor.solution(gold, TESTBED),
            repo=upstream(mirror),
            history="single-commit",
            source=source,
            agent_timeout_sec=AGENT_SECONDS,
        )
    )


def upstream(mirror: str) -> str:
    """The repository that a mirror is of: ``owner__name.12345678`` is ``owner/name``."""
    return mirror.rpartition(".")[0].replace("__", "/", 1)


def image_of(name: str) -> str:
    """An image as the registry has it; rows name it with or without its owner, and with double underscores."""
    path = name if "/" in name else f"jyangballin/{name}"
    return image_named(path.replace("__", "_1776_").lower())


def _script(command: str, before: tuple[str, ...], after: tuple[str, ...]) -> str:
    """The command on the files of both lists; on everything where they are too many for a command."""
    files = sorted({test.partition("::")[0] for test in (*before, *after)})
    run = " ".join([command, *map(shlex.quote, files)])
    return script_of(tests=(run if len(run) < MAX_COMMAND_BYTES // 2 else command,), workdir=TESTBED)
