"""``openswe``: rows of GAIR/OpenSWE, which bring a Dockerfile and an evaluation script that a model wrote.

Most of the scripts were made to show that the fix works: they apply the gold patch themselves, and what decides is an
exit code alone. So everything that applies a patch is taken out (`shell`), pytest is asked for a line a test, and which
tests decide is not known until ``lego-rl tasks validate --record`` has run them without and with the fix. Rows without
patches, of ``openswe_other.jsonl``, are refused.

The base images of the recipes are published nowhere; the same is made of ``continuumio/miniconda3``, as OpenSWE's own
preparation does. The recipe copies a clone that a row does not bring; it clones instead. Building it needs a network.
"""

import re
import shlex

from lego_rl.tasks.convert.assemble import TESTBED, Tested, environment, swe_task
from lego_rl.tasks.convert.row import OptionalText, RawRow, RowError, SweRow, Word, diff_of
from lego_rl.tasks.convert.shell import command_of, without_patches
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.unified_diff import FileDiff

FORMAT = "openswe"
DATA_SOURCE = "GAIR/OpenSWE"
BASE = "continuumio/miniconda3:25.3.1-1"
_FROM = re.compile(r"^[ \t]*FROM[ \t]+\S*openswe-python-(?P<version>3\.\d{1,2})\S*[ \t]*$", re.MULTILINE)
_COPY = re.compile(r"^[ \t]*(?:COPY|ADD)[ \t]+(?P<arguments>.+)$", re.MULTILINE | re.IGNORECASE)
_REPOSITORY = re.compile(r"(?:--chown=\S+[ \t]+)?(?:\./)?repo/?(?:\.)?[ \t]+(?P<target>/testbed/?)")
_EXIT_CODE = "exit \"$(sed -n 's/^OPENSWE_EXIT_CODE=//p' \"$LEGO_REPORT\" | tail -n 1 | grep -x '[0-9]*' || echo 1)\""
"""The script prints what decides and ends well whatever it is; a script that prints nothing has failed."""
_LINES = "export PYTEST_ADDOPTS=-rA"


class _Row(SweRow):
    dockerfile: OptionalText = ""
    Dockerfile: OptionalText = ""
    eval_script: Word
    image_name: OptionalText = ""
    license_name: OptionalText = ""


def convert(row: RawRow) -> TaskDirectory:
    """The task of a row.

    Raises:
        RowError: It cannot become one; the message says why.
    """
    fields = _Row.read(row)
    files = (*diff_of(fields.patch, "patch"), *diff_of(fields.test_patch, "test_patch"))
    recipe = recipe_of(fields, files)
    script = f"{_LINES}\n{without_patches(fields.eval_script, fields.own_paths())}"
    before = tuple(dict.fromkeys(fields.fail_to_pass))
    after = tuple(test for test in dict.fromkeys(fields.pass_to_pass) if before and test not in before)
    return swe_task(
        FORMAT,
        row,
        fields,
        Tested(before, after, command_of(script, _EXIT_CODE), "pytest-log"),
        environment(TESTBED, files={"Dockerfile": recipe.encode()}),
        image=fields.image_name,
        data_source=DATA_SOURCE,
        licence=fields.license_name,
        unmeasured=("image", "tests") if before else ("image", "tests", "lists"),
    )


def recipe_of(fields: _Row, files: tuple[FileDiff, ...]) -> str:
    """The Dockerfile: of a base that can be had, with a clone in place of the folder that the row does not bring.

    Raises:
        RowError: It copies what the row does not bring, has no base that is known, or holds lines of the row's patches.
    """
    text = fields.Dockerfile or fields.dockerfile
    if not text.strip():
        raise RowError("it has no Dockerfile")
    made, bases = _FROM.subn(_base, text.replace("\r\n", "\n"))
    if bases != 1:
        raise RowError("its Dockerfile starts from something else than openswe-python-3.X")
    copied = [found["arguments"].strip() for found in _COPY.finditer(made)]
    foreign = [arguments for arguments in copied if _REPOSITORY.fullmatch(arguments) is None]
    if foreign or len(copied) != 1:
        raise RowError(f"its Dockerfile copies {(foreign or ['nothing'])[0][:100]!r}, and a row brings no files")
    clone = (
        f"RUN git clone https://github.com/{fields.repo}.git {TESTBED} && cd {TESTBED} "
        f"&& git checkout -q {shlex.quote(fields.base_commit)}"
    )
    made = _COPY.sub(lambda _: clone, made)
    if line := _leak(made, files):
        raise RowError(f"its Dockerfile holds a line of its patches: {line[:100]!r}")
    return made if made.endswith("\n") else f"{made}\n"


def _base(found: re.Match[str]) -> str:
    return (
        f"FROM {BASE}\nRUN conda create -n testbed python={found['version']} -y "
        '&& echo "conda activate testbed" >> ~/.bashrc'
    )


def _leak(text: str, files: tuple[FileDiff, ...]) -> str | None:
    """A line of some length that a patch adds and a text holds."""
    for file in files:
        for hunk in file.patch.hunks:
            for line in hunk.lines:
                added = line[1:].decode(errors="replace").strip() if line.startswith(b"+") else ""
                if len(added) >= _TELLING and added in text:
                    return added
    return None


_TELLING = 30
"""Characters of a line from which it is no commonplace."""
