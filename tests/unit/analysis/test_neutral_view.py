from pathlib import Path

import pytest
from stories import STORIES, conversation, document

from lego_rl.analysis.actions import Kind
from lego_rl.analysis.document import read_document
from lego_rl.analysis.figures import TrialFigures, figures_of
from lego_rl.analysis.tables import tool_table
from lego_rl.analysis.view import View, view_of
from lego_rl.errors import RunError
from lego_rl.evaluate.trials import EvaluatedTrial
from lego_rl.messages import Message, ToolCall
from lego_rl.rollout.faults import Ended

TRIAL = EvaluatedTrial("t", "trials", "task", "group", 0, 1, Ended.FINISHED, "", 11, 900, 3.0)
each_harness = pytest.mark.parametrize("harness", sorted(STORIES))


def view(harness: str, *conversations: list[Message]) -> View:
    return view_of(document(harness, *conversations), tool_table(harness))


def figures(found: View, unparsed: int = 0, patched: tuple[str, ...] = ()) -> TrialFigures:
    return figures_of(TRIAL, found, unparsed, patched)


@each_harness
def test_the_same_work_has_the_same_figures(harness: str) -> None:
    found = figures(view(harness, conversation(STORIES[harness]())), unparsed=2)
    told = harness == "mini-swe-agent"  # it leaves a malformed call out of its history, with what it says of it
    assert {
        "calls": found.calls,
        "malformed": found.malformed,
        "edits": found.edits,
        "reread": found.reread,
        "inspected": found.inspected,
        "test_runs": found.test_runs,
        "asked": found.asked_for_tests,
        "failed": found.failed,
        "recovered": found.recovered,
        "repeat": found.longest_repeat,
        "test_edits": found.test_edits,
    } == {
        "calls": 12,  # ten that could be parsed, and two that could not
        "malformed": 3,
        "edits": 1,
        "reread": True,
        "inspected": 1,  # the file that is not there was not read
        "test_runs": 3,
        "asked": False,
        "failed": 4 if told else 5,  # the missing file, the tests three times, the call without its arguments
        "recovered": 3 if told else 4,  # all but the first run of the tests: three calls later nothing had worked
        "repeat": 3,
        "test_edits": 0,
    }


@each_harness
def test_kinds_of_the_calls_in_order(harness: str) -> None:
    calls = view(harness, conversation(STORIES[harness]())).calls
    kinds = [call.actions[0].kind for call in calls if call.actions[0].kind is not Kind.FINISH]
    tests = [Kind.TEST] * 3
    assert kinds == [Kind.SEARCH, Kind.READ, Kind.OTHER, Kind.EDIT, Kind.READ, *tests, Kind.OTHER, Kind.OTHER]


@each_harness
def test_arguments_count_in_what_is_written(harness: str) -> None:
    found = view(harness, conversation(STORIES[harness]()))
    turns = len(STORIES[harness]())
    assert found.reasoning_chars == turns * len("Hm, it may be there.")
    bare = turns * len("Hm, it may be there.So.") + len("Done.")
    assert found.written_chars > bare + 200


def test_a_tool_for_thoughts_holds_reasoning() -> None:
    with_think = view(
        "openhands-sdk", conversation([("think", {"thought": "x" * 500}, "Your thought has been logged.")])
    )
    assert with_think.reasoning_chars == 500 + len("Hm, it may be there.")


def test_a_rewritten_history_counts_each_call_once() -> None:
    told = conversation(STORIES["claude-code"]())
    rewritten = [Message("user", "A summary of what was done."), *told[6:8], *told[-1:]]
    whole, again = view("claude-code", told), view("claude-code", told, rewritten)
    assert again == whole
    further = [*rewritten[:-1], Message("assistant", "", (ToolCall("call_99", "Bash", {"command": "true"}),))]
    assert len(view("claude-code", told, further).calls) == len(whole.calls) + 1


def test_the_same_words_twice_in_one_conversation_count_twice() -> None:
    said = [
        Message("user", "Mend it."),
        Message("assistant", "Well."),
        Message("user", "Go on."),
        Message("assistant", "Well."),
    ]
    assert view("codex", said).written_chars == 2 * len("Well.")


def test_a_tool_that_was_not_offered_but_was_carried_out_is_no_malformed_call() -> None:
    said = conversation([("Bash", {"command": "true"}, "(Bash completed with no output)")])
    found = document("claude-code", said)
    found.agent.tool_definitions = []
    assert [call.malformed for call in view_of(found, tool_table("claude-code")).calls] == [False]


def test_a_request_for_tests_is_seen() -> None:
    asked = conversation([], "Mend it, then run the tests.")
    assert figures(view("codex", asked)).asked_for_tests
    for said in ("The tests of the parser are wrong.", "The plugin for pytest loses its cache."):
        assert not figures(view("codex", conversation([], said))).asked_for_tests


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/test_a.py", True), ("/app/pkg/test_a.py", True), ("a_test.go", True), ("src/a.spec.ts", True),
        ("conftest.py", True), ("tox.ini", True), ("src/latest.py", False), ("contest/a.py", False),
        ("testing.md", False),
    ],
)  # fmt: skip
def test_edits_of_tests_are_counted(path: str, is_test: bool) -> None:
    found = view("claude-code", conversation([("Write", {"file_path": path, "content": "x"}, "File created")]))
    assert figures(found).test_edits == int(is_test)
    assert figures(view("claude-code", conversation([])), patched=(path,)).test_edits == int(is_test)


def test_work_that_is_no_part_of_the_repository_is_no_edit() -> None:
    found = view("claude-code", conversation([("Write", {"file_path": "/tmp/try.py", "content": "x"}, "File created")]))
    assert figures(found).edits == 0


def test_a_document_of_another_program_is_refused() -> None:
    for text in (
        "{",
        "{}",
        '{"agent": {}, "steps": []}',
        '{"agent": {}, "steps": [], "extra": {"lego_rl": {"format": 9}}}',
    ):
        with pytest.raises(RunError):
            read_document(Path("trajectory.json.bz2"), text)
