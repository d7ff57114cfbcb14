"""Hidden pytest tests of a generated repository, with the results that the right code gives.

Invariant: a FAIL_TO_PASS test calls the defective function where right and wrong form differ, a PASS_TO_PASS test never
does; both kinds are chosen by running both forms.
"""

import copy
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast

from lego_rl.tasks.families.base import Arguments, Defect, Function, Value
from lego_rl.tasks.repository import Located, Module, Repository

_MAX_FAILING = 2


@dataclass(frozen=True)
class HiddenTests:
    """A test file and which of its tests decide.

    Attributes:
        path: Relative to the repository.
        text: The file.
        fail_to_pass: Test ids.
        pass_to_pass: Test ids.
    """

    path: str
    text: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


def call(function: Function, arguments: Arguments) -> Value:
    """Run a generated function on copies of `arguments`."""
    source = "\n".join(line for part in (*function.helpers, function) for line in part.lines)
    namespace: dict[str, object] = {}
    exec(source, namespace)  # our own generated source, never a policy's
    result = namespace[function.name](*copy.deepcopy(arguments))  # type: ignore[operator]
    return cast(Value, result)


def write_tests(repository: Repository, defect: Defect, bystander: Located) -> HiddenTests | None:
    """Write the test file; ``None`` where no input tells the right form from the wrong one.

    Args:
        repository: What is tested.
        defect: Decides the FAIL_TO_PASS tests.
        bystander: A function of another module, tested beside those of the defect's own.
    """
    results = [(inputs, call(defect.right, inputs), call(defect.wrong, inputs)) for inputs in defect.right.inputs]
    failing = [(inputs, right) for inputs, right, wrong in results if right != wrong][:_MAX_FAILING]
    same = [(inputs, right) for inputs, right, wrong in results if right == wrong][:1]
    if not failing:
        return None
    path = f"tests/test_{PurePosixPath(repository.target.path).stem}.py"
    cases: list[tuple[Module, str, str]] = []
    fail_to_pass: list[str] = []
    pass_to_pass: list[str] = []
    for number, (inputs, right) in enumerate(failing + same, start=1):
        test = f"test_{defect.right.name}_{number}"
        cases.append((repository.target, defect.right.name, _case(test, defect.right, inputs, right)))
        (fail_to_pass if number <= len(failing) else pass_to_pass).append(f"{path}::{test}")
    for module, function in (*repository.neighbours(defect.wrong), bystander):
        inputs = function.inputs[0]
        test = f"test_{function.name}"
        cases.append((module, function.name, _case(test, function, inputs, call(function, inputs))))
        pass_to_pass.append(f"{path}::{test}")
    imports = sorted({f"from {module.dotted} import {name}\n" for module, name, _ in cases})
    text = "".join([*imports, *(case for _, _, case in cases)])
    return HiddenTests(path, text, tuple(fail_to_pass), tuple(pass_to_pass))


def _case(test: str, function: Function, inputs: Arguments, result: Value) -> str:
    called = f"{function.name}({', '.join(map(repr, inputs))})"
    operator = "is" if isinstance(result, bool) else "=="
    return f"\n\ndef {test}():\n    assert {called} {operator} {result!r}\n"
