"""``openswe``: rows of GAIR/OpenSWE, which bring a Dockerfile and an evaluation script that a model wrote.

Most of the scripts were made to show that the fix works: they apply the gold patch themselves, and what decides is an
exit code alone. So everything that applies a patch is taken out (`shell`), pytest is asked for a line a test, and which
tests decide is not known until ``lego-rl tasks validate --record`` has run them without and with the fix. Rows without
patches, of ``openswe_other.jsonl``, are refused.

Its Dockerfile is made one that can be built by `openswe_recipe`; building it needs a network.
"""

from lego_rl.tasks.convert.assemble import TESTBED, Tested, environment, swe_task
from lego_rl.tasks.convert.openswe_recipe import Source, recipe_of
from lego_rl.tasks.convert.row import OptionalText, RawRow, RowError, SweRow, Word, listed, provenance
from lego_rl.tasks.convert.shell import command_of, without_patches
from lego_rl.tasks.directory import TaskDirectory

FORMAT = "openswe"
DATA_SOURCE = "GAIR/OpenSWE"
_EXIT_CODE = "exit \"$(sed -n 's/^OPENSWE_EXIT_CODE=//p' \"$LEGO_REPORT\" | tail -n 1 | grep -x '[0-9]*' || echo 1)\""
"""The script prints what decides and ends well whatever it is; a script that prints nothing has failed."""
_LINES = "export PYTEST_ADDOPTS=-rA"


class _Row(SweRow):
    dockerfile: OptionalText = ""
    Dockerfile: OptionalText = ""
    eval_script: Word
    end_commit: OptionalText = ""
    image_name: OptionalText = ""
    license_name: OptionalText = ""


def convert(row: RawRow) -> TaskDirectory:
    """The task of a row.

    Raises:
        RowError: It cannot become one; the message says why.
    """
    if not (row.get("patch") or row.get("test_patch")):
        raise RowError("it has neither a patch nor a test_patch, as rows of openswe_other.jsonl: nothing can grade it")
    fields = _Row.read(row)
    commits = Source(fields.repo, fields.base_commit, fields.end_commit, fields.patch + fields.test_patch)
    recipe = recipe_of(fields.Dockerfile or fields.dockerfile, commits)
    script = f"{_LINES}\n{without_patches(fields.eval_script, fields.own_paths())}"
    after = fields.pass_to_pass and tuple(test for test in fields.pass_to_pass if test not in fields.fail_to_pass)
    before, after = listed(fields.fail_to_pass, after) if fields.fail_to_pass else ((), ())
    tested = Tested(before, after, command_of(script, _EXIT_CODE), "pytest-log")
    source = provenance(
        FORMAT,
        row,
        fields,
        image=fields.image_name,
        data_source=DATA_SOURCE,
        licence=fields.license_name,
        unmeasured=("image", "tests") if before else ("image", "tests", "lists"),
    )
    return swe_task(fields, tested, environment(TESTBED, files={"Dockerfile": recipe.encode()}), source)
