"""Near-duplicate texts: the overlap is what counting it one by one gives, and what is found and left alone."""

import math
import random
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.bench.tasks_corpus import issue, patch, patch_text, repositories
from lego_rl.bench.tasks_planted import ISSUES, PATCHES
from lego_rl.bench.tasks_words import Language, Repository
from lego_rl.errors import TaskError
from lego_rl.tasks.decontaminate import shingles
from lego_rl.tasks.decontaminate.candidates import Origin
from lego_rl.tasks.decontaminate.near import Measure, Near, NearIndex
from lego_rl.tasks.decontaminate.normal import issue_digest, patch_digest
from lego_rl.tasks.decontaminate.reference_task import ReferenceTask
from lego_rl.tasks.decontaminate.rule import Reference
from lego_rl.tasks.decontaminate.shingles import changes_of, words_of
from lego_rl.tasks.decontaminate.telling import any_word
from lego_rl.tasks.decontaminate.text_rules import IssueTextRule, PatchRule
from lego_rl.tasks.decontaminate.texts import Texts

ANY = Measure(words_of, any_word, overlap=1e-9, evidence=0.0)

texts = st.lists(st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join), max_size=6)


def one_by_one(reference: list[str], text: str) -> list[float]:
    """The overlap with each text of the reference, as the definition has it."""
    runs = [set(triples(each)) for each in reference]
    having = {run: sum(run in each for each in runs) for each in runs for run in each}
    weight = {run: math.log1p(len(reference) / count) ** 2 for run, count in having.items()}
    alone = math.log1p(len(reference)) ** 2
    own = sum(weight[run] for run in set(triples(text)) if run in weight)
    own += alone * sum(run not in weight for run in triples(text))
    shared = [sum(weight[run] for run in set(triples(text)) & each) for each in runs]
    wholes = [sum(weight[run] for run in each) for each in runs]
    return [each / min(own, whole) if each else 0.0 for each, whole in zip(shared, wholes, strict=True)]


def triples(text: str) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[at : at + 3]) for at in range(len(words) - 2)]


@given(texts, texts)
def test_the_overlap_is_that_of_counting_one_by_one(reference: list[str], others: list[str]) -> None:
    found = {near.text: near for near in NearIndex(pa.array(reference, pa.string()), ANY).near(pa.array(others))}
    for place, text in enumerate(others):
        expected = one_by_one(reference, text)
        best = max(expected, default=0.0)
        assert (place in found) == (best > 0)
        if place in found:
            assert found[place].overlap == pytest.approx(best)
            assert expected[found[place].reference] == pytest.approx(best)


def test_what_many_have_counts_as_one_by_one_too() -> None:
    draw = random.Random(1)
    reference = [" ".join(draw.choices("abc", k=9)) for _ in range(60)]  # 27 runs, each in a third of the texts
    others = [" ".join(draw.choices("abcd", k=9)) for _ in range(40)]
    found = NearIndex(pa.array(reference), ANY).near(pa.array(others))
    assert len(found) > 20
    for near in found:
        assert near.overlap == pytest.approx(max(one_by_one(reference, others[near.text])))


def test_whether_a_text_is_near_does_not_depend_on_its_company() -> None:
    index = NearIndex(pa.array(["one two three four five", "six seven eight nine ten"]), ANY)
    alone = index.near(pa.array(["one two three four"]))
    among = index.near(pa.array(["x y z", None, "", "one two three four", "six seven eight"]))
    assert [near.overlap for near in alone] == [near.overlap for near in among if near.text == 3]
    assert [near.text for near in among] == [3, 4]


def test_nothing_is_near_nothing() -> None:
    none = pa.array([None, ""], pa.string())
    assert NearIndex(none, ANY).near(pa.array(["a b c d"])) == []
    assert NearIndex(pa.array([], pa.string()), ANY).near(pa.array(["a b c d"])) == []
    assert NearIndex(pa.array(["a b c d"]), ANY).near(none) == []
    assert NearIndex(none, ANY).comparable == 0


def test_words_are_those_of_any_script_and_none_of_the_markup() -> None:
    text = "## Déjà `vu`!\r\n\tpreis_x 42 — 日本語"
    assert words_of(pa.array([text])).to_pylist() == [["deja", "vu", "preis", "x", "42", "日本語"]]


