"""What the bridge of a pod passes on is what the first process can do."""

import ast
from pathlib import Path
from typing import Any

from lego_rl.sandbox import inside
from lego_rl.sandbox.kubernetes import image


def constant(name: str) -> Any:
    """Of the stand-alone program, which cannot be imported here."""
    tree = ast.parse(Path(image.__file__).with_name("bridge.py").read_text(encoding="utf-8"))
    values = (node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name)
    return ast.literal_eval(next(values))


def test_every_operation_but_the_listener_is_passed_on() -> None:
    assert set(constant("PASSED_ON")) == inside.REQUESTS.keys() - {"listen"}  # the keeper relays instead


def test_what_has_no_output_is_given_none() -> None:
    assert set(constant("WITHOUT_OUTPUT")) == {"end", "kill"}
