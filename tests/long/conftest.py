"""Where the experiments' runs and vLLM lie."""

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
    parser.addoption(
        "--samples",
        type=Path,
        help="folder of real rows of public data sets, as JSON files with a list `rows` (default: none are tested)",
    )
    parser.addoption(
        "--sdists",
        type=Path,
        help="folder of source distributions of at least five packages (default: none are made into tasks)",
    )
    parser.addoption(
        "--vllm-python",
        type=Path,
        default=Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python",
        help="interpreter of an environment with vLLM (default: the one of `make setup-vllm`)",
    )


@pytest.fixture(scope="session")
def experiments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Experiments:
    kept: Path | None = request.config.getoption("--runs")
    return Experiments(kept.resolve() if kept else tmp_path_factory.mktemp("runs"))
