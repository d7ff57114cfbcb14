"""``swe-gym``: rows of SWE-Gym and its subsets, of SWE-bench's classic schema with eleven other repositories.

No table of their commands is on a package index: SWE-Gym's fork of SWE-bench has it, by repository and version. Here
stands how each repository is tested, as that table has it for nearly all of its versions; a version in which it differs
shows when the task is validated. The images have a rule of their own.
"""

import re
import shlex
from dataclasses import dataclass

from lego_rl.tasks.convert.assemble import TESTBED, Tested, environment, swe_task
from lego_rl.tasks.convert.row import RawRow, RowError, SweRow, listed, provenance
from lego_rl.tasks.convert.shell import CONDA, TRACED, command_of, script_of
from lego_rl.tasks.convert.swebench import classic_script, image_of
from lego_rl.tasks.directory import TaskDirectory

FORMAT = "swe-gym"


@dataclass(frozen=True)
class _Tested:
    """How a repository is tested.

    Attributes:
        command: What runs pytest.
        before: What goes before.
    """

    command: str
    before: tuple[str, ...] = ()


_MYPY = "python/mypy"
_REPOSITORIES = {
    "bokeh/bokeh": _Tested("pytest -rA -n0"),
    "conan-io/conan": _Tested("pytest -n0 -rA", ('export PYTHONPATH="${PYTHONPATH:-}:$(pwd)"',)),
    "dask/dask": _Tested("pytest -n0 -rA --color=no"),
    "facebookresearch/hydra": _Tested("pytest -rA --tb=long"),
    "getmoto/moto": _Tested("pytest -n0 -rA"),
    "iterative/dvc": _Tested("pytest -rA"),
    "modin-project/modin": _Tested("pytest -n0 -rA"),
    "pandas-dev/pandas": _Tested("pytest -rA --tb=long"),
    "project-monai/monai": _Tested("pytest -rA"),
    "pydantic/pydantic": _Tested("pytest -rA --tb=short -vv -o console_output_style=classic --no-header"),
    _MYPY: _Tested("pytest -n0 -rA -k"),
}
"""By the repository's name in small letters, as rows differ in its case."""


def convert(row: RawRow) -> TaskDirectory:
    """The task of a row.

    Raises:
        RowError: It cannot become one; the message says why.
    """
    fields = SweRow.read(row)
    known = _REPOSITORIES.get(fields.repo.lower())
    if known is None:
        raise RowError(f"nobody here knows how {fields.repo} is tested: SWE-Gym's own {len(_REPOSITORIES)} are known")
    before, after = listed(fields.fail_to_pass, fields.pass_to_pass)
    image = image_of(fields.instance_id, "xingyaoww", "_s_")
    script = (
        _mypy(fields, known) if fields.repo.lower() == _MYPY else classic_script(fields, known.command, known.before)
    )
    tested = Tested(before, after, command_of(script), "pytest-log")
    return swe_task(fields, tested, environment(TESTBED, image=image), provenance(FORMAT, row, fields, image=image))


def _mypy(fields: SweRow, known: _Tested) -> str:
    """mypy's tests are cases in data files: those that the test patch names, by an expression of pytest's."""
    cases = dict.fromkeys(re.findall(r"\[case ([A-Za-z0-9_]+)", fields.test_patch))
    if not cases:
        raise RowError("its test_patch names no case of mypy's")
    run = f"{known.command} {shlex.quote(' or '.join(cases))}"
    return script_of(before=(TRACED, *CONDA), tests=(run,), workdir=TESTBED)