def test_only_what_a_patch_changes_counts() -> None:
    change = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ def f\n same\n-a = b\n+a == b\n end\n"
    assert changes_of(pa.array([change])).to_pylist() == [["a", "=", "b", "a", "=", "=", "b"]]
    assert (
        changes_of(pa.array([change.replace("\n", "\r\n")])).to_pylist() == changes_of(pa.array([change])).to_pylist()
    )
    removed_rule = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- a comment\n+x\n"
    assert changes_of(pa.array([removed_rule])).to_pylist() == [["-", "-", "a", "comment", "x"]]


def test_a_reference_with_more_words_than_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shingles, "_BITS", 2)
    with pytest.raises(TaskError, match="5 different words, and 4 is the most"):
        NearIndex(pa.array(["a b c d e"]), ANY)


FOUND = ("reposted", "wrapped", "moved", "without code", "half", "10 % of words", "20 % of words", "moved, cut, 20 %")
FOUND_PATCHES = ("reapplied", "reversed", "indented", "commented", "10 % of names")


@pytest.fixture(scope="module")
def corpus() -> list[Repository]:
    return repositories(Language(3), 12)


def test_changed_copies_of_an_issue_are_found_and_other_issues_are_not(corpus: list[Repository]) -> None:
    draw = random.Random(0)
    originals = [(issue(draw, corpus[number % 12]), corpus[number % 12]) for number in range(48)]
    index = NearIndex(pa.array([original.text() for original, _ in originals]), IssueTextRule._measure)
    others = [issue(draw, corpus[number % 12]).text() for number in range(400)]
    assert index.near(pa.array(others)) == []
    for strength in FOUND:
        copies = [ISSUES[strength](draw, original, repository) for original, repository in originals]
        assert recognised(index.near(pa.array(copies))) == list(range(48)), strength
    rewritten = [ISSUES["rewritten"](draw, original, repository) for original, repository in originals]
    assert index.near(pa.array(rewritten)) == []  # what is said again in other words is not found


def test_changed_copies_of_a_patch_are_found_and_other_patches_are_not(corpus: list[Repository]) -> None:
    draw = random.Random(0)
    originals = [(patch(draw, corpus[number % 12]), corpus[number % 12]) for number in range(48)]
    long = [(hunks, repository) for hunks, repository in originals if len(hunks) > 1]
    index = NearIndex(pa.array([patch_text(hunks) for hunks, _ in long]), PatchRule._measure)
    others = [patch_text(patch(draw, corpus[number % 12])) for number in range(400)]
    assert index.near(pa.array(others)) == []
    for strength in FOUND_PATCHES:
        copies = [PATCHES[strength](draw, hunks, repository) for hunks, repository in long]
        assert recognised(index.near(pa.array(copies))) == list(range(len(long))), strength


def recognised(found: list[Near]) -> list[int]:
    return [near.text for near in found if near.text == near.reference]


HEAD = """\
--- /dev/null
+++ b/{0}.py
@@ -0,0 +1,30 @@
+# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
+# with the License. You may obtain a copy of the License at http://www.apache.org/licenses/LICENSE-2.0
+# Unless required by applicable law or agreed to in writing, software is distributed on an "AS IS" BASIS
+from __future__ import annotations
+import collections.abc
+from types import TracebackType
+from typing import TYPE_CHECKING, Any
+
{1}
"""
SLOTS = """\
+class SlotPool(Base):
+    def __exit__(self, exc_type: type[BaseException] | None, exc_value: BaseException | None) -> None:
+        self.worker.release_slot(self.slot_number)
+        if self.slots_left > self.slots_allotted:
+            raise SlotError("a slot of the pool was given back twice")"""
PAGES = """\
+class PageCache(Base):
+    def __exit__(self, exc_type: type[BaseException] | None, exc_value: BaseException | None) -> None:
+        for page in sorted(self.dirty_pages, key=page_age):
+            write_back(page, fsync=self.is_durable)
+        self.dirty_pages.clear()"""


def test_what_stands_at_the_head_of_every_new_file_makes_no_copy() -> None:
    index = NearIndex(pa.array([HEAD.format("pool", SLOTS)]), PatchRule._measure)
    assert index.near(pa.array([HEAD.format("cache", PAGES)])) == []
    (near,) = index.near(pa.array([HEAD.format("pool", SLOTS.replace("twice", "again"))]))
    assert near.overlap > 0.8


