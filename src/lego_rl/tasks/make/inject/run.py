"""Makes tasks of a tree by injection until there are enough, or nothing is left to try.

Invariant: which bugs are tried, and in which order, follows from the tree and the seed alone: what is tried together is
chosen before anything of it is known, however fast the machine is.
"""

import asyncio

from lego_rl.tasks.at_once import all_of
from lego_rl.tasks.make.evidence import evidence_of
from lego_rl.tasks.make.inject.candidates import Mutant, Order, mutants
from lego_rl.tasks.make.inject.trial import Trial, try_mutant, visible_tests
from lego_rl.tasks.make.issue import issue_text, ordered, shows_fix
from lego_rl.tasks.make.running import Bench
from lego_rl.tasks.make.suite import Suite
from lego_rl.tasks.make.tree import Tree
from lego_rl.tasks.make.workshop import Workshop, task_id
from lego_rl.tasks.make.writing import Found

WAVE = 4
"""Bugs that are tried together."""
TRIES = 30
"""Candidates for each task that is asked for, at most."""
KIND = "injected"


async def inject(shop: Workshop, tree: Tree, suite: Suite, wanted: int) -> None:
    """Write up to `wanted` tasks.

    Raises:
        SandboxError: The runs could not be had.
        TaskError: The files of a task are no task directory.
        OSError: The disk does not take it.
    """
    bench = await shop.bench(tree)
    order = Order(await asyncio.to_thread(lambda: list(mutants(tree))), shop.seed)
    made = shop.account.tasks[KIND]
    while len(made) < wanted and shop.account.tried[KIND] < TRIES * wanted:
        wave = [mutant for mutant in (order.next() for _ in range(WAVE)) if mutant is not None]
        if not wave:
            return
        shop.watcher.doing(f"injecting: {len(made)} of {wanted} tasks, {shop.account.tried[KIND]} bugs tried")
        trials = await all_of(_tried(shop, tree, bench, suite, mutant) for mutant in wave)
        for mutant, trial in zip(wave, trials, strict=True):
            if len(made) >= wanted:
                return
            shop.account.tried[KIND] += 1
            reason = trial.rejected or _written(shop, tree, suite, mutant, trial)
            match reason:
                case None:
                    order.accepted(mutant)
                case "unnoticed":
                    order.unnoticed(mutant)
                case "same_meaning" | "copied":  # before any test was run
                    order.untried(mutant)
                case _:
                    order.noticed(mutant)
            if reason is not None:
                shop.account.reject(KIND, reason)


async def _tried(shop: Workshop, tree: Tree, bench: Bench, suite: Suite, mutant: Mutant) -> Trial:
    key = (KIND, tree.digest, suite.command(tree), mutant.id)
    known = shop.findings.get(*key)
    if known is not None:
        return Trial(known["rejected"], known["failures"])
    trial = await try_mutant(tree, bench, suite, mutant)
    shop.findings.put({"rejected": trial.rejected, "failures": dict(trial.failures)}, *key)
    return trial


def _written(shop: Workshop, tree: Tree, suite: Suite, mutant: Mutant, trial: Trial) -> str | None:
    """Write the task, or say why it is none after all."""
    failing = frozenset(trial.failures)
    found = [evidence_of(tree, test, text) for test, text in trial.failures.items()]
    told = ordered([each for each in found if each is not None])
    if not told:
        return "not_told"
    account = shop.account
    bugged = mutant.content(tree)
    assert bugged is not None
    text = issue_text(account.package, account.label, told, seed=f"{shop.seed}/{mutant.id}")
    hidden = sorted({test.partition("::")[0] for test in failing})
    task = Found(
        id=task_id(account.package, account.label, mutant.family, mutant.id[:8]),
        kind=KIND,
        family=mutant.family,
        package=account.package,
        repository=account.repository,
        label=account.label,
        state=account.label,
        instruction=text,
        tree=tree.with_files({mutant.path: bugged, **visible_tests(tree, failing)}),
        fix={mutant.path: tree.files[mutant.path]},
        hidden={path: tree.files[path] for path in hidden},
        fail_to_pass=tuple(sorted(failing)),
        pass_to_pass=tuple(sorted(suite.stable - failing)),
        command=suite.command(tree),
        suite_sec=suite.seconds,
    )
    if shows_fix(text, task.gold_patch) is not None:
        return "tells_fix"
    shop.write(task, mutant.path)
    return None
