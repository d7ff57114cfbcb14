"""``swe-rebench``: rows of nebius/SWE-rebench, whose ``install_config`` brings command and parser.

The parsers are called as swebench's are. Rows hold judgements of models (``meta``), which nothing here believes.
"""

import shlex
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator

from lego_rl.tasks.convert.assemble import TESTBED, Tested, environment, swe_task
from lego_rl.tasks.convert.row import (
    Fields,
    ImageName,
    OptionalText,
    RawRow,
    RowError,
    SweRow,
    Word,
    as_object,
    listed,
    provenance,
)
from lego_rl.tasks.convert.shell import command_of, without_isolation, without_patches
from lego_rl.tasks.convert.swebench import classic_script, image_of
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.reports.swebench import PREFIX

FORMAT = "swe-rebench"
DATA_SOURCE = "nebius/SWE-rebench"


class _Config(Fields):
    test_cmd: Word
    log_parser: Word
    env_vars: Mapping[str, str | None] | None = None
    """A table of many rows has every name in each of them, without a value where a row has none."""


class _Row(SweRow):
    install_config: Annotated[_Config, BeforeValidator(as_object)]
    docker_image: ImageName | None = None
    image_name: ImageName | None = None
    license_name: OptionalText = ""


def convert(row: RawRow) -> TaskDirectory:
    """The task of a row.

    Raises:
        RowError: It cannot become one; the message says why.
    """
    fields = _Row.read(row)
    config = fields.install_config
    before, after = listed(fields.fail_to_pass, fields.pass_to_pass)
    image = fields.docker_image or fields.image_name or image_of(fields.instance_id, "swerebench", "_1776_")
    command = without_isolation(without_patches(config.test_cmd, fields.own_paths()).rstrip("\n"))
    script = classic_script(fields, command, tuple(_exports(config.env_vars or {})))
    tested = Tested(before, after, command_of(script), f"{PREFIX}{config.log_parser}")
    source = provenance(FORMAT, row, fields, image=image, data_source=DATA_SOURCE, licence=fields.license_name)
    return swe_task(fields, tested, environment(TESTBED, image=image), source)


def _exports(variables: Mapping[str, str | None]) -> list[str]:
    for name in variables:
        if not name.isidentifier() or not name.isascii():
            raise RowError(f"install_config.env_vars has the name {name[:100]!r}")
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items() if value is not None]
