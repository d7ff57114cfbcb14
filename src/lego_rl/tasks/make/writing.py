"""From what was found to a task directory."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lego_rl.tasks.directory import EnvironmentPart, SolutionPart, TaskDirectory, TestsPart
from lego_rl.tasks.make.tree import Tree
from lego_rl.tasks.provenance import Provenance

WORKDIR = "/app"
LEAST_VERIFIER_SECONDS = 60.0
_COMMIT = re.compile("[0-9a-f]{12}")
"""As `lego_rl.tasks.make.checkout` names one."""
VERIFIER_TIMES = 8.0
"""How often the suite fits into what its verifier may take."""

_DOCKERFILE = f"""\
FROM python:3.12-slim
WORKDIR {WORKDIR}
COPY repo/ ./
"""
_TEST_SH = """\
#!/bin/sh
# For stock Harbor: brings the hidden tests, runs them with the image's pytest, writes a reward.
cd {workdir} || exit 1
python3 -c 'import pytest' 2> /dev/null || python3 -m pip install --quiet pytest || exit 1
cp -R /tests/files/. . || exit 1
mkdir -p /logs/verifier
export LEGO_REPORT=/logs/verifier/report.xml PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONHASHSEED=0
sh -c {command}
python3 -P - <<'PY' && reward=1 || reward=0
import json
import re
import sys
import xml.etree.ElementTree as tree

spec = json.load(open("/tests/spec.json"))
ended = {{}}
for case in tree.parse("/logs/verifier/report.xml").iter("testcase"):
    bad = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
    key = case.get("classname"), case.get("name")
    ended[key] = ended.get(key, True) and not bad
for test in spec["FAIL_TO_PASS"] + spec["PASS_TO_PASS"]:
    address, bracket, parameters = test.partition("[")
    path, *names = address.split("::")
    places = [re.sub(r"\\.py$", "", path.replace("/", ".")), *names[:-1]]
    if not ended.get((".".join(places), names[-1] + bracket + parameters)):
        sys.exit(test + " has not passed")
PY
echo "$reward" > /logs/verifier/reward.txt
"""
_SOLVE_SH = f"""\
#!/bin/sh
# The fixed files; gold.patch shows the change.
cp -R /solution/files/. {WORKDIR}/
"""


@dataclass(frozen=True)
class Found:
    """A task that was found, and everything that its directory needs.

    Attributes:
        id: The directory's name.
        kind: ``injected`` or ``mined``.
        family: Kind of bug, or ``mined``.
        package: Name of the package.
        repository: Which repository it is of; empty where nothing says.
        label: Version or commit that it comes from.
        state: Version of `tree`, or the first digits of the commit that it is.
        instruction: The issue.
        tree: What the agent finds.
        fix: The files that mend it → their content.
        hidden: The test files that decide → their content.
        fail_to_pass: Ids.
        pass_to_pass: Ids.
        command: That runs them.
        suite_sec: Seconds that the tests take.
    """

    id: str
    kind: str
    family: str
    package: str
    repository: str
    label: str
    state: str
    instruction: str
    tree: Tree
    fix: Mapping[str, bytes]
    hidden: Mapping[str, bytes]
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    command: str
    suite_sec: float

    @property
    def gold_patch(self) -> str:
        """The fix as a unified diff."""
        return diff_of(self.tree.files, self.fix)

    def directory(self) -> TaskDirectory:
        """The task directory."""
        return TaskDirectory(
            id=self.id,
            name=f"lego-rl/{self.id}",
            description=f"Mend {self.package}, found by its own tests ({self.kind})",
            instruction=self.instruction,
            environment=EnvironmentPart(WORKDIR, files=self._environment()),
            tests=TestsPart(
                fail_to_pass=self.fail_to_pass,
                pass_to_pass=self.pass_to_pass,
                command=self.command,
                parser="pytest-junit",
                script=_TEST_SH.format(workdir=WORKDIR, command=_quoted(self.command)),
                files=self.hidden,
                timeout_sec=round(max(LEAST_VERIFIER_SECONDS, VERIFIER_TIMES * self.suite_sec)),
            ),
            solution=SolutionPart(self.gold_patch.encode(), _SOLVE_SH, self.fix),
            family=self.family,
            split="train",
            repo=self.repository,
            history="single-commit",
            source=Provenance(
                format=self.kind,
                instance_id=self.id,
                repo=self.repository,
                base_commit=self.state if _COMMIT.fullmatch(self.state) else "",
            ),
            agent_timeout_sec=900.0,
        )

    def _environment(self) -> dict[str, bytes]:
        files = {f"repo/{path}": content for path, content in self.tree.files.items()}
        return {"Dockerfile": _DOCKERFILE.encode(), **files}


def diff_of(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """A unified diff of some files of a tree, with the headers that git has; files that are no text are left out."""
    parts = []
    for path, content in sorted(after.items()):
        old = before.get(path)
        try:
            one, two = (old or b"").decode(), content.decode()
        except UnicodeDecodeError:
            continue
        header = [f"diff --git a/{path} b/{path}\n"] + ([] if old is not None else ["new file mode 100644\n"])
        lines = difflib.unified_diff(
            _lines(one), _lines(two), f"a/{path}" if old is not None else "/dev/null", f"b/{path}"
        )
        parts += [*header, *map(_ended, lines)]
    return "".join(parts)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Lines as a patch has them: a line feed ends one, and nothing else."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\"'\"'") + "'"
