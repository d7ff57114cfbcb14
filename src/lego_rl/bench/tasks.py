"""What filtering and decontaminating a large pool costs, and how much of what is planted in it is found.

Invariant: what is timed is what ``lego-rl tasks filter`` and ``decontaminate`` do, from files to files; making the
pool is not timed, and happens in other processes. Texts are read from task directories that were just written, so from
memory: a cold disk adds its own time.
"""

import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from lego_rl.bench.tasks_pool import REFERENCE, PoolFiles, PoolSize, planted_kind, write_pool
from lego_rl.tasks.decontaminate.reference import read_reference
from lego_rl.tasks.decontaminate.report import Decontaminated, decontaminate
from lego_rl.tasks.decontaminate.rule import RuleName
from lego_rl.tasks.index.band import Band
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.filter import filter_index
from lego_rl.tasks.index.outcomes import Outcomes

RULES = {"issue": RuleName.ISSUE_TEXT, "patch": RuleName.PATCH}
"""What is planted → the rule that is to find it."""


def measure(size: PoolSize, progress: Callable[[str], None]) -> dict[str, object]:
    """Make a pool, filter and decontaminate it; the keys are described in ``docs/tasks-index.md``."""
    with tempfile.TemporaryDirectory(prefix="lego-rl-bench-") as folder:
        files = write_pool(Path(folder), size, progress)
        progress("filtering")
        filtering, kept = _timed(lambda: _filter(files, size))
        progress("comparing repositories, ids and commits")
        names, _ = _timed(lambda: _decontaminate(files, files.names))
        progress("comparing texts too")
        texts, found = _timed(lambda: _decontaminate(files, files.reference))
    return {
        "tasks": size.candidates,
        "trials": size.candidates * size.attempts,
        "reference": REFERENCE,
        "cores": len(os.sched_getaffinity(0)),
        "kept": kept,
        "seconds": {
            "filter": round(filtering, 2),
            "names": round(names, 2),
            "filter_and_names": round(filtering + names, 2),
            "names_and_texts": round(texts, 2),
            "filter_and_texts": round(filtering + texts, 2),
        },
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **accuracy(found),
    }


def accuracy(found: Decontaminated) -> dict[str, object]:
    """What of the planted copies was found, and what was found that is none.

    Returns:
        ``found``: kind → strength → share of the copies. ``false_positives``: rule → share of the tasks that are not
        made from any of the reference, of other repositories, and of the reference's own.
    """
    hit = {(found.index.ids[each.task], each.rule) for each in found.hits}
    planted: Counter[tuple[str, str]] = Counter()
    caught: Counter[tuple[str, str]] = Counter()
    others: Counter[str] = Counter()
    wrong: Counter[tuple[str, RuleName]] = Counter()
    for name in found.index.ids:
        kind = planted_kind(name)
        if kind is not None:
            planted[kind] += 1
            caught[kind] += (name, RULES[kind[0]]) in hit
        whose = "other_repositories" if not name.startswith("evaluated-") else "same_repository"
        others[whose] += kind is None
        for rule in RULES.values():
            wrong[whose, rule] += kind is None and (name, rule) in hit
    return {
        "found": {
            what: {
                strength: round(caught[what, strength] / count, 3)
                for (whose, strength), count in planted.items()
                if whose == what
            }
            for what in RULES
        },
        "false_positives": {
            rule.value: {whose: round(wrong[whose, rule] / count, 6) for whose, count in others.items() if count}
            for rule in RULES.values()
        },
    }


def _filter(files: PoolFiles, size: PoolSize) -> int:
    band = Band(1, max(1, size.attempts - 1), size.attempts)
    found = filter_index(Index.read(files.index), Outcomes.read(files.outcomes), band)
    kept = found.index.take(found.kept)
    kept.write(files.index.with_name("kept.parquet"))
    return len(kept)


def _decontaminate(files: PoolFiles, reference: Path) -> Decontaminated:
    found = decontaminate(Index.read(files.index), read_reference(str(reference)))
    found.index.take(~found.contaminated).write(files.index.with_name("clean.parquet"))
    return found


def _timed[T](work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    done = work()
    return time.perf_counter() - began, done
