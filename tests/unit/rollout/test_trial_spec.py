"""Specifications: ids are deterministic, safe as file names, and never shared by two trials."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import ConfigError
from lego_rl.gateway.budget import Budget
from lego_rl.rollout.spec import SPEC_JSON, Grading, HarnessChoice, Shard, TrialSpec

BASE = TrialSpec(
    task=Path("tasks/rename-01"),
    label="train/step-0003",
    attempt=0,
    attempts=8,
    seed=1,
    temperature=1.0,
    budget=Budget(turns=8),
    harness=HarnessChoice("claude-code", {"bare": True, "tools": ["Bash", "Edit"]}),
)

DIFFERENT = [
    replace(BASE, label="heldout/before"),
    replace(BASE, label="train/step-00031"),
    replace(BASE, task=Path("tasks/rename-02"), group="rename-01"),
    replace(BASE, group="other"),
    replace(BASE, attempt=1),
    replace(BASE, seed=2),
    replace(BASE, temperature=0.5),
    replace(BASE, budget=Budget(turns=9)),
    replace(BASE, harness=HarnessChoice("openhands-sdk")),
    replace(BASE, harness=HarnessChoice("claude-code", {"bare": False})),
    replace(BASE, grading=Grading.NONE),
    replace(BASE, family="wrong_name"),
    replace(BASE, split="unseen"),
    replace(BASE, content_digest="0" * 64),
    replace(BASE, content_digest="1" * 64),
]


def test_every_field_counts_in_the_id() -> None:
    ids = {spec.id for spec in [BASE, *DIFFERENT]}
    assert len(ids) == len(DIFFERENT) + 1


def test_a_group_that_grows_keeps_its_trials() -> None:
    assert replace(BASE, attempts=9).id == BASE.id


def test_an_id_is_the_same_in_every_process_and_place() -> None:
    assert BASE.id == "train.step-0003--rename-01--000--" + BASE.digest[:12]
    assert replace(BASE, task=Path("/elsewhere/rename-01")).id == BASE.id
    assert replace(BASE, temperature=1).id == BASE.id


@given(name=st.text(min_size=1, max_size=80), group=st.text(max_size=300))
def test_an_id_is_a_file_name_whatever_a_task_is_called(name: str, group: str) -> None:
    spec = replace(BASE, task=Path("tasks") / name, group=group)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", spec.id)


@given(st.sampled_from([BASE, *DIFFERENT]))
def test_a_specification_comes_back_from_json(spec: TrialSpec) -> None:
    assert SPEC_JSON.validate_json(SPEC_JSON.dump_json(spec)) == spec


@pytest.mark.parametrize("label", ["", "/train", "train/", "a//b", "../x", "a/../b", "a b", ".hidden"])
def test_a_label_that_is_no_path_of_names_is_refused(label: str) -> None:
    with pytest.raises(ConfigError, match="label"):
        replace(BASE, label=label)


@pytest.mark.parametrize("attempt", [-1, 8])
def test_an_attempt_outside_its_group_is_refused(attempt: int) -> None:
    with pytest.raises(ConfigError, match="outside the group of 8"):
        replace(BASE, attempt=attempt)


@given(groups=st.lists(st.integers(0, 9), max_size=40), count=st.integers(1, 7))
def test_shards_part_a_batch_into_whole_groups(groups: list[int], count: int) -> None:
    specs = [replace(BASE, group=f"g{group}", seed=number) for number, group in enumerate(groups)]
    parts = [Shard(index, count).of(specs) for index in range(count)]
    assert sorted(spec.id for part in parts for spec in part) == sorted(spec.id for spec in specs)
    owners = [{spec.group for spec in part} for part in parts]
    assert sum(map(len, owners)) == len(set(groups))
    fewer = [Shard(index, count).of(specs[::2]) for index in range(count)]
    assert all({spec.group for spec in part} <= owner for part, owner in zip(fewer, owners, strict=True))


def test_shards_share_the_work() -> None:
    specs = [replace(BASE, group=f"task-{number:04}") for number in range(400)]
    assert all(70 < len(Shard(index, 4).of(specs)) < 130 for index in range(4))


@pytest.mark.parametrize(("index", "count"), [(-1, 2), (2, 2), (0, 0)])
def test_a_shard_that_does_not_exist_is_refused(index: int, count: int) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        Shard(index, count)
