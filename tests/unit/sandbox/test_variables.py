"""The variables of every command: one rule for ``PATH``, whatever a task's image says of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from lego_rl.sandbox.bubblewrap.box import BubblewrapSandbox
from lego_rl.sandbox.docker.box import DockerSandbox
from lego_rl.sandbox.user import SYSTEM_PATH, VARIABLES, environment

OWN = {"PATH": "/own/bin:/usr/bin", "LANG": "C", "COLOUR": "red"}


def test_an_image_says_more() -> None:
    assert environment({}) == {**VARIABLES, "PATH": SYSTEM_PATH}
    assert environment(OWN) == {**VARIABLES, **OWN}


def variables(kind: type[Any], **has: Any) -> Any:
    return kind.environment.fget(SimpleNamespace(**has))


PYTHON = SimpleNamespace(path="/opt/toolchain/bin")


def docker(is_host: bool) -> Any:
    prepared, root = SimpleNamespace(env=OWN), SimpleNamespace(is_host=is_host)
    return variables(DockerSandbox, image=SimpleNamespace(prepared=prepared, root=root, toolchain=PYTHON))


@pytest.mark.parametrize(
    "found", [variables(BubblewrapSandbox, image=SimpleNamespace(env=OWN), _toolchain=PYTHON), docker(True)]
)
def test_our_python_stays_first_where_programs_are_the_hosts(found: Any) -> None:
    assert found == {**VARIABLES, **OWN, "PATH": "/opt/toolchain/bin:/own/bin:/usr/bin"}


def test_an_image_brings_its_own_python() -> None:
    assert docker(False)["PATH"] == "/own/bin:/usr/bin:/opt/toolchain/bin"
