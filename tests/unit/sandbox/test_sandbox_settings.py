"""A recipe can be read on a machine without Harbor and without torch."""

import subprocess
import sys

import pytest

CODE = """
import sys
import lego_rl.{module}
sys.exit(", ".join(sorted({{name.split(".")[0] for name in sys.modules}} & {{"harbor", "torch", "transformers"}})))
"""


@pytest.mark.parametrize("module", ["sandbox.settings", "config.recipe"])
def test_reading_a_recipe_loads_neither(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(module=module)], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""
