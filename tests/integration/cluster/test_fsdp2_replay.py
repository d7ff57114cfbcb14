"""Routing replay in verl's FSDP2 engine: recorded experts run, in every layout of the rows, and under recomputation."""

import json
import subprocess
from pathlib import Path

import pytest

from lego_rl.policies import policy_directory
from tests.integration.cluster.verl_process import PYTHON, environment

SAME = 2e-5
"""Float32, sums in another order."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    folder = tmp_path_factory.mktemp("replay")
    target, program = folder / "values.json", Path(__file__).with_name("replay_values.py")
    ran = subprocess.run(
        [PYTHON, program, policy_directory("builtin:demo"), target],
        env=environment({}),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"verl's side failed (if packages are missing: make setup-verl)\n{ran.stderr[-4000:]}"
    assert ran.stdout.count("no routes to replay") == 2
    found: dict[str, float] = json.loads(target.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_recorded_experts_run_where_and_only_where_they_are_asked_for(figures: dict[str, float], layout: str) -> None:
    own = {name: figure for name, figure in figures.items() if name.startswith(layout)}
    assert len(own) == 5
    assert all(figure < SAME for figure in own.values()), own


def test_other_experts_would_have_made_a_difference(figures: dict[str, float]) -> None:
    assert figures["other experts matter"] > 0.1
    assert figures["gradient of other experts matters"] > 0.1


def test_experts_are_the_recorded_ones_when_activations_are_computed_again(figures: dict[str, float]) -> None:
    assert figures["gradient with activations computed again"] < 1e-4
