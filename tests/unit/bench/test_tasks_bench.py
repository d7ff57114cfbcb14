"""The benchmark of the pool: its corpus is honest, and its figures are of what was found."""

import random
from collections import Counter
from pathlib import Path

import pytest

from lego_rl.bench.tasks import accuracy, measure
from lego_rl.bench.tasks_corpus import issue, patch, patch_text, repositories
from lego_rl.bench.tasks_planted import ISSUES, PATCHES
from lego_rl.bench.tasks_pool import PoolSize, planted_kind
from lego_rl.bench.tasks_words import Language
from lego_rl.tasks.decontaminate.report import Decontaminated
from lego_rl.tasks.decontaminate.rule import Hit, RuleName
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.schema import IndexRow


def test_texts_are_as_long_as_real_ones_and_share_words_as_they_do() -> None:
    draw = random.Random(0)
    made = repositories(Language(), 60)
    issues = [issue(draw, each).text() for each in made * 4]
    patches = [patch_text(patch(draw, each)) for each in made * 4]
    assert 1_200 < sum(map(len, issues)) / len(issues) < 1_800
    assert 1_600 < sum(map(len, patches)) / len(patches) < 2_400
    runs = Counter(
        run for text in issues for run in {tuple(text.split()[at : at + 3]) for at in range(len(text.split()) - 2)}
    )
    often = [run for run, count in runs.items() if count > len(issues) // 50]
    assert len(often) > 100  # templates, tracebacks, versions and phrases


def test_the_same_seed_gives_the_same_texts() -> None:
    texts = [issue(random.Random(1), repositories(Language(seed), 3)[2]).text() for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


def test_figures_are_of_what_was_found() -> None:
    names = [
        "planted-issue__moved__0",
        "planted-issue__moved__1",
        "evaluated-3__held-3-9",
        "owner-1__made-1-7",
        "owner-1__made-1-8",
    ]
    index = Index.of([IndexRow(name, Path("/p") / name, "made") for name in names])
    places = {name: place for place, name in enumerate(index.ids)}
    hits = [
        Hit(places["planted-issue__moved__0"], RuleName.ISSUE_TEXT, "x", ""),
        Hit(places["planted-issue__moved__1"], RuleName.PATCH, "x", ""),
        Hit(places["owner-1__made-1-7"], RuleName.ISSUE_TEXT, "x", ""),
        Hit(places["evaluated-3__held-3-9"], RuleName.REPOSITORY, "x", ""),
    ]
    assert planted_kind(names[0]) == ("issue", "moved")
    assert accuracy(Decontaminated(index, hits, [], frozenset(), 2)) == {
        "found": {"issue": {"moved": 0.5}, "patch": {}},
        "false_positives": {
            "issue-text": {"same_repository": 0.0, "other_repositories": 0.5},
            "patch": {"same_repository": 0.0, "other_repositories": 0.0},
        },
    }


def test_a_small_pool_is_measured() -> None:
    said: list[str] = []
    figures = measure(PoolSize(400, 4, 0, planted=10), said.append)
    assert "comparing texts too" in said
    found, wrong = figures["found"], figures["false_positives"]
    assert isinstance(found, dict)
    assert isinstance(wrong, dict)
    assert set(found["issue"]) == set(ISSUES)
    assert set(found["patch"]) == set(PATCHES)
    assert min(found["issue"][name] for name in ("reposted", "wrapped", "moved", "half", "20 % of words")) == 1.0
    assert min(found["patch"][name] for name in ("reapplied", "reversed", "indented")) >= 0.9
    assert found["issue"]["rewritten"] == found["patch"]["all names"] == 0.0
    assert wrong["issue-text"]["other_repositories"] == 0.0
    seconds = figures["seconds"]
    assert isinstance(seconds, dict)
    assert seconds["filter_and_names"] == pytest.approx(seconds["filter"] + seconds["names"], abs=0.02)
    assert figures["trials"] == 1_600
