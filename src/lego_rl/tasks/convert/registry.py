"""The formats of rows that can be converted, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from lego_rl.errors import TaskError
from lego_rl.tasks.convert import openswe, r2e_gym, swe_gym, swe_rebench, swe_rebench_v2, swe_smith, swebench
from lego_rl.tasks.convert.row import RawRow
from lego_rl.tasks.directory import TaskDirectory


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        name: As the command line has it.
        convert: Makes a task of a row, or raises `lego_rl.tasks.convert.row.RowError`.
        summary: What rows it is of: the first line of its module.
    """

    name: str
    convert: Callable[[RawRow], TaskDirectory]
    summary: str


def _format(module: ModuleType) -> Format:
    summary = (module.__doc__ or "").partition("\n")[0].partition(": ")[2]
    return Format(module.FORMAT, module.convert, summary)


FORMATS = {
    form.name: form
    for form in map(_format, (swebench, openswe, swe_rebench, swe_rebench_v2, swe_gym, r2e_gym, swe_smith))
}
"""Format by name."""


def format_named(name: str) -> Format:
    """The format called `name`.

    Raises:
        TaskError: There is none.
    """
    if name not in FORMATS:
        raise TaskError(f"there is no format {name!r}", f"use one of {', '.join(FORMATS)}")
    return FORMATS[name]
