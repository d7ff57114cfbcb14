"""``swebench``: rows of SWE-bench, Verified, Lite and Multilingual, of the present schema (5) and of the classic one.

A row of the present schema brings its evaluation script, the name of its log parser and its image. A classic row names
repository and version; the command comes from a table (`tables`), its image by a rule. Multimodal rows are refused:
what tells their fix from none are pictures, which are not in the row.
"""

import shlex

from pydantic import Field

from lego_rl.tasks.convert.assemble import TESTBED, Tested, environment, swe_task
from lego_rl.tasks.convert.diff_tests import django_modules, test_files
from lego_rl.tasks.convert.row import OptionalText, RawRow, RowError, SweRow, diff_of, image_named, listed, provenance
from lego_rl.tasks.convert.shell import (
    CONDA,
    TRACED,
    command_of,
    script_of,
    with_status,
    without_isolation,
    without_patches,
)
from lego_rl.tasks.convert.tables import classic
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.reports.swebench import PREFIX

FORMAT = "swebench"


class _Row(SweRow):
    eval_script: OptionalText = ""
    log_parser: OptionalText = ""
    eval_type: OptionalText = ""
    image: OptionalText = ""
    image_assets: object = None
    licence: OptionalText = Field(default="", alias="license_name")


def convert(row: RawRow) -> TaskDirectory:
    """The task of a row.

    Raises:
        RowError: It cannot become one; the message says why.
    """
    fields = _Row.read(row)
    if fields.eval_type == "fail_only" or "image_assets" in row:
        raise RowError("it is a row of SWE-bench Multimodal, whose tests compare pictures that are not in the row")
    if fields.eval_type not in ("", "pass_and_fail"):
        raise RowError(f"there is no eval_type {fields.eval_type!r}")
    before, after = listed(fields.fail_to_pass, fields.pass_to_pass)
    script, parser = _of_present(fields) if fields.eval_script else _of_classic(fields)
    image = image_named(fields.image) if fields.image else image_of(fields.instance_id, "swebench", "_1776_")
    tested = Tested(before, after, command_of(script), f"{PREFIX}{parser}")
    source = provenance(FORMAT, row, fields, image=image, licence=fields.licence)
    return swe_task(fields, tested, environment(TESTBED, image=image), source)


def image_of(instance: str, owner: str, separator: str) -> str:
    """The image of an instance, by the rule of SWE-bench: a registry takes no capitals and no double underscores.

    Raises:
        RowError: The id makes no name of an image.
    """
    return image_named(f"{owner}/sweb.eval.x86_64.{instance.lower().replace('__', separator)}:latest")


def _of_present(fields: _Row) -> tuple[str, str]:
    """Script and parser of a row that brings them."""
    if not fields.log_parser:
        raise RowError("it has an eval_script and no log_parser")
    script = without_patches(fields.eval_script, fields.own_paths())
    return with_status(without_isolation(script)), fields.log_parser


def _of_classic(fields: _Row) -> tuple[str, str]:
    """Script and parser of a row that says which version of a repository it is of."""
    known = classic(fields.repo, fields.version)
    script = classic_script(fields, known.test_cmd, (*known.eval_commands, known.install))
    return script, known.parser


def classic_script(fields: SweRow, command: str, before: tuple[str, ...]) -> str:
    """The script of a classic row: its command on the files of its test patch, in the environment of its image.

    Raises:
        RowError: The test patch touches no test.
    """
    files = diff_of(fields.test_patch, "test_patch")
    tests = django_modules(files) if fields.repo == "django/django" else test_files(files)
    if not tests:
        raise RowError("its test_patch leaves no test file to run")
    prepared = (TRACED, *CONDA, f"cd {TESTBED}", *(line for line in before if line))
    run = " ".join([command, *map(shlex.quote, tests)])
    return script_of(before=map(without_isolation, prepared), tests=(run,), workdir=TESTBED)
