"""Writes the made-up pool that the benchmark measures: task directories, their index, outcomes and a reference.

Invariant: what is planted says by name what it is, and in nothing that a rule reads: its repository is none of the
reference's. Processes of their own write, so that what they need is no part of what is measured.
"""

import json
import multiprocessing
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lego_rl.bench.tasks_corpus import Hunk, Issue, issue, patch, patch_text, repositories
from lego_rl.bench.tasks_planted import ISSUES, PATCHES
from lego_rl.bench.tasks_words import Language, Repository
from lego_rl.tasks.content import directory_digest, naming_digest, texts_digest
from lego_rl.tasks.decontaminate.normal import issue_digest, patch_digest
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.outcomes import Outcomes, TrialOutcome
from lego_rl.tasks.index.schema import IndexRow

REPOSITORIES = 3_000
EVALUATED = 12
"""Repositories of the reference."""

REFERENCE = 500
KIN = 18
"""Every so many tasks one is of a repository of the reference, and not made from any of its tasks."""

NEVER, ALWAYS, UNKNOWN = 0.727, 0.134, 0.02
"""Shares of tasks that are never and always solved, and of trials that a fault took."""

_AT_ONCE = 1_000

_CONFIG = """schema_version = "1.4"

[metadata.source]
format = "made"
instance_id = "{name}"
repo = "{repo}"
base_commit = "{commit}"

[environment]
docker_image = "{image}"
"""


@dataclass(frozen=True)
class PoolSize:
    """How much is made.

    Attributes:
        candidates: Tasks, what is planted among them.
        attempts: Trials of each.
        seed: Another one makes another pool.
        planted: Changed copies of each strength.
    """

    candidates: int
    attempts: int
    seed: int
    planted: int = 40


@dataclass(frozen=True)
class PoolFiles:
    """Where everything lies.

    Attributes:
        index: The index of the pool.
        outcomes: Its trials.
        reference: Rows of the reference, as JSON lines.
        names: The same without texts.
    """

    index: Path
    outcomes: Path
    reference: Path
    names: Path


def planted_kind(instance_id: str) -> tuple[str, str] | None:
    """What is planted in a task: ``issue`` or ``patch``, and how it is changed; ``None`` for nothing."""
    kind, _, rest = instance_id.partition("__")
    return (kind.removeprefix("planted-"), rest.rpartition("__")[0]) if kind.startswith("planted-") else None


def write_pool(folder: Path, size: PoolSize, progress: Callable[[str], None]) -> PoolFiles:
    """Write it all below a folder.

    Args:
        folder: An empty folder.
        size: How much.
        progress: Is told what is being done.
    """
    rows: list[IndexRow] = []
    firsts = range(0, size.candidates, _AT_ONCE)
    parts = [(folder, size, first) for first in firsts]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for part in pool.map(_write_part, parts):
            rows += part
            progress(f"made {len(rows):,} of {size.candidates:,} tasks")
    files = PoolFiles(*(folder / name for name in ("index.parquet", "outcomes.parquet", "rows.jsonl", "names.jsonl")))
    Index.of(rows).write(files.index)
    _outcomes(rows, size).write(files.outcomes)
    _write_reference(files, size.seed)
    return files


def _write_part(part: tuple[Path, PoolSize, int]) -> list[IndexRow]:
    folder, size, first = part
    draw = random.Random(f"{size.seed}/{first}")
    return [_write_task(folder, size, number, draw) for number in range(first, min(size.candidates, first + _AT_ONCE))]


def _write_task(folder: Path, size: PoolSize, number: int, draw: random.Random) -> IndexRow:
    everybody, evaluated = _known(size.seed)
    repository = evaluated[number // KIN % EVALUATED] if number % KIN == 0 else draw.choice(everybody)
    issue_text, change = issue(draw, repository).text(), patch_text(patch(draw, repository))
    name = f"{repository.name.replace('/', '__')}-{number}"
    strengths = [("issue", each) for each in ISSUES] + [("patch", each) for each in PATCHES]
    if number < len(strengths) * size.planted:
        kind, strength = strengths[number // size.planted]
        origin, original, hunks = reference_task(size.seed, draw.randrange(REFERENCE))
        repository = draw.choice(everybody)
        name = f"planted-{kind}__{strength}__{number}"
        if kind == "issue":
            issue_text = ISSUES[strength](draw, original, origin)
        else:
            change = PATCHES[strength](draw, hunks, origin)
    path = folder / "pool" / f"task-{number:06d}"
    (path / "solution").mkdir(parents=True)
    (path / "instruction.md").write_text(issue_text, encoding="utf-8")
    (path / "solution" / "gold.patch").write_text(change, encoding="utf-8")
    commit = f"{draw.getrandbits(160):040x}"
    image = f"made/sweb.eval.x86_64.{repository.name.replace('/', '_1776_')}-{number}:latest"
    (path / "task.toml").write_text(
        _CONFIG.format(name=name, repo=repository.name, commit=commit, image=image), encoding="utf-8"
    )
    return IndexRow(
        instance_id=name,
        path=path,
        data_source="made",
        repo=repository.name,
        base_commit=commit,
        image=image,
        issue_digest=issue_digest(issue_text),
        patch_digest=patch_digest(change),
        content_digest=directory_digest(path),
        naming_digest=naming_digest(path),
        texts_digest=texts_digest(issue_text, change),
    )


@cache
def _known(seed: int) -> tuple[list[Repository], list[Repository]]:
    """Repositories of the pool, and of the reference."""
    language = Language(seed)
    evaluated = [Repository(f"evaluated-{number}/held-{number}", language) for number in range(EVALUATED)]
    return repositories(language, REPOSITORIES), evaluated


def reference_task(seed: int, number: int) -> tuple[Repository, Issue, tuple[Hunk, ...]]:
    """A task of the reference; a few repositories have most of them."""
    draw = random.Random(f"{seed}/reference/{number}")
    repository = _known(seed)[1][min(EVALUATED - 1, int(draw.expovariate(0.4)))]
    return repository, issue(draw, repository), patch(draw, repository)


def _outcomes(rows: Sequence[IndexRow], size: PoolSize) -> Outcomes:
    draw = random.Random(f"{size.seed}/outcomes")
    trials = []
    for row in rows:
        name, kind = row.path.name, draw.random()
        rate = 0.0 if kind < NEVER else 1.0 if kind < NEVER + ALWAYS else draw.random()
        for attempt in range(size.attempts):
            reward = None if draw.random() < UNKNOWN else int(draw.random() < rate)
            ended = "sandbox_start" if reward is None else "finished"
            trials.append(
                TrialOutcome(name, "made@0", "made 1", "pool", attempt, attempt, f"{name}--{attempt}", reward, ended)
            )
    return Outcomes.of(trials)


def _write_reference(files: PoolFiles, seed: int) -> None:
    draw = random.Random(f"{seed}/commits")
    with files.reference.open("w", encoding="utf-8") as whole, files.names.open("w", encoding="utf-8") as names:
        for number in range(REFERENCE):
            repository, words, hunks = reference_task(seed, number)
            row = {
                "instance_id": f"{repository.name.replace('/', '__')}-{100_000 + number}",
                "repo": repository.name,
                "base_commit": f"{draw.getrandbits(160):040x}",
            }
            names.write(json.dumps(row) + "\n")
            whole.write(json.dumps(row | {"problem_statement": words.text(), "patch": patch_text(hunks)}) + "\n")
