"""Hidden pytest tests of a generated repository, with the results that the right code gives.

Invariant: a FAIL_TO_PASS test calls the defective function where its right and its wrong form differ, a PASS_TO_PASS
test never does, and together they tell the right form from every rival. All of it is found by running the forms. A
result is compared by its type first: an object of the repository's own class may call itself equal to anything.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from lego_rl.tasks.families.base import Arguments, Defect, Function, Value
from lego_rl.tasks.repository import Located, Module, Repository

_EXACTLY = """

def _is_exactly(found, wanted):
    if type(found) is not type(wanted):
        return False
    if type(wanted) is list:
        return len(found) == len(wanted) and all(map(_is_exactly, found, wanted))
    if type(wanted) is dict:
        return _is_exactly(sorted(map(list, found.items())), sorted(map(list, wanted.items())))
    return found == wanted
"""


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


def runnable(function: Function) -> Callable[[Arguments], Value]:
    """Compile a generated function; the result calls it with copies of its arguments."""
    source = "\n".join(line for part in (*function.helpers, function) for line in part.lines)
    namespace: dict[str, Callable[..., Value]] = {}
    exec(source, namespace)  # Lego-RL's own source, never a policy's
    return lambda arguments: namespace[function.name](*copy.deepcopy(arguments))


def write_tests(repository: Repository, defect: Defect, bystander: Located) -> HiddenTests | None:
    """Write the test file; ``None`` where no input tells the right form from the wrong one or from a rival.

    Args:
        repository: What is tested.
        defect: Decides the FAIL_TO_PASS tests.
        bystander: A function of another module, tested beside those of the defect's own.
    """
    chosen = _telling_inputs(defect)
    if chosen is None:
        return None
    path = f"tests/test_{PurePosixPath(repository.target.path).stem}.py"
    cases: list[tuple[Module, str, str]] = []
    fail_to_pass: list[str] = []
    pass_to_pass: list[str] = []
    run_right, run_wrong = runnable(defect.right), runnable(defect.wrong)
    for number, inputs in enumerate(chosen, start=1):
        right = run_right(inputs)
        test = f"test_{defect.right.name}_{number}"
        cases.append((repository.target, defect.right.name, _case(test, defect.right, inputs, right)))
        (pass_to_pass if run_wrong(inputs) == right else fail_to_pass).append(f"{path}::{test}")
    for module, function in (*repository.neighbours(defect.wrong), bystander):
        inputs = function.inputs[0]
        test = f"test_{function.name}"
        cases.append((module, function.name, _case(test, function, inputs, runnable(function)(inputs))))
        pass_to_pass.append(f"{path}::{test}")
    imports = sorted({f"from {module.dotted} import {name}\n" for module, name, _ in cases})
    text = "".join([*imports, _EXACTLY, *(case for _, _, case in cases)])
    return HiddenTests(path, text, tuple(fail_to_pass), tuple(pass_to_pass))


def _telling_inputs(defect: Defect) -> list[Arguments] | None:
    """The fewest inputs, in their order, that tell the right form from the wrong one and from every rival."""
    run_right = runnable(defect.right)
    results = [(inputs, run_right(inputs)) for inputs in defect.right.inputs]
    chosen: list[Arguments] = []
    for other in map(runnable, (defect.wrong, *defect.rivals)):
        telling = [inputs for inputs, right in results if other(inputs) != right]
        if not telling:
            return None
        if not any(inputs in telling for inputs in chosen):
            chosen.append(telling[0])
    return chosen


def _case(test: str, function: Function, inputs: Arguments, result: Value) -> str:
    called = f"{function.name}({', '.join(map(repr, inputs))})"
    return f"\n\ndef {test}():\n    assert _is_exactly({called}, {result!r})\n"
