"""``r2e-gym``: rows of R2E-Gym, which are commits: no id, no lists, no patch in one piece, and no owner's name.

The hidden tests lie in the row and in the image; the recipe of the environment removes them from the latter, with the
history, which may hold the fix. FAIL_TO_PASS and PASS_TO_PASS are found by comparing what the row expects with what it
records of the run before the fix; where it records none that can be read, they are unknown, and ``lego-rl tasks
validate --record`` finds them. R2E-Gym asks for the whole map of statuses to be equal; here what it expects to pass has
to pass. ``prompt``, ``modified_files``, ``relevant_files`` and ``modified_entity_summaries`` say where the fix is, and
are ignored.
"""

import re
from typing import Annotated

from pydantic import BeforeValidator

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
from lego_rl.tasks.convert.r2e_commit import gold_of
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
)
from lego_rl.tasks.convert.shell import command_of, script_of
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.provenance import Provenance
from lego_rl.tasks.reports.lines import Found, r2e_tests

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
    command = command_of(script_of(tests=("bash run_tests.sh",), workdir=TESTBED))
    tested = Tested(before, after if before else (), command, "r2e-log")
    hidden = HiddenTests(files=_hidden(fields.execution_result_content))
    recipe = {"Dockerfile": _DOCKERFILE.format(image=fields.docker_image).encode()}
    gold = gold_of(fields.parsed_commit_content)
    source = Provenance(
        format=FORMAT,
        instance_id=instance,
        repo=fields.repo_name,
        base_commit=f"{fields.commit_hash}^",
        image=fields.docker_image,
        row_sha256=row_digest(row),
        unmeasured=("image", "tests") if before else ("image", "tests", "lists"),
    )
    return checked(
        TaskDirectory(
            id=instance,
            name=harbor_name(source),
            description=f"A commit of {fields.repo_name}",
            instruction=instruction(issue_of(fields.problem_statement)),
            environment=environment(TESTBED, files=recipe),
            tests=tests_part(tested, TESTBED, bring=harbor.BY_FILES, hidden=hidden),
            solution=None if gold is None else harbor.solution(gold, TESTBED),
            repo=fields.repo_name,
            history="single-commit",
            source=source,
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


def _hidden(results: _Results) -> dict[str, bytes]:
    names, codes = results.test_file_names, results.test_file_codes
    if not names or len(names) != len(codes) or len(set(names)) != len(names):
        raise RowError(f"it has {len(names)} names of test files and {len(codes)} contents")
    return {f"{HIDDEN}/{name}": code.encode() for name, code in zip(names, codes, strict=True)}
