"""The page: self-contained, complete, and safe whatever a model, a harness or a task wrote."""

import bz2
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_run import FakeRun, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lego_rl.cli import app
from lego_rl.gateway.store import TRAJECTORY_FILE
from lego_rl.plain_text import plain
from lego_rl.report.cut_text import MOST_CHARS, cut
from lego_rl.report.excerpts import compare
from lego_rl.report.files import RunFiles
from lego_rl.report.write import write_report
from lego_rl.rollout.trial_folder import OUTCOME_FILE

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>&lt;\"'{{ 7*7 }}"


class Page(HTMLParser):
    """Counts elements and keeps attributes and visible text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    return FakeRun(tmp_path / "demo")


def compared(run: FakeRun, text: str = "Let me look.", family: str = "alpha") -> Page:
    run.trial(spec("heldout/before", "a-1", 0, family, "heldout", 1), 0, text)
    run.trial(spec("heldout/after", "a-1", 0, family, "heldout", 1), 1, text)
    run.metrics([{"rollout/solve_rate": 0.25, "seconds/rollout": 3.0}, {"rollout/solve_rate": 0.5}])
    return Page(write_report(run.path).page.read_text())


def test_the_page_loads_nothing_and_runs_nothing(run: FakeRun) -> None:
    page = compared(run)
    assert not page.elements.keys() & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "a"}
    assert not [name for name, _ in page.attributes if name in {"src", "href", "style"} or name.startswith("on")]
    html = (run.path / "report.html").read_text()
    assert "default-src 'none'" in html
    assert "url(" not in html
    assert "@import" not in html


def test_the_page_shows_the_run(run: FakeRun) -> None:
    page = compared(run)
    for expected in ("Run demo", "claude-code 2.1.332", "0.000 → 1.000", "Solve rate", "alpha", "Edit", "old_string"):
        assert expected in page.text
    assert page.elements["svg"] >= 9
    assert page.elements["polyline"] >= 1


def test_page_and_terminal_show_what_agents_did_before_and_after(run: FakeRun) -> None:
    page = compared(run)
    shown = CliRunner().invoke(app, ["report", str(run.path)], catch_exceptions=False).stdout
    for text in (page.text.lower(), shown):
        assert "behaviour: before and after" in text
        assert "files read before the first edit" in text
    # Before, nobody edited a file.
    assert re.search(r"^re-reads a file after editing it +– +– +0\.000 \[0\.000, 0\.793\] +0/1 +–$", shown, re.M)


@pytest.mark.parametrize(("gate", "expected"), [("0.99999", ["gate 0.99999"]), (None, [])])
def test_the_gate_that_is_drawn_is_the_runs_own(run: FakeRun, gate: str | None, expected: list[str]) -> None:
    run.metrics([{"fidelity/pearson_logprobs": 0.999999}] * 2)
    if gate is not None:
        recipe = run.directory.recipe
        recipe.write_text(recipe.read_text() + f"\n[train.gate]\nmin_pearson_logprobs = {gate}\n")
    assert re.findall(r"gate 0\.\d+", write_report(run.path).page.read_text()) == expected


def put(path: Path, content: bytes) -> None:
    """Write another part of a trial, as if it had been written with the rest."""
    path.write_bytes(content)
    outcome = path.with_name(OUTCOME_FILE)
    head = json.loads(outcome.read_text())
    head["parts"][path.name] = hashlib.sha256(content).hexdigest()
    outcome.write_text(json.dumps(head))


@settings(max_examples=20)
@given(text=st.one_of(st.just(HOSTILE), st.text(min_size=1, max_size=200)))
def test_no_text_adds_an_element_or_an_attribute(run: FakeRun, text: str) -> None:
    benign = compared(run) if not run.directory.store.ids() else Page(write_report(run.path).page.read_text())
    documents = {path: path.read_bytes() for path in run.directory.trials.glob(f"*/{TRAJECTORY_FILE}")}
    assert documents
    for path, document in documents.items():
        said = bz2.decompress(document).decode().replace(json.dumps("Let me look."), json.dumps(text))
        put(path, bz2.compress(said.encode()))
    hostile = Page(write_report(run.path).page.read_text())
    for path, document in documents.items():
        put(path, document)
    assert hostile.elements == benign.elements
    assert [name for name, _ in hostile.attributes] == [name for name, _ in benign.attributes]


def test_a_hostile_family_name_is_text(run: FakeRun) -> None:
    page = compared(run, family=HOSTILE)
    assert page.elements["script"] == page.elements["img"] == 0
    assert HOSTILE in page.text


@given(st.text())
def test_plain_text_hides_nothing(text: str) -> None:
    shown = plain(text)
    assert all(c.isprintable() or c in "\n\t" or c.isspace() for c in shown)
    if all(c.isascii() and (c.isprintable() or c in "\n\t") for c in text):
        assert shown == text


def test_direction_and_control_characters_are_shown_as_code_points() -> None:
    assert plain("a\u202eb\x1b[0m\u200b\ud800") == "a\\u{202e}b\\u{1b}[0m\\u{200b}\\u{d800}"


def test_long_text_is_cut_and_says_so(run: FakeRun) -> None:
    assert cut("x" * (MOST_CHARS + 5)).omitted == 5
    assert "5 more characters" in compared(run, "x" * (MOST_CHARS + 5)).text


def test_tasks_are_chosen_by_gain_one_a_family_and_the_worst_comes_last(run: FakeRun) -> None:
    families = {"a-1": "alpha", "a-2": "alpha", "b-1": "beta", "c-1": "gamma", "d-1": "delta"}
    before = {"a-1": [0, 0], "a-2": [0, 0], "b-1": [0, 1], "c-1": [1, 1], "d-1": [0, 0]}
    after = {"a-1": [1, 1], "a-2": [1, 1], "b-1": [1, 1], "c-1": [0, 1], "d-1": [0, 0]}
    run.evaluate("heldout/before", before, families)
    run.evaluate("heldout/after", after, families)
    chosen = compare(RunFiles.open(run.path))
    assert [each.task for each in chosen] == ["a-1", "b-1", "d-1", "c-1"]
    assert [each.task for each in compare(RunFiles.open(run.path), most=2)] == ["a-1", "c-1"]
    assert chosen[1].solved == ((1, 2), (2, 2))


def test_both_sides_are_the_first_attempt_at_which_they_differ(run: FakeRun) -> None:
    run.evaluate("heldout/before", {"a-1": [1, 0, 0]}, {"a-1": "alpha"})
    run.evaluate("heldout/after", {"a-1": [1, 1, 0]}, {"a-1": "alpha"})
    (comparison,) = compare(RunFiles.open(run.path))
    assert comparison.before.number == comparison.after.number == (2, 3)
    assert (comparison.before.reward, comparison.after.reward) == (0, 1)


def test_an_attempt_shows_calls_with_their_results_the_patch_and_the_tests(run: FakeRun) -> None:
    compared(run)
    (comparison,) = compare(RunFiles.open(run.path))
    assert [turn.source for turn in comparison.prompt] == ["system", "user"]
    assert [turn.source for turn in comparison.after.turns] == ["agent", "agent", "agent"]
    (call,) = comparison.after.turns[1].calls
    assert (call.name, [key for key, _ in call.arguments]) == ("Edit", ["file_path", "old_string", "new_string", "n"])
    assert [result.shown for result in call.results] == ["The file was edited."]
    assert comparison.after.changes[0].path == "shop/price.py"
    assert comparison.before.tests[0] == ("tests/test_it.py::test_total", "failed")
