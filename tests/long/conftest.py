"""Where the experiments' runs lie."""

from pathlib import Path

import pytest
from experiments import Experiments


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--runs",
        type=Path,
        help="folder of the experiments' runs: one that is there is continued where it was stopped, and measured"
        " (default: a temporary folder, so that everything is run)",
    )


@pytest.fixture(scope="session")
def experiments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Experiments:
    kept: Path | None = request.config.getoption("--runs")
    return Experiments(kept.resolve() if kept else tmp_path_factory.mktemp("runs"))
