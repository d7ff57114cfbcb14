"""``r2e-gym``: rows of R2E-Gym, which are commits: no id, no lists, no patch in one piece, and no owner's name.

The hidden tests lie in the row and in the image; the recipe of the environment removes them from the latter, with the
history, which may hold the fix. FAIL_TO_PASS and PASS_TO_PASS are found by comparing what the row expects with what it
records of the run before the fix; where it records none that can be read, they are unknown, and ``lego-rl tasks
validate --record`` finds them. R2E-Gym asks for the whole map of statuses to be equal; here what it expects to pass has
to pass. ``prompt``, ``modified_files``, ``relevant_files`` and ``modified_entity_summaries`` say where the fix is, and
are read by nobody.
"""

import re
from typing import Annotated

from pydantic import BeforeValidator, ValidationError

from lego_rl.tasks.convert import harbor
from lego_rl.tasks.convert.assemble import (
    AGENT_SECONDS,
    TESTBED,
    VERIFIER_SECONDS,
    check_id,
    checked,
    environment,
    harbor_name,
)
from lego_rl.tasks.convert.row import (
    CommitId,
    Fields,
    ImageName,
    OptionalText,
    RawRow,
    RowError,
    Word,
    as_object,
    instruction,
    row_digest,
    with_end,
)
from lego_rl.tasks.convert.shell import command_of, script_of
from lego_rl.tasks.directory import SolutionPart, TaskDirectory, TestsPart
from lego_rl.tasks.provenance import Provenance, Unmeasured
from lego_rl.tasks.reports.lines import Found, r2e_tests
from lego_rl.tasks.unified_diff import DiffError, read_diff

FORMAT = "r2e-gym"
HIDDEN = "r2e_tests"
"""Where its images have the tests, at the root; where its script wants them, in the work tree."""

_DOCKERFILE = f"""\
FROM {{image}}
WORKDIR {TESTBED}
RUN rm -rf /{HIDDEN} {HIDDEN} /root/{HIDDEN} expected_test_output.json execution_result.json parsed_commit.json \\
        modified_files.json modified_entities.json syn_issue.json .git \\
    && git init -q && printf '.venv\\n{HIDDEN}\\n' >> .git/info/exclude && git add -A \\
    && git -c user.name=lego-rl -c user.email=lego-rl@localhost commit -q -m base
"""
_COLOURS = re.compile(r"(?:\x1b|\\u001b)\[\d+m")


class _Results(Fields):
    test_file_names: tuple[Word, ...]
    test_file_codes: tuple[str, ...]
    old_commit_res_stdout: OptionalText = ""


class _Row(Fields):
    repo_name: Word
    docker_image: ImageName
    commit_hash: CommitId
    problem_statement: Word
    expected_output_json: Annotated[dict[str, str], BeforeValidator(as_object)]
    execution_result_content: Annotated[_Results, BeforeValidator(as_object)]
    parsed_commit_content: OptionalText = ""


def convert(row: RawRow) -> TaskDirectory:
    """The task of a row.

    Raises:
        RowError: It cannot become one; the message says why.
    """
    fields = _Row.read(row)
    instance = check_id(f"{fields.repo_name}__{fields.commit_hash[:12]}")
    before, after = lists(fields.expected_output_json, fields.execution_result_content.old_commit_res_stdout)
    unmeasured: tuple[Unmeasured, ...] = ("image", "tests") if before else ("image", "tests", "lists")
    command = command_of(script_of(tests=("bash run_tests.sh",), workdir=TESTBED))
    issue = instruction(issue_of(fields.problem_statement))
    gold = gold_of(fields.parsed_commit_content)
    tests = TestsPart(
        before,
        after if before else (),
        command,
        "r2e-log",
        harbor.test_script(command, TESTBED, bring=harbor.BY_FILES),
        files=_hidden(fields.execution_result_content),
        support=harbor.judge_files(),
        timeout_sec=VERIFIER_SECONDS,
    )
    solution: SolutionPart | None = harbor.solution(gold, TESTBED) if gold is not None else None
    return checked(
        TaskDirectory(
            id=instance,
            name=harbor_name(FORMAT, instance),
            description=f"A commit of {fields.repo_name}",
            instruction=issue,
            environment=environment(
                TESTBED, files={"Dockerfile": _DOCKERFILE.format(image=fields.docker_image).encode()}
            ),
            tests=tests,
            solution=solution,
            repo=fields.repo_name,
            history="single-commit",
            source=Provenance(
                format=FORMAT,
                instance_id=instance,
                repo=fields.repo_name,
                base_commit=f"{fields.commit_hash}^",
                image=fields.docker_image,
                row_sha256=row_digest(row),
                unmeasured=unmeasured,
            ),
            agent_timeout_sec=AGENT_SECONDS,
        )
    )


