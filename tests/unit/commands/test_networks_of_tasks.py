"""A network that tests cannot have is found before a run begins, for every environment and every task."""

import shutil
from pathlib import Path

import pytest

from lego_rl.commands.recipe_check import load_tasks
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import SandboxError
from lego_rl.sandbox.environments import ENVIRONMENTS
from lego_rl.tasks.pool import load_pool, pool_place

RECIPE = Path(__file__).parents[3] / "recipes" / "demo-claude-code.toml"
NAMED = 'network_mode = "allowlist"\nallowed_hosts = ["db.example"]\n'
PUBLIC = 'network_mode = "public"\n'
REFUSED = {
    ("bubblewrap", PUBLIC): "bubblewrap gives tests no public network",
    ("kubernetes", NAMED): r"pods cannot be given named hosts \(allowed_hosts\)",
}


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pool = load_pool(pool_place("builtin", tmp_path_factory.mktemp("pool")))
    return {split: pool[split][0].path for split in ("train", "heldout")}


@pytest.mark.parametrize("declares", ["train", "heldout"])
@pytest.mark.parametrize("network", [NAMED, PUBLIC], ids=["named", "public"])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_what_cannot_be_had_is_refused_before_a_run(
    environment: str, network: str, declares: str, splits: dict[str, Path], tmp_path: Path
) -> None:
    for split, source in splits.items():
        task = shutil.copytree(source, tmp_path / "pool" / source.name)
        if split == declares:
            text = (task / "task.toml").read_text()
            assert text.count("[verifier]\n") == 1
            (task / "task.toml").write_text(text.replace("[verifier]\n", f"[verifier]\n{network}"))
    recipe = read(
        Recipe,
        RECIPE,
        [
            f"tasks.pool={tmp_path / 'pool'}",
            "rollout.tasks_per_step=1",
            "evaluate.splits={heldout = 1}",
            f"sandbox.environment={environment}",
        ],
    )
    problem = REFUSED.get((environment, network))
    if problem is None:
        assert [task.path.name for task in load_tasks(recipe).train] == [splits["train"].name]
    else:
        with pytest.raises(SandboxError, match=f"task {splits[declares].name} cannot be graded here: {problem}"):
            load_tasks(recipe)