def test_a_digest_is_of_words_and_of_changes(corpus: list[Repository]) -> None:
    draw = random.Random(5)
    hunks, words = patch(draw, corpus[0]), issue(draw, corpus[0])
    digest = patch_digest(patch_text(hunks))
    assert digest is not None
    for strength in ("reapplied", "reversed", "indented"):
        assert patch_digest(PATCHES[strength](draw, hunks, corpus[0])) == digest, strength
    assert patch_digest(PATCHES["commented"](draw, hunks, corpus[0])) != digest
    assert issue_digest(ISSUES["reposted"](draw, words, corpus[0]).upper()) == issue_digest(
        re.sub(r"_", " ", words.text())
    )
    assert issue_digest(f"{words.text()} more") != issue_digest(words.text())


def test_what_is_too_short_to_mean_one_thing_has_no_digest() -> None:
    assert issue_digest("It does not work, please fix it") is None
    assert patch_digest("--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-import os\n") is None
    assert patch_digest("") is None


BUG_REPORT = """**Describe the bug**
{about}

**To Reproduce**
Steps to reproduce the behavior:
1. Go to '...'
2. Click on '....'
3. Scroll down to '....'
4. See error

**Expected behavior**
A clear and concise description of what you expected to happen.

**Screenshots**
If applicable, add screenshots to help explain your problem.

**Desktop (please complete the following information):**
 - OS: [e.g. iOS]
 - Browser [e.g. chrome, safari]
 - Version [e.g. 22]

**Additional context**
Add any other context about the problem here.
"""
FEATURE_REQUEST = """**Is your feature request related to a problem? Please describe.**
A clear and concise description of what the problem is. Ex. I'm always frustrated when [...]

**Describe the solution you'd like**
{about}

**Describe alternatives you've considered**
A clear and concise description of any alternative solutions or features you've considered.

**Additional context**
Add any other context or screenshots about the feature request here.
"""
FORM = """### Contact Details

_No response_

### Is there an existing issue for this?

- [X] I have searched the existing issues

### What happened?

{about}

### Relevant log output

_No response_

### Code of Conduct

- [X] I agree to follow this project's Code of Conduct
"""
COMMENTED = """<!-- This comment is hidden in the issue you submit, so it need not be removed before you submit it.
Please be sure to read our guidelines, and that you are using the newest version, before you ask anybody. -->

### Description
<!-- Provide a general description of the bug, and what one sees of it where the program runs. -->
{about}

### How to Reproduce
<!-- Ideally a code example could be provided so we can run it ourselves, with every package that it needs. -->

### System Details
<!-- Even if you do not think it is necessary, it is useful for whoever looks into it to have this. -->
- Python version: 3.8.2
- OS: Linux
"""
FORMS = {"bug": BUG_REPORT, "feature": FEATURE_REQUEST, "form": FORM, "hidden": COMMENTED}
IN_QUESTION = (
    "Parsing of dates with a zone before the epoch gives the wrong day of the week in every leap year that ends."
)
EVALUATED_ON = "Autodoc drops the type of a property when it is cached on the class, and says nothing of it in warnings"


def rule_of(*reference: str) -> IssueTextRule:
    return IssueTextRule(Reference([ReferenceTask(f"a__b-{n}", issue=each) for n, each in enumerate(reference)]))


def found_by(rule: IssueTextRule, text: str) -> list[str]:
    origin = Origin("x__y-1", issue_digest=issue_digest(text))
    texts = Texts(pa.array([text], pa.string()), pa.array([None], pa.string()), ["not compared"])
    return [hit.reference for hit in rule.hits([origin], 0, texts)]


@pytest.mark.parametrize("others", [0, 1, 12, 199])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_form_is_not_what_an_issue_says(form: str, others: int) -> None:
    draw = random.Random(3)
    made = [Repository(f"made/{n}", Language(n)) for n in range(4)]
    rule = rule_of(form.format(about=EVALUATED_ON), *(issue(draw, made[n % 4]).text() for n in range(others)))
    assert found_by(rule, form.format(about=IN_QUESTION)) == []
    for copy in (
        f"{form.format(about=EVALUATED_ON)}\nI see it too.",
        f"Hello.\n{EVALUATED_ON}\nThanks.",
        " ".join(form.format(about=f"{EVALUATED_ON}, I see").split()),
    ):
        assert found_by(rule, copy) == ["a__b-0"]


@pytest.mark.parametrize("before", ["Version: 3.2", "Description:", "- [x] Checked", "OS: Linux."])
def test_an_issue_on_one_line_is_not_taken_for_a_line_of_a_form(before: str) -> None:
    more = "and it is so in each of them " * 8
    assert found_by(rule_of(f"{before}\n{EVALUATED_ON}"), f"{before} {EVALUATED_ON} {more}") == ["a__b-0"]