def issue_of(text: str) -> str:
    """The issue alone, where it stands between ``[ISSUE]`` and ``[/ISSUE]``."""
    found = re.search(r"\[ISSUE\](.*)\[/ISSUE\]", text, re.DOTALL)
    return found[1] if found else text


def lists(expected: dict[str, str], before: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """FAIL_TO_PASS and PASS_TO_PASS, by what is expected after the fix and what was printed before it.

    Both are empty where the log of the run before names no test: it says nothing then.
    """
    wanted = [
        _COLOURS.sub("", test).split(" - ", 1)[0] for test, status in expected.items() if status.upper() == "PASSED"
    ]
    was = Found(r2e_tests(before), None).statuses
    if not was:
        return (), ()
    names = tuple(dict.fromkeys(test for test in wanted if test))
    failing = tuple(test for test in names if was.get(test) != "passed")
    return failing, tuple(test for test in names if test not in set(failing))


def gold_of(commit: str) -> bytes | None:
    """The fix as one patch, of the files of a commit that are no tests; ``None`` where the row has no commit.

    Raises:
        RowError: The row has one that cannot be read, holds no fix, or leaves out how a file was changed.
    """
    if not commit.strip():
        return None
    try:
        diffs = [diff for diff in _Commit.model_validate_json(commit).file_diffs if not diff.is_test]
    except ValidationError as error:
        raise RowError(f"parsed_commit_content: {error.errors()[0]['msg']}") from error
    if not diffs:
        raise RowError("its commit changes tests alone")
    for diff in diffs:
        path = diff.header.file.path
        if {f"a/{path}", f"b/{path}"}.isdisjoint({diff.before, diff.after}):
            raise RowError(f"its commit calls the file {path[:200]!r} otherwise, too")
        if not diff.hunks and "/dev/null" not in (diff.before, diff.after):  # made or deleted while it is empty
            raise RowError(f"its commit changes {path[:200]!r} in a way that is not in the row")
    text = with_end("\n".join(diff.text() for diff in diffs))
    try:
        read_diff(text)
    except DiffError as error:
        raise RowError(f"its commit as a patch {error}") from error
    return text


class _Line(Fields):
    content: str
    type: str = "context"


class _Lines(Fields):
    all_lines: tuple[_Line, ...] = ()


class _Range(Fields):
    start: int
    length: int | None = None


class _Descriptor(Fields):
    old_range: _Range
    new_range: _Range


class _Hunk(Fields):
    descriptor: _Descriptor
    line_group: _Lines

    def text(self) -> str:
        signs = {"context": " ", "added": "+", "deleted": "-", "note": "\\"}
        lines = [f"{signs.get(line.type, ' ')}{line.content}" for line in self.line_group.all_lines]
        old, new = (
            f"{part.start},{1 if part.length is None else part.length}"
            for part in (self.descriptor.old_range, self.descriptor.new_range)
        )
        return "\n".join([f"@@ -{old} +{new} @@", *lines])


class _Path(Fields):
    path: str = ""


class _Header(Fields):
    file: _Path = _Path()


class _FileDiff(Fields):
    header: _Header
    minus_file: _Path | None = None
    plus_file: _Path | None = None
    hunks: tuple[_Hunk, ...] = ()

    @property
    def is_test(self) -> bool:
        """Whether the file is one of the repository's own tests, by its name."""
        parts = self.header.file.path.lower().split("/")
        return parts[-1].startswith("test_") or parts[-1].endswith("_test.py") or "tests" in parts or "test" in parts

    @property
    def before(self) -> str:
        """As the line of the old file has it."""
        return self.minus_file.path if self.minus_file else f"a/{self.header.file.path}"

    @property
    def after(self) -> str:
        """As the line of the new file has it."""
        return self.plus_file.path if self.plus_file else f"b/{self.header.file.path}"

    def text(self) -> str:
        path, before, after = self.header.file.path, self.before, self.after
        kind = "new file mode 100644\n" if before == "/dev/null" else ""
        kind = "deleted file mode 100644\n" if after == "/dev/null" else kind
        head = f"diff --git a/{path} b/{path}\n{kind}--- {before}\n+++ {after}"
        return "\n".join([head, *(hunk.text() for hunk in self.hunks)])


class _Commit(Fields):
    file_diffs: tuple[_FileDiff, ...] = ()


def _hidden(results: _Results) -> dict[str, bytes]:
    names, codes = results.test_file_names, results.test_file_codes
    if not names or len(names) != len(codes) or len(set(names)) != len(names):
        raise RowError(f"it has {len(names)} names of test files and {len(codes)} contents")
    return {f"{HIDDEN}/{name}": code.encode() for name, code in zip(names, codes, strict=True)}
