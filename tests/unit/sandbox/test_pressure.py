"""Whether programs had to wait for each other, by the kernel's own count."""

from pathlib import Path

import pytest

from lego_rl.sandbox import pressure
from lego_rl.sandbox.pressure import Pressure

SAYS = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, ...]:
    made = tuple(tmp_path / name for name in ("cpu", "io", "memory"))
    for path in made:
        path.write_text(SAYS.format(5_000_000))
    monkeypatch.setattr(pressure, "FILES", made)
    return made


def test_nobody_waited(files: tuple[Path, ...]) -> None:
    assert Pressure().was_low()


@pytest.mark.parametrize("scarce", range(3))
def test_somebody_waited(files: tuple[Path, ...], scarce: int) -> None:
    since = Pressure()
    files[scarce].write_text(SAYS.format(9_000_000))
    assert not since.was_low()


@pytest.mark.parametrize("content", ["", "some total=", None])
def test_a_kernel_that_does_not_say(files: tuple[Path, ...], content: str | None) -> None:
    since = Pressure()
    if content is None:
        files[1].unlink()
    else:
        files[1].write_text(content)
    assert not since.was_low()
    assert not Pressure().was_low()
