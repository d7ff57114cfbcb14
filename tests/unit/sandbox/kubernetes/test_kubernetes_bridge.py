"""What the host asks a pod for, what its bridge passes on or does, and what the first process can do: one list."""

import ast
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lego_rl import sandbox
from lego_rl.sandbox import inside, inside_files
from lego_rl.sandbox.kubernetes import frames

sys.modules.setdefault("inside_files", inside_files)
sys.modules.setdefault("frames", frames)
from lego_rl.sandbox.kubernetes import keeper  # noqa: E402

sys.modules.setdefault("keeper", keeper)
from lego_rl.sandbox.kubernetes import bridge  # noqa: E402

ROOM = Path(sandbox.__file__).parent
HOSTS = (
    *(ROOM / name for name in ("channel.py", "controlled.py", "transfer.py")),
    *sorted((ROOM / "kubernetes").glob("*.py")),
)
INSIDE_A_POD = ("bridge.py", "frames.py", "keeper.py", "first.py")
ASKS = {"send", "run", "operate", "run_operation", "_operate", "_put", "_execute"}
"""Functions and methods that are given an operation: the first string of a list, or a string."""


def asked(path: Path) -> Iterator[str]:
    """The operations that a module of the host's asks for, in the order of its text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lists = {
        target.id: value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for names, values in [(node.targets[0], node.value)]
        for target, value in (
            zip(names.elts, values.elts, strict=True)
            if isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple)
            else [(names, values)]
        )
        if isinstance(target, ast.Name) and isinstance(value, ast.List)
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        for given in call.args if name in ASKS else ():
            found = lists.get(given.id) if isinstance(given, ast.Name) else given
            first = found.elts[0] if isinstance(found, ast.List) and found.elts else found
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def test_every_operation_that_is_asked_for_is_done_and_none_is_forgotten() -> None:
    wanted = {operation for path in HOSTS if path.name not in INSIDE_A_POD for operation in asked(path)}
    assert wanted == inside.REQUESTS.keys() | keeper.OPERATIONS.keys() | set(bridge.OWN)


def test_every_operation_but_the_listener_is_passed_on() -> None:
    assert set(bridge.PASSED_ON) == inside.REQUESTS.keys() - {"listen"}  # the keeper relays instead
    assert not keeper.OPERATIONS.keys() & {*bridge.PASSED_ON, *bridge.OWN}


def test_what_has_no_output_is_given_none() -> None:
    assert set(bridge.WITHOUT_OUTPUT) == {"end", "kill"}


class Ended:
    """A request whose end is kept."""

    def __init__(self) -> None:
        self.statuses: list[int] = []

    def end(self, status: int) -> None:
        self.statuses.append(status)


@pytest.mark.parametrize(("size", "statuses"), [(5, []), (11, [0]), (None, [bridge.UNMEASURED])])
def test_what_cannot_be_measured_is_said(
    monkeypatch: pytest.MonkeyPatch, size: int | None, statuses: list[int]
) -> None:
    def size_of(_folders: list[str], _limit: int) -> int:
        if size is None:
            raise OSError(24, "Too many open files")
        return size

    monkeypatch.setattr(keeper, "size_of", size_of)
    request, looking = Ended(), bridge.Bridge.__new__(bridge.Bridge)
    looking.bounds = [(request, 10)]  # type: ignore[list-item]
    looking.measure()
    looking.measure()
    assert request.statuses == statuses


def test_a_bridge_may_have_more_descriptors_on_their_way_than_any_agent() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        bridge.allow_enough_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
