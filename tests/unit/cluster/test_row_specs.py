"""From a dataset row to a trial."""

from pathlib import Path

import pytest

from lego_rl.cluster.names import worker_of
from lego_rl.cluster.specs import RowSpecs
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError
from tests.small_recipe import RECIPE

SAMPLING = {"temperature": 0.7, "top_p": 1.0, "top_k": -1}


@pytest.fixture
def specs(tmp_path: Path) -> RowSpecs:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(state=tmp_path / "state"))
    return RowSpecs(read(Recipe, path, [f"tasks.pool={tmp_path / 'tasks.parquet'}"]))


def row(**changes: object) -> dict[str, object]:
    info = {"harbor_task_path": "tasks/mend-it", "split": "train", "index": 3}
    return {"extra_info": info, "uid": "u-1", "session_id": 1, "global_steps": 4, "family": "swap"} | changes


def test_a_row_says_everything(specs: RowSpecs, tmp_path: Path) -> None:
    spec = specs.of(row(content_digest="abc"), SAMPLING)
    assert spec.task == tmp_path / "tasks" / "mend-it"
    assert (spec.label, spec.group, spec.attempt) == ("train/step-0003", "mend-it.u-1", 1)
    assert (spec.temperature, spec.family, spec.split) == (0.7, "swap", "train")
    assert spec.content_digest == "abc"
    assert spec.harness.name == "claude-code" and spec.budget.turns == 2


def test_the_same_prompt_is_the_same_trial_and_another_is_not(specs: RowSpecs) -> None:
    first = specs.of(row(), SAMPLING)
    assert first.id == specs.of(row(), SAMPLING).id
    others = [row(uid="u-2"), row(session_id=0), row(global_steps=5)]
    assert len({first.id, *(specs.of(other, SAMPLING).id for other in others)}) == 4


def test_what_is_evaluated_is_of_no_training_step(specs: RowSpecs) -> None:
    held = {"harbor_task_path": "/elsewhere/it", "split": "heldout"}
    spec = specs.of(row(extra_info=held, global_steps=0), SAMPLING)
    assert (spec.label, spec.task) == ("heldout/step-0000", Path("/elsewhere/it"))


@pytest.mark.parametrize("extra", [None, {}, {"harbor_task_path": ""}, "text"])
def test_a_row_of_something_else_is_refused(specs: RowSpecs, extra: object) -> None:
    with pytest.raises(ConfigError, match=r"no extra_info\.harbor_task_path"):
        specs.of(row(extra_info=extra), SAMPLING)


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 50}])
def test_sampling_that_cuts_the_distribution_is_refused(specs: RowSpecs, cut: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="cut the distribution"):
        specs.of(row(), SAMPLING | cut)


def test_the_folder_of_a_worker_is_its_number() -> None:
    assert worker_of("agent_loop_worker_12_ab34cd56") == "012"
    assert worker_of("WorkerDict_0:1") == worker_of("") == "local"
