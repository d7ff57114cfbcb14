"""A run directory is of one policy, sampled in one way; what is asked for otherwise is refused before anything runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from lego_rl.commands.named_tasks import named_tasks
from lego_rl.commands.rollout import parse_shard
from lego_rl.commands.sampled_policy import sampled_policy, trained_policy
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError, RunError, TaskError
from lego_rl.harness.base import HarnessBundle
from lego_rl.rollout.choice import CHOICE_FILE, Choice
from lego_rl.rollout.spec import Shard
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.build import build_pool
from lego_rl.tasks.index.build import build_index

CHOSEN = Choice("small@1", "harness 1", 1.0, "0/1")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pool = tmp_path_factory.mktemp("pools") / "pool"
    build_pool(pool, sizes={"heldout": 1})
    return pool


@pytest.mark.parametrize(("text", "shard"), [("0/1", Shard(0, 1)), ("3/4", Shard(3, 4))])
def test_a_shard_is_written_as_a_fraction(text: str, shard: Shard) -> None:
    assert parse_shard(text) == shard


@pytest.mark.parametrize("text", ["", "1", "a/b", "1/1", "-1/2", "1/0", "1/2/3", "¹/2"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="shard"):
        parse_shard(text)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"policy": "small@2"}, "another policy: small@1, and not small@2"),
        ({"harness": "harness 2"}, "another harness: harness 1, and not harness 2"),
        ({"temperature": 0.0}, r"another temperature: 1\.0, and not 0\.0"),
        ({"shard": "1/2"}, "another shard: 0/1, and not 1/2"),
    ],
)
def test_a_folder_goes_on_with_the_same_policy_alone(tmp_path: Path, changed: dict[str, object], problem: str) -> None:
    directory = RunDirectory.make(tmp_path / "run")
    CHOSEN.begin(directory)
    CHOSEN.begin(directory)
    before = (directory.path / CHOICE_FILE).read_bytes()
    with pytest.raises(RunError, match=problem):
        replace(CHOSEN, **changed).begin(directory)  # type: ignore[arg-type]
    assert (directory.path / CHOICE_FILE).read_bytes() == before
    assert Choice.read(directory) == CHOSEN


def test_a_folder_whose_choice_is_damaged_is_refused(tmp_path: Path) -> None:
    directory = RunDirectory.make(tmp_path / "run")
    (directory.path / CHOICE_FILE).write_text('{"tasks": ["one"], "n": 4}')
    with pytest.raises(RunError, match=r"rollout\.json cannot be read"):
        CHOSEN.begin(directory)


def test_a_run_of_training_is_not_gone_on_with(tmp_path: Path) -> None:
    directory = RunDirectory.make(tmp_path / "run")
    directory.recipe.write_text("[run]\n")
    with pytest.raises(RunError, match="holds a run of training"):
        CHOSEN.begin(directory)


def test_a_policy_is_its_weights_how_it_is_sampled_and_its_harness(tmp_path: Path) -> None:
    for name in ("one", "moved/one", "other/one"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "model.safetensors").write_bytes(b"other" if name.startswith("other") else b"one")
    bundle = HarnessBundle("claude-code", "1.2", "a" * 64, tmp_path, 1, "MIT")

    def named(*overrides: str, folder: str = "one", temperature: float = 1.0, hash_: str = "a" * 64) -> str:
        (tmp_path / "recipe.toml").write_text(
            f'[run]\ndir = "r"\n[policy]\npath = "{tmp_path / folder}"\n[harness]\nname = "claude-code"\n'
        )
        recipe = read(Recipe, tmp_path / "recipe.toml", overrides)
        found = sampled_policy(recipe, temperature, tmp_path / folder, replace(bundle, hash=hash_))
        assert found.harness == "claude-code 1.2"
        assert trained_policy(recipe, temperature) != found.policy
        return found.policy

    same = {
        named(),
        named(folder="moved/one"),
        named("run.seed=3", "rollout.concurrency=2", "sandbox.processes=64", "run.steps=1"),
    }
    assert len(same) == 1
    assert min(same).startswith("one@")
    others = {
        named(folder="other/one"),
        named("budget.turns=3"),
        named("engine.dtype=bfloat16"),
        named("harness.options.bare=true"),
        named(temperature=0.7),
        named(hash_="b" * 64),
    }
    assert len(same | others) == 7


def test_tasks_are_named_by_an_index_a_pool_or_one_by_one(pool: Path, tmp_path: Path) -> None:
    folders = sorted(path for path in pool.iterdir() if path.is_dir())
    index, _ = build_index([pool])
    index.write(tmp_path / "tasks.parquet")
    assert named_tasks([pool]) == folders
    assert named_tasks([tmp_path / "tasks.parquet"]) == [folder.resolve() for folder in folders]
    assert named_tasks(folders[:2]) == folders[:2]


def test_two_tasks_of_one_name_are_refused(pool: Path) -> None:
    one = next(path for path in pool.iterdir() if path.is_dir())
    with pytest.raises(TaskError, match="are both called"):
        named_tasks([one, pool])


def test_a_place_without_tasks_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="holds no task directories"):
        named_tasks([tmp_path])
