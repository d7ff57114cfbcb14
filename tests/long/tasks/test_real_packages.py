"""Tasks of real packages, from source distributions to an index, by the commands: ``--sdists FOLDER``.

The folder holds source distributions, ``NAME-VERSION.tar.gz``, of at least five packages; of several releases of one,
the later ones bring fixes to mine. They are other people's, so none is kept here; `scripts/demo_real.py` fetches some.
"""

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from packaging.utils import parse_sdist_filename

from lego_rl.tasks.task import Task
from tests.integration.tasks.pool_chain import Chain

INJECT, MINE = 8, 5
TIMES, TRIALS = 3, 2


@pytest.fixture
def packages(request: pytest.FixtureRequest) -> dict[str, list[Path]]:
    folder: Path | None = request.config.getoption("--sdists")
    if folder is None:
        pytest.skip("name a folder of source distributions with --sdists")
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.resolve().glob("*.tar.gz")):
        found[parse_sdist_filename(path.name)[0]].append(path)
    assert len(found) >= 5, f"{folder} holds source distributions of {len(found)} packages"
    return found


@pytest.mark.timeout(4 * 3600)
def test_tasks_of_real_packages_are_valid_three_times_and_go_all_the_way(
    packages: dict[str, list[Path]], tmp_path: Path
) -> None:
    chain = Chain(tmp_path)
    for archives in packages.values():
        chain.make(*archives, inject=INJECT, mine=MINE)
    rewards = chain.validated(TIMES)
    valid = chain.index("valid")
    kinds = Counter(valid.column("source_format").to_pylist())
    print(dict(kinds), dict(rewards))
    assert len(valid) == len(chain.index("all"))
    assert kinds["injected"] >= 40
    assert kinds["mined"] >= 10
    assert rewards == {"empty": {0: TIMES * len(valid)}, "gold": {1: TIMES * len(valid)}}
    assert len({task.source.repo for task in map(Task.load, valid.paths) if task.source}) >= 5

    tried = chain.rolled_out(TRIALS)
    print(dict(tried))
    assert tried[0] + tried[1] == TRIALS * len(valid)
    assert len(chain.filtered(f"0..{TRIALS}", TRIALS)) == len(valid)
    assert len(chain.filtered(f"1..{TRIALS}", TRIALS)) <= tried[1]
