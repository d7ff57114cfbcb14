"""``swe-rebench-v2``: rows of nebius/SWE-rebench-V2, of twenty languages.

Its repositories lie in a folder of their own name below ``/``, all of its commands run one after the other, whatever
those before ended with, and times are taken out of the names of tests. Its own evaluation asks for the *set* of
passed tests to be equal; here every test of both lists has to pass, and what passes beside them is no fault. Its
parsers are in its repository and on no package index: rows whose parser swebench has by the same name are converted,
the others refused by the parser's name.

What an agent is told is the issue, and the ``interface`` that tests call where the row has one; ``pr_description`` and
the models' judgements in ``meta`` say how it was solved.
"""

from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator

from lego_rl.tasks.convert.assemble import Tested, environment, swe_task
from lego_rl.tasks.convert.row import (
    Fields,
    ImageName,
    OptionalText,
    RawRow,
    RowError,
    SweRow,
    Word,
    as_object,
    instruction,
    listed,
    provenance,
)
from lego_rl.tasks.convert.shell import command_of, one_after_the_other, script_of, without_patches
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.reports.lines import untimed
from lego_rl.tasks.reports.swebench import NAMES, UNTIMED

FORMAT = "swe-rebench-v2"
DATA_SOURCE = "nebius/SWE-rebench-V2"


class _Config(Fields):
    test_cmd: tuple[Word, ...] = Field(min_length=1)
    log_parser: Word

    @field_validator("test_cmd", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value


class _Row(SweRow):
    install_config: Annotated[_Config, BeforeValidator(as_object)]
    image_name: ImageName
    interface: OptionalText = ""
    license_name: OptionalText = ""


def convert(row: RawRow) -> TaskDirectory:
    """The task of a row.

    Raises:
        RowError: It cannot become one; the message says why.
    """
    fields = _Row.read(row)
    parser = fields.install_config.log_parser
    if parser not in NAMES:
        raise RowError(f"its log parser {parser} is SWE-rebench V2's own, and no package has it")
    kept = None if fields.pass_to_pass is None else tuple(map(untimed, fields.pass_to_pass))
    before, after = listed(tuple(map(untimed, fields.fail_to_pass)), kept)
    workdir = f"/{fields.repo.partition('/')[2]}"
    own = fields.own_paths()
    tests = one_after_the_other(without_patches(command, own) for command in fields.install_config.test_cmd)
    tested = Tested(before, after, command_of(script_of(tests=(tests,), workdir=workdir)), f"{UNTIMED}{parser}")
    image = fields.image_name
    source = provenance(FORMAT, row, fields, image=image, data_source=DATA_SOURCE, licence=fields.license_name)
    return swe_task(fields, tested, environment(workdir, image=image), source, issue=_issue(fields))


def _issue(fields: _Row) -> str:
    if not fields.interface.strip():
        return fields.problem_statement
    return f"{instruction(fields.problem_statement)}\n## Interface\n\n{fields.interface.strip()}\n"
