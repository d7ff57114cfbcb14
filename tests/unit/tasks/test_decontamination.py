"""Every kind of contamination is found, by its rule and with its reason, and a clean set is clean."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lego_rl.bench.tasks_corpus import Issue, issue, patch, patch_text, repositories
from lego_rl.bench.tasks_planted import ISSUES, PATCHES
from lego_rl.bench.tasks_words import Language, Repository
from lego_rl.errors import ConfigError, TaskError
from lego_rl.tasks.decontaminate.normal import issue_digest, patch_digest
from lego_rl.tasks.decontaminate.reference import read_reference
from lego_rl.tasks.decontaminate.reference_task import ReferenceTask
from lego_rl.tasks.decontaminate.report import decontaminate, rules_named
from lego_rl.tasks.decontaminate.rule import RuleName
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.schema import IndexRow

BASE = "86d3f0e2a0b1c4d5e6f708192a3b4c5d6e7f8091"
KIN = Repository("sympy/sympy", Language(1))
WORDS: Issue = issue(random.Random(1), KIN)
HUNKS = patch(random.Random(2), KIN)
EVALUATED = (
    ReferenceTask("sympy__sympy-20212", "sympy/sympy", BASE, issue=WORDS.text(), patch=patch_text(HUNKS)),
    ReferenceTask("psf__requests-1142", "psf/requests", "22623bd8c265b78b161542663ee980738441c307"),
    ReferenceTask("pylint-dev__pylint-4551", "pylint-dev/pylint", "99589b08de8c5a2c6cc61e13a37420a868c80599"),
    ReferenceTask("biolab__orange3-3530", "biolab/orange3", "8b6ce5a2b1d3e4f5061728394a5b6c7d8e9f0a1b"),
    ReferenceTask("nedbat__coveragepy-77", "nedbat/coveragepy", "1c2d3e4f5061728394a5b6c7d8e9f0a1b2c3d4e5"),
    ReferenceTask("unidata__netcdf-c-1925", "Unidata/netcdf-c", "ad6bff35c39a0600fb8f2e176be4269e768e4e22"),
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def write_task(place: Path, row: IndexRow, words: str = "", change: str = "") -> IndexRow:
    """A task directory with what decontamination reads, and its row."""
    path = place / "pool" / f"{len(list(place.glob('pool/*'))):03d}"
    (path / "solution").mkdir(parents=True)
    (path / "instruction.md").write_text(words)
    (path / "solution" / "gold.patch").write_text(change)
    return replace(row, path=path, issue_digest=issue_digest(words), patch_digest=patch_digest(change))


def row(instance: str = "made__made-1", repo: str | None = "made/made", **more: Any) -> IndexRow:
    return IndexRow(instance, Path("unwritten"), "made", repo=repo, **more)


PLANTED = [
    ("the repository itself", row(repo="sympy/sympy"), {"repository"}),
    ("letter case", row(repo="SymPy/sympy"), {"repository"}),
    ("a mirror of SWE-smith", row(repo="swesmith/sympy__sympy.2ab64612"), {"repository"}),
    ("an id of SWE-smith", row("sympy__sympy.2ab64612.func_pm_op__8ydjb2x2", None), {"repository"}),
    ("a bare name of R2E", row(repo="sympy"), {"repository"}),
    ("a bare name with an owner in the table", row(repo="orange3"), {"repository"}),
    ("a bare name whose owner changed", row(repo="coveragepy"), {"repository"}),
    ("a bare name that no table knows", row(repo="netcdf-c"), {"repository"}),
    ("an image of R2E", row(repo=None, image="namanjain12/orange3_final:0123456789"), {"repository"}),
    ("an old owner", row(repo="kennethreitz/requests"), {"repository"}),
    ("another old owner", row(repo="PyCQA/pylint"), {"repository"}),
    ("an address", row(repo="https://github.com/psf/requests.git"), {"repository"}),
    ("a fork", row(repo="somebody/sympy"), {"fork"}),
    ("a fork of a renamed one", row(repo="somebody/requests"), {"fork"}),
    ("only the id says so", row("sympy__sympy-7", "made/made"), {"repository"}),
    ("only the image says so", row(image="x/sweb.eval.x86_64.sympy_1776_sympy-7:latest"), {"repository"}),
    ("with _s_", row(image="xingyaoww/sweb.eval.x86_64.sympy_s_sympy-7:latest"), {"repository"}),
    ("with __", row(image="sweb.eval.x86_64.sympy__sympy-7"), {"repository"}),
    ("a mirror's image", row(image="jyangballin/swesmith.x86_64.sympy_1776_sympy.2ab64612"), {"repository"}),
    (
        "an image of SWE-rebench V2",
        row(repo=None, image="swerebenchv2/unidata-netcdf-c:1925-ad6bff3"),
        {"repository", "instance", "pull-request", "commit"},
    ),
    ("the id", row("sympy__sympy-20212"), {"repository", "instance", "pull-request"}),
    ("the id in capitals", row("SymPy__SymPy-20212"), {"repository", "instance", "pull-request"}),
    ("the id with a colon", row("sympy-sympy:20212"), {"repository", "instance", "pull-request"}),
    (
        "the id as a set of Harbor's has it",
        row("swe-bench/sympy__sympy-20212"),
        {"repository", "instance", "pull-request"},
    ),
    ("the id with a colon under an old owner", row("PyCQA-pylint:4551"), {"repository", "instance", "pull-request"}),
    ("the id under an old owner", row("PyCQA__pylint-4551", None), {"repository", "instance", "pull-request"}),
    ("the number of the pull request", row(repo="sympy/sympy", pull_request=20212), {"repository", "pull-request"}),
    ("a mirrored pull request", row("sympy__sympy.2ab64612.pr_20212"), {"repository", "instance", "pull-request"}),
    ("the base commit", row(base_commit=BASE), {"commit"}),
    ("the base commit in capitals", row(base_commit=BASE.upper()), {"commit"}),
    ("the base commit, short", row(base_commit=BASE[:7]), {"commit"}),
    ("a mirror at the base commit", row("made__made.86d3f0e2.func_x__1"), {"commit"}),
    ("a try of an id", row("sympy__sympy-7-1", None), {"repository"}),
    ("a sample of an id", row("sympy__sympy-20212:0", None), {"repository", "instance", "pull-request"}),
    ("letters that look alike", row(repo="ѕуmру/ѕуmру"), {"repository"}),
    ("the id with a sharp", row("sympy__sympy#20212", None), {"repository", "instance", "pull-request"}),
    ("the id with a word", row("sympy__sympy-pr-20212", None), {"repository", "instance", "pull-request"}),
    ("the id within another", row("rewrite__sympy-sympy-20212-v2", "made/made"), {"instance"}),
    ("the id within an image's", row(image="registry/me__sympy-sympy-20212:1"), {"instance"}),
    ("an address of the interface", row(repo="https://api.github.com/repos/sympy/sympy"), {"repository"}),
    ("an address for pip", row(repo="git+https://github.com/sympy/sympy.git@1.12"), {"repository"}),
    ("an address for ssh", row(repo="ssh://git@github.com:22/sympy/sympy.git"), {"repository"}),
    ("a mirror elsewhere", row(repo="https://gitee.com/mirrors/sympy"), {"fork"}),
    ("with a commit", row(repo="sympy/sympy@86d3f0e"), {"repository"}),
    ("with a number", row(repo="sympy/sympy#123"), {"repository"}),
    ("with blanks", row(repo=" sympy / sympy "), {"repository"}),
    ("with a sign that nobody sees", row(repo="sym\u200bpy/sympy"), {"repository"}),
    ("in wide letters", row(repo="\uff53ympy/sympy"), {"repository"}),
    ("a mirror with a branch", row(repo="swesmith/sympy__sympy.2ab64612.x"), {"repository"}),
    ("a release", row(repo="sympy-1.12"), {"repository"}),
    ("another sign in a bare name", row(repo="netcdf_c"), {"repository"}),
    ("another sign in a fork", row(repo="somebody/netcdf_c"), {"fork"}),
    *(
        (f"{text!r} for a repository", row("made-1", text), {"provenance"})
        for text in ("n/a", "unknown", "None/none", "?", "-", ".", "http://", "a b/c", "no repository", "\u200b")
    ),
    ("no repository at all", row("made-1", None), {"provenance"}),
]


@pytest.mark.parametrize(("candidate", "rules"), [each[1:] for each in PLANTED], ids=[each[0] for each in PLANTED])
def test_a_planted_contamination_is_found(candidate: IndexRow, rules: set[str], place: Path) -> None:
    index = Index.of([write_task(place, row("clean__clean-1", "clean/clean")), write_task(place, candidate)])
    found = decontaminate(index, EVALUATED)
    assert {hit.rule.value for hit in found.hits} == rules
    assert {index.ids[hit.task] for hit in found.hits} == {candidate.instance_id}
    assert [name for name, left_out in zip(index.ids, found.contaminated, strict=True) if not left_out] == [
        "clean__clean-1"
    ]
    assert all(len(hit.reason) > 10 for hit in found.hits)


def test_a_reference_of_tries_finds_what_they_are_tries_of(place: Path) -> None:
    index = Index.of([row("acme__tool-12", None), row("b", "acme/tool", pull_request=13), row("acme__other-14", None)])
    found = decontaminate(index, [ReferenceTask("acme__tool-12-1"), ReferenceTask("acme__tool-13:0")])
    hits = {(index.ids[hit.task], hit.rule.value) for hit in found.hits}
    both = {("acme__tool-12", "repository"), ("acme__tool-12", "pull-request"), ("acme__tool-12", "instance")}
    assert hits == both | {("b", "repository"), ("b", "pull-request")}


@pytest.mark.parametrize("strength", ["reposted", "wrapped", "moved", "half", "20 % of words"])
def test_a_cross_posted_issue_is_found(strength: str, place: Path) -> None:
    words = ISSUES[strength](random.Random(4), WORDS, KIN)
    index = Index.of(
        [write_task(place, row(), words), write_task(place, row("other__other-1", "other/other"), "Hello.")]
    )
    (hit,) = decontaminate(index, EVALUATED).hits
    assert (index.ids[hit.task], hit.rule, hit.reference) == ("made__made-1", RuleName.ISSUE_TEXT, "sympy__sympy-20212")


@pytest.mark.parametrize(
    "hidden",
    [
        "\u200b".join,
        lambda text: "".join(f"{each}\u0301" if each.isalpha() else each for each in text),
        lambda text: "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text),
        lambda text: text.translate(str.maketrans("aeopcyxAEOPCTHKMBX", "аеорсухАЕОРСТНКМВХ")),
        lambda text: text.translate(str.maketrans("oviaABEZHIKMNOPTYX", "ονιαΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")),
        lambda text: f"{'another word or two ' * 60_000}{text}",
    ],
    ids=["signs that nobody sees", "accents", "wide letters", "Cyrillic", "Greek", "behind a megabyte"],
)
def test_an_issue_in_other_characters_is_found(hidden: Callable[[str], str], place: Path) -> None:
    index = Index.of([write_task(place, row(), hidden(WORDS.text()))])
    assert [hit.rule for hit in decontaminate(index, EVALUATED).hits] == [RuleName.ISSUE_TEXT]


def test_half_a_character_in_a_reference_is_another_character(place: Path) -> None:
    made = {"instance_id": "x__y-1", "problem_statement": f"\ud800 {WORDS.text()}", "patch": "\ud800"}
    (place / "half.json").write_text(json.dumps([made]))
    index = Index.of([write_task(place, row(), WORDS.text())])
    (hit,) = decontaminate(index, read_reference(str(place / "half.json"))).hits
    assert hit.rule is RuleName.ISSUE_TEXT


@pytest.mark.parametrize("strength", ["reapplied", "reversed", "indented", "commented", "20 % of names"])
def test_a_patch_that_was_applied_again_is_found(strength: str, place: Path) -> None:
    change = PATCHES[strength](random.Random(4), HUNKS, KIN)
    index = Index.of([write_task(place, row(), "Hello.", change), write_task(place, row("other__other-1", "o/o"))])
    (hit,) = decontaminate(index, EVALUATED).hits
    assert (index.ids[hit.task], hit.rule, hit.reference) == ("made__made-1", RuleName.PATCH, "sympy__sympy-20212")


def test_an_issue_that_is_the_same_to_the_word_is_found_by_its_digest_alone(place: Path) -> None:
    index = Index.of([write_task(place, row(), WORDS.text().replace("\n", "\r\n"))])
    reference = [replace(EVALUATED[0], issue=WORDS.text())]
    (hit,) = decontaminate(index, reference).hits
    assert hit.reason == "its issue text is that of sympy__sympy-20212"


def test_a_clean_set_is_clean(place: Path) -> None:
    draw = random.Random(9)
    made = repositories(Language(1), 40)
    rows = [
        write_task(
            place,
            row(
                f"{each.name.replace('/', '__')}-{number}",
                each.name,
                base_commit=f"{draw.getrandbits(160):040x}",
                pull_request=number,
                image=f"x/sweb.eval.x86_64.{each.name.replace('/', '_1776_')}-{number}:latest",
            ),
            issue(draw, each).text(),
            patch_text(patch(draw, each)),
        )
        for number, each in enumerate(made * 3, start=20_200)
    ]
    found = decontaminate(Index.of(rows), EVALUATED)
    assert list(found.hits) == []
    assert not found.contaminated.any()
    assert {report.rule: report.not_comparable for report in found.rules} == dict.fromkeys(RuleName, 0)


def test_a_rule_is_relaxed_by_its_name_only_and_still_reported(place: Path) -> None:
    index = Index.of([write_task(place, row(repo="somebody/sympy")), write_task(place, row("a__a-1", "sympy/sympy"))])
    found = decontaminate(index, EVALUATED, rules_named(["fork"]))
    assert [(hit.rule.value, index.ids[hit.task]) for hit in found.hits] == [
        ("repository", "a__a-1"),
        ("fork", "made__made-1"),
    ]
    assert found.contaminated.tolist() == [True, False]
    assert {report.rule for report in found.rules if report.relaxed} == {RuleName.FORK}
    assert found.table().to_pylist()[1]["relaxed"] is True
    with pytest.raises(ConfigError, match="there is no rule everything"):
        rules_named(["everything"])


def test_what_cannot_be_compared_is_counted(place: Path) -> None:
    index = Index.of([write_task(place, row(), "short"), write_task(place, row("b__b-1", "b/b", base_commit="0" * 40))])
    found = decontaminate(index, [ReferenceTask("sympy__sympy-1")])
    reports = {report.rule: report for report in found.rules}
    assert reports[RuleName.COMMIT].not_comparable == 1
    assert reports[RuleName.COMMIT].reference == 0
    assert reports[RuleName.ISSUE_TEXT].not_comparable == 2
    assert reports[RuleName.ISSUE_TEXT].reference == 0
    assert reports[RuleName.REPOSITORY].reference == 1


def test_tasks_that_are_gone_are_said(place: Path) -> None:
    index = Index.of([row()])
    with pytest.raises(TaskError, match=r"the task directory .* cannot be read"):
        decontaminate(index, EVALUATED)
    assert list(decontaminate(index, EVALUATED[1:]).hits) == []  # without texts to compare, none is read


ROWS = [
    {"instance_id": "sympy__sympy-20212", "repo": "sympy/sympy", "base_commit": BASE, "problem_statement": "a b"},
    {"repo_name": "orange3", "docker_image": "namanjain12/orange3_final:0123456789", "problem_statement": "c"},
]
WANTED = [
    ReferenceTask("sympy__sympy-20212", "sympy/sympy", BASE, issue="a b"),
    ReferenceTask(
        "namanjain12/orange3_final:0123456789", "orange3", image="namanjain12/orange3_final:0123456789", issue="c"
    ),
]


def test_a_reference_is_read_from_any_of_its_forms(tmp_path: Path) -> None:
    names = {name for each in ROWS for name in each}
    table = pa.Table.from_pylist([{name: each.get(name) for name in names} for each in ROWS])
    pq.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    (tmp_path / "wrapped.json").write_text(json.dumps({"source": "x", "rows": ROWS}))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (tmp_path / "lines.JSON").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8-sig")
    for name in ("rows.parquet", "rows.json", "wrapped.json", "rows.jsonl", "lines.JSON"):
        assert read_reference(str(tmp_path / name)) == WANTED, name
    (tmp_path / "ids.txt").write_text("sympy__sympy-1\n\ndjango/django#12\n")
    assert read_reference(str(tmp_path / "ids.txt")) == [
        ReferenceTask("sympy__sympy-1"),
        ReferenceTask("django/django#12"),
    ]
    (tmp_path / "IDS.TXT").write_text("\ufeffsympy__sympy-1\r\n")
    assert read_reference(str(tmp_path / "IDS.TXT")) == [ReferenceTask("sympy__sympy-1")]
    (tmp_path / "multi.json").write_text(json.dumps([{"org": "cli", "repo": "cli", "number": 7, "instance_id": "x"}]))
    assert read_reference(str(tmp_path / "multi.json")) == [ReferenceTask("x", "cli/cli", pull_request=7)]
    (tmp_path / "pairs.json").write_text(json.dumps([["sympy__sympy-1", BASE]]))
    assert read_reference(str(tmp_path / "pairs.json")) == [ReferenceTask("sympy__sympy-1", base_commit=BASE)]


def test_an_index_is_a_reference(place: Path) -> None:
    index = Index.of([write_task(place, row("held__held-1", "held/held"), WORDS.text(), patch_text(HUNKS))])
    index.write(place / "held.parquet")
    (task,) = read_reference(str(place / "held.parquet"))
    assert task == ReferenceTask("held__held-1", "held/held", issue=WORDS.text(), patch=patch_text(HUNKS))


def test_the_shipped_reference_finds_itself(place: Path) -> None:
    tasks = read_reference("swe-bench-verified")
    index = Index.of([row(task.instance_id, task.repo, base_commit=task.base_commit) for task in tasks])
    found = decontaminate(index, tasks)
    assert len(index) == 500
    assert {report.rule.value: report.tasks for report in found.rules} == {
        "repository": 500,
        "fork": 0,
        "instance": 500,
        "pull-request": 500,
        "commit": 500,
        "issue-text": 0,
        "patch": 0,
        "provenance": 0,
    }


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("no.parquet", None, "there is no reference"),
        ("bad.parquet", "text", "is no Parquet file"),
        ("bad.json", "{", "bad.json ends at byte 1"),
        ("bad.jsonl", '{"instance_id": "a__b-1"}\n{', r"the row at .*bad.jsonl:2 cannot be read: it is no JSON"),
        ("page.jsonl", "<html>\n</html>\n", r"the row at .*page.jsonl:1 cannot be read: it is no JSON"),
        ("bare", "a__b-1\n", "is of no kind that is known"),
        ("wrapped.json", '{"data": []}', r"the row at .*wrapped.json:1 has no instance_id, no image and no repo"),
        ("numbers.json", "[1, 2]", r"the row at .*numbers.json:1 is neither an id nor an object"),
        ("nothing.json", '[{"problem_statement": "a"}]', r"the row at .*:1 has no instance_id, no image and no repo"),
        ("empty.jsonl", "\n", "holds no row to compare with"),
        ("ids.csv", "instance_id,repo\ndjango__django-11099,django/django\n", "of no kind that is known"),
        ("ids.yaml", "- django__django-11099\n", "of no kind that is known"),
        ("table.txt", "instance_id,repo\ndjango__django-11099,django/django\n", "row at .*:1, .* names no repository"),
        ("ids.txt", "django__django-11099\n- django__django-11099\n", "row at .*:2, .* names no repository"),
        ("notes.txt", "django__django-11099 # seen\n", "row at .*:1, .* names no repository"),
        ("page.txt", "<!DOCTYPE html>\n<html>Access denied</html>\n", "row at .*:1, .* names no repository"),
        ("empty.json", '[{"instance_id": "task-1", "repo": "n/a"}]', "row at .*:1, .*'task-1', names no repository"),
        ("short.json", '[{"instance_id": "task-1", "problem_statement": "a b"}]', "has no text to compare with"),
    ],
)
def test_a_reference_that_cannot_be_read_is_refused(
    name: str, content: str | None, problem: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(TaskError, match=problem) as raised:
        read_reference(str(tmp_path / name))
    assert "swe-bench-verified" in raised.value.fix or "OWNER__NAME-NUMBER" in raised.value.fix
