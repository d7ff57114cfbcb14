"""A run directory is of one choice of tasks; what is asked for otherwise is refused before anything runs."""

from pathlib import Path

import pytest

from lego_rl.commands.named_tasks import named_tasks
from lego_rl.commands.rollout import CHOICE, Choice, _begin, parse_shard
from lego_rl.errors import ConfigError, RunError, TaskError
from lego_rl.rollout.spec import Shard
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.build import build_pool
from lego_rl.tasks.index.build import build_index

CHOSEN = Choice(("one", "two"), 4, 1.0, "0/1")


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
    "other",
    [
        Choice(("one",), 4, 1.0, "0/1"),
        Choice(("one", "two"), 8, 1.0, "0/1"),
        Choice(("one", "two"), 4, 0.0, "0/1"),
        Choice(("one", "two"), 4, 1.0, "1/2"),
    ],
)
def test_a_folder_goes_on_with_the_same_choice_alone(tmp_path: Path, other: Choice) -> None:
    directory = RunDirectory.make(tmp_path / "run")
    _begin(directory, CHOSEN)
    _begin(directory, CHOSEN)
    before = (directory.path / CHOICE).read_bytes()
    with pytest.raises(RunError, match="holds rollouts of other tasks"):
        _begin(directory, other)
    assert (directory.path / CHOICE).read_bytes() == before


def test_a_run_of_training_is_not_gone_on_with(tmp_path: Path) -> None:
    directory = RunDirectory.make(tmp_path / "run")
    directory.recipe.write_text("[run]\n")
    with pytest.raises(RunError, match="holds a run of training"):
        _begin(directory, CHOSEN)


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
