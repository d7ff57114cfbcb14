"""Filtering: which trials count, what is kept, and how the pool is distributed."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import TaskError
from lego_rl.tasks.index.band import Band, Decision
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.filter import NO_REPOSITORY, filter_index, tally_of
from lego_rl.tasks.index.outcomes import Outcomes, TrialOutcome
from lego_rl.tasks.index.schema import IndexRow

BAND = Band(1, 3, 4)


def index_of(*names: str) -> Index:
    return Index.of([IndexRow(name, Path("/p") / name, "made", repo=f"r/{name[0]}") for name in names])


def outcome(task: str, number: int, reward: int | None, ended: str = "finished", **changed: Any) -> TrialOutcome:
    made = TrialOutcome(task, "small@1", "harness 1", "pool", number, number, f"{task}--{number}", reward, ended)
    return replace(made, **changed)


def outcomes_of(**rewards: str) -> Outcomes:
    """Trials of tasks: ``+`` is solved, ``-`` is not, ``?`` is what a fault left."""
    marks = {"+": 1, "-": 0, "?": None}
    return Outcomes.of(
        [
            outcome(task, number, marks[mark], "finished" if mark != "?" else "seal_failed")
            for task, row in rewards.items()
            for number, mark in enumerate(row)
        ]
    )


def test_the_band_is_kept_and_the_rest_is_not() -> None:
    rewards = {"never": "----", "once": "-+--", "twice": "+-+-", "three": "+++-", "always": "++++"}
    found = filter_index(index_of(*rewards), outcomes_of(**rewards), BAND)
    assert found.index.take(found.kept).ids == ["once", "three", "twice"]
    assert found.histogram.tolist() == [1, 1, 1, 1, 1]
    assert not found.undecided.any()


def test_a_fault_is_unknown_and_neither_solved_nor_failed() -> None:
    rewards = {"a": "???-", "b": "+?-?", "c": "????", "d": "", "e": "?++++", "f": "?----"}
    found = filter_index(index_of(*rewards), outcomes_of(**rewards), BAND)
    decisions = dict(zip(found.index.ids, found.decision.tolist(), strict=True))
    assert decisions == {
        "a": Decision.UNDECIDED,
        "b": Decision.IN,  # one of each: whatever the two others say, between one and three are solved
        "c": Decision.UNDECIDED,
        "d": Decision.UNDECIDED,
        "e": Decision.ABOVE,
        "f": Decision.BELOW,
    }
    assert found.tally.unknown.tolist() == [3, 2, 4, 0, 1, 1]
    assert found.most.tolist() == [3, 0, 4, 4, 0, 0]
    assert found.least.tolist() == [1, 0, 2, 2, 0, 0]
    assert found.index.take(found.kept).ids == ["b"]
    assert found.histogram.tolist() == [1, 0, 0, 0, 1]


def test_more_trials_than_asked_for_do_not_change_what_the_first_say() -> None:
    found = filter_index(index_of("a", "b"), outcomes_of(a="?----++++", b="++++----"), BAND)
    assert found.decision.tolist() == [Decision.BELOW, Decision.ABOVE]
    assert found.tally.more.tolist() == [4, 4]
    assert found.tally.known.tolist() == [4, 4]


rows = st.dictionaries(st.sampled_from("abcdefgh"), st.text("+-?", max_size=9), min_size=1)


@given(rows, st.permutations(range(8)))
def test_a_tally_is_that_of_counting_one_by_one(rewards: dict[str, str], order: list[int]) -> None:
    index = index_of(*"abcdef")
    outcomes = outcomes_of(**{name: rewards[name] for _, name in sorted(zip(order, sorted(rewards), strict=False))})
    tally = tally_of(index, outcomes, 4)
    assert tally.elsewhere == sum(len(row) for name, row in rewards.items() if name in "gh")
    for place, name in enumerate("abcdef"):
        row = rewards.get(name, "")
        graded = row.replace("?", "")
        assert tally.solved[place] == Counter(graded[:4])["+"]
        assert tally.known[place] == len(graded[:4])
        assert tally.unknown[place] == row.count("?")
        assert tally.more[place] == len(graded[4:])


def test_the_pool_is_distributed_by_repository_and_source() -> None:
    rewards = {"a1": "----", "a2": "++++", "a3": "+---", "b1": "----", "b2": "??"}
    made = [IndexRow(name, Path("/p") / name, "made", repo=f"r/{name[0]}") for name in rewards]
    made.append(IndexRow("c1", Path("/p/c1"), "other"))
    found = filter_index(Index.of(made), outcomes_of(**rewards), BAND)
    shares = {share.name: share for share in found.shares("repo")}
    assert list(shares) == ["r/a", "r/b", NO_REPOSITORY]
    assert shares["r/a"] == type(shares["r/a"])("r/a", 3, 3, 1, 1, 1, 0)
    assert shares["r/b"] == type(shares["r/b"])("r/b", 2, 1, 1, 0, 0, 1)
    assert [(share.name, share.tasks) for share in found.shares("data_source")] == [("made", 5), ("other", 1)]


def test_the_least_signal_leaves_out_what_teaches_less() -> None:
    rewards = {"once": "+---", "twice": "++--"}
    outcomes = outcomes_of(**rewards)
    found = filter_index(index_of(*rewards), outcomes, BAND)
    once, twice = found.signal.tolist()
    assert once < twice
    strict = filter_index(index_of(*rewards), outcomes, BAND, least_signal=(once + twice) / 2)
    assert strict.index.take(strict.kept).ids == ["twice"]


def test_every_task_has_its_line() -> None:
    found = filter_index(index_of("a", "b"), outcomes_of(a="+-??"), BAND)
    one, other = found.decisions().to_pylist()
    assert {name: one[name] for name in ("decision", "kept", "solved", "known", "unknown", "more_at_most")} == {
        "decision": "in",
        "kept": True,
        "solved": 1,
        "known": 2,
        "unknown": 2,
        "more_at_most": 0,
    }
    assert (other["decision"], other["more_at_best"], other["more_at_most"]) == ("undecided", 2, 4)


def test_tasks_whose_trials_cannot_be_told_apart_are_refused() -> None:
    made = [IndexRow("a", Path("/one/same"), "x"), IndexRow("b", Path("/two/same"), "x")]
    with pytest.raises(TaskError, match=r"trials of /one/same cannot be told from those of /two/same"):
        filter_index(Index.of(made), outcomes_of(same="+"), BAND)


def test_trials_of_another_pool_are_refused() -> None:
    with pytest.raises(TaskError, match="none of 4 trials is of a task of the index"):
        filter_index(index_of("a"), outcomes_of(b="+-+-"), BAND)
    assert filter_index(index_of("a"), Outcomes.of([]), BAND).undecided.tolist() == [True]


def test_outcomes_are_read_as_they_were_written(tmp_path: Path) -> None:
    outcomes = outcomes_of(b="-?+", a="+")
    outcomes.write(tmp_path / "outcomes.parquet")
    assert Outcomes.read(tmp_path / "outcomes.parquet").table.equals(outcomes.table)
    assert outcomes.table["task"].to_pylist() == ["a", "b", "b", "b"]
    assert outcomes.table["reward"].to_pylist() == [1, 0, None, 1]


def test_a_trial_counts_once_and_has_one_outcome() -> None:
    outcomes = outcomes_of(a="+-")
    both = Outcomes.joined([outcomes.table, outcomes.table])
    assert (len(both), both.repeated, outcomes.repeated) == (2, 2, 0)
    with pytest.raises(TaskError, match="the trial a--1 has more than one outcome"):
        Outcomes.joined([outcomes.table, outcomes_of(a="++").table])


def test_what_was_sampled_once_counts_once_whatever_its_trial_is_called() -> None:
    one, other = outcome("a", 0, 1), outcome("a", 0, 1, trial="of-another-split")
    assert len(Outcomes.of([one, other])) == 1
    further = [outcome("a", 0, 1, seed=7), outcome("a", 4, 1), outcome("a", 0, 0, policy="small@2")]
    assert len(Outcomes.of([one, *further])) == 4


def test_a_reward_stands_for_what_a_fault_left_in_another_run() -> None:
    first, again = outcomes_of(a="?-?").table, outcomes_of(a="+??").table
    for tables in ([first, again], [again, first]):
        assert Outcomes.joined(tables).table["reward"].to_pylist() == [1, 0, None]


def test_labels_choose_trials() -> None:
    labels = ("train", "train/step-0001", "training", "heldout")
    outcomes = Outcomes.of([outcome("a", 0, 1, label=label) for label in labels])
    assert outcomes.chosen(labels=["train"]).table["label"].to_pylist() == ["train", "train/step-0001"]
    assert len(outcomes.chosen(labels=["training", "heldout"])) == 2
    with pytest.raises(TaskError, match=r"are of 4 labels: heldout \(1\), train \(1\)"):
        outcomes.chosen()
    with pytest.raises(TaskError, match="no trial of the label rollout"):
        outcomes.chosen(labels=["train", "rollout"])


def test_policies_are_counted_together_only_where_each_is_named() -> None:
    outcomes = Outcomes.of([outcome("a", 0, 1), outcome("a", 1, 0), outcome("a", 0, 0, policy="large@2")])
    with pytest.raises(TaskError, match=r"are of 2 policies: small@1 \(2\), large@2 \(1\)") as raised:
        outcomes.chosen()
    assert "--policy NAME" in raised.value.fix
    assert outcomes.chosen(["small@1"]).table["reward"].to_pylist() == [1, 0]
    assert len(outcomes.chosen(["small@1", "large@2"])) == 3
    assert [(part.policy, part.trials) for part in outcomes.parts()] == [("large@2", 1), ("small@1", 2)]
    with pytest.raises(TaskError, match="no trial of the policy small"):
        outcomes.chosen(["small"])


def test_policies_that_are_counted_together_take_turns() -> None:
    one = [outcome("a", number, 1, policy="one@1") for number in range(4)]
    two = [outcome("a", number, 0, policy="two@2") for number in range(4)]
    outcomes = Outcomes.of([*one, *two]).chosen(["one@1", "two@2"])
    assert outcomes.table["reward"].to_pylist() == [1, 0] * 4
    tally = tally_of(index_of("a"), outcomes, 4)
    assert (tally.solved.tolist(), tally.known.tolist(), tally.more.tolist()) == ([2], [4], [4])


def test_a_label_comes_before_the_next_whatever_its_policies() -> None:
    made = [outcome("a", number, 1, label=label) for label in ("second", "first") for number in range(2)]
    made.append(outcome("a", 0, 0, label="first", policy="another@1"))
    chosen = Outcomes.of(made).chosen(["small@1", "another@1"], ["first", "second"])
    assert chosen.table["reward"].to_pylist() == [0, 1, 1, 1, 1]


def test_what_stands_twice_is_counted_of_the_chosen_policy_alone() -> None:
    table = Outcomes.of([outcome("a", 0, 1), outcome("a", 1, 1), outcome("a", 0, 0, policy="large@2")]).table
    both = Outcomes.joined([table, table])
    assert both.repeated == 3
    assert (both.chosen(["small@1"]).repeated, both.chosen(["large@2"]).repeated) == (2, 1)


def test_a_group_of_training_has_its_own_size() -> None:
    rewards = {"once": "+---", "twice": "++--"}
    four, eight = (filter_index(index_of(*rewards), outcomes_of(**rewards), BAND, group=n) for n in (None, 8))
    assert (four.group, eight.group) == (4, 8)
    assert eight.signal.tolist() != four.signal.tolist()


def test_what_holds_no_outcomes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.parquet"
    with pytest.raises(TaskError, match="is not a Parquet file"):
        Outcomes.read(path)
    table = outcomes_of(a="+").table
    pq.write_table(table.replace_schema_metadata(None), path)
    with pytest.raises(TaskError, match="holds no outcomes"):
        Outcomes.read(path)
    pq.write_table(table.replace_schema_metadata({b"lego_rl_outcomes": b"1"}), path)
    with pytest.raises(TaskError, match="has outcomes of version 1"):
        Outcomes.read(path)
    pq.write_table(table.drop_columns(["ended"]), path)
    with pytest.raises(TaskError, match="does not have the columns of outcomes"):
        Outcomes.read(path)
    at = table.schema.get_field_index("reward")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(np.array([2], dtype=np.int8))), path)
    with pytest.raises(TaskError, match="a reward that is neither 0 nor 1"):
        Outcomes.read(path)
