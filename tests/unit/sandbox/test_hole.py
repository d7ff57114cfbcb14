"""The words in which holes come out of a sandbox are those that the host knows."""

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox.hole import Hole, HoleKind
from lego_rl.sandbox.look import files, kernel, network


def test_the_programs_that_look_say_every_kind_and_no_other() -> None:
    said = {files.HIDDEN, files.GIT, files.STRAY, files.SHOWN, kernel.KERNEL}
    said |= {network.REACHED, network.NAME, network.INTERFACE, network.SOCKET, network.KEY}
    assert said == set(HoleKind)


def test_a_line_is_a_kind_and_a_sentence() -> None:
    assert Hole.of_line("reached 10.0.0.1 port 443 answers") == Hole(HoleKind.REACHED, "10.0.0.1 port 443 answers")


@pytest.mark.parametrize("line", ["", "10.0.0.1 port 443 answers", "Reached 10.0.0.1 port 443 answers"])
def test_a_line_of_no_kind_is_no_answer(line: str) -> None:
    with pytest.raises(SandboxError, match="gave no hole"):
        Hole.of_line(line)
