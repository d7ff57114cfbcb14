"""Makes tasks of a source: bugs put into its newest state, and fixes found in its history."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl import durable
from lego_rl.errors import TaskError
from lego_rl.tasks.make.account import Account
from lego_rl.tasks.make.elsewhere import check_own
from lego_rl.tasks.make.inject.run import inject
from lego_rl.tasks.make.journal import Findings
from lego_rl.tasks.make.mine.run import mine
from lego_rl.tasks.make.origin import confirmed, repository_of
from lego_rl.tasks.make.running import Runner
from lego_rl.tasks.make.source import Source, open_source
from lego_rl.tasks.make.tree import Tree
from lego_rl.tasks.make.workshop import Watcher, Workshop
from lego_rl.tasks.staging import remove_leftovers

FINDINGS = ".make"
"""Folder of a pool that keeps what is known already."""


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    Attributes:
        inject: Tasks by injection, at most.
        mine: Tasks from the history, at most.
        seed: Chooses among candidates.
        at_once: Test runs at a time.
        repository: Of the source, ``owner/name``, in place of what the source says; a source that says a known one is
            of that one, and naming another is refused.
    """

    inject: int
    mine: int
    seed: int = 0
    at_once: int = 2
    repository: str | None = None


async def make_tasks(paths: Sequence[Path], pool: Path, wish: Wish, runner: Runner, watcher: Watcher) -> Account:
    """Make tasks of one source and write them below `pool`, with a report beside them.

    Args:
        paths: A git checkout, a folder, or source distributions of one package.
        pool: The folder that task directories are written to; there may be some of other sources.
        wish: What is asked for.
        runner: Where tests run.
        watcher: Is told how far the work is.

    Raises:
        TaskError: The source cannot be read, is of another repository than is named, its tests do not run, or the
            files of a task are no task directory.
        OSError: The disk does not take it.
        SandboxError: The runs could not be had.
    """
    source = await asyncio.to_thread(open_source, paths)
    await asyncio.to_thread(lambda: pool.mkdir(parents=True, exist_ok=True))
    await asyncio.to_thread(remove_leftovers, pool)
    account = await asyncio.to_thread(_account, source, wish.repository)
    findings = Findings(pool / FINDINGS / f"{source.name}.jsonl", runner.sandboxes)
    shop = Workshop(runner, findings, pool, account, watcher, wish.seed, wish.at_once)
    try:
        await _made(shop, source, wish)
    finally:
        durable.write_text(pool / report_name(source.name), json.dumps(account.as_json(), indent=2) + "\n")
    return account


def _account(source: Source, repository: str | None) -> Account:
    said = repository_of(source.newest(), source.remotes, source.distribution)
    return Account(source.name, source.label, said if repository is None else confirmed(repository, said))


def report_name(package: str) -> str:
    """The report's file in the pool."""
    return f"make-{package}.json"


async def _made(shop: Workshop, source: Source, wish: Wish) -> None:
    tree = source.newest()
    if not tree.modules:
        raise TaskError(f"{source.name} has no Python code outside of its tests", "name the top folder of a package")
    await _check_own(shop, tree)
    shop.watcher.doing(f"finding out how the tests of {source.name} {source.label} are run")
    if wish.inject:
        shop.account.suite = await shop.suite(tree)
        await inject(shop, tree, shop.account.suite, wish.inject)
    if wish.mine:
        await mine(shop, source, wish.mine)


async def _check_own(shop: Workshop, tree: Tree) -> None:
    if shop.findings.get("own", tree.digest) is None:
        await check_own(tree, await shop.bench(tree))
        shop.findings.put(True, "own", tree.digest)
