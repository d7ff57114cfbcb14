"""From a checkout to an index to train on: make, index, validate, rollout, filter, decontaminate, by their commands."""

from pathlib import Path

from lego_rl.tasks.task import Task
from tests.integration.tasks.pool_chain import VERIFIED, Chain
from tests.unit.tasks.make.small_package import FIRST, SECOND, write_checkout


def test_from_a_checkout_to_an_index_to_train_on(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.make(write_checkout(tmp_path / "small", FIRST, SECOND), inject=2, mine=1, repo="me/small")
    assert chain.validated(times=1) == {"empty": {0: 3}, "gold": {1: 3}}
    valid = chain.index("valid")
    assert valid.ids == chain.index("all").ids
    assert set(valid.column("repo").to_pylist()) == {"me/small"}
    assert all(valid.column("base_commit").to_pylist())

    rewards = chain.rolled_out(trials=2)
    assert sum(rewards.values()) == 6 and set(rewards) <= {0, 1}
    everything = chain.filtered("0..2", 2)
    assert [Task.load(path).id for path in everything.paths] == [path.name for path in valid.paths]
    assert len(chain.filtered("1..2", 2)) <= rewards[1]


def test_what_is_not_valid_or_of_verified_does_not_get_through(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    checkout = write_checkout(tmp_path / "work", FIRST)
    with (checkout / ".git" / "config").open("a") as config:
        config.write('[remote "origin"]\n\turl = git@github.com:kennethreitz/requests.git\n')
    assert "they are of the repository psf/requests" in chain.make(checkout, inject=2, mine=0)
    broken, whole = sorted(path.parent for path in (tmp_path / "pool").glob("*/task.toml"))
    gold = broken / "solution" / "gold.patch"
    gold.write_text("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-# small\n+# Small\n")
    chain.validated(times=1)
    assert [path.name for path in chain.index("valid").paths] == [whole.name]
    printed = chain.lego("tasks", "decontaminate", "valid.parquet", "--against", VERIFIED, "--check", code=1)
    assert "psf/requests, a repository of the reference" in printed
