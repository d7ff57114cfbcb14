"""Generate, review, revise: each session is a real trial in a sandbox of its own, and the last change stands."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rollout_kit import POLICY, bash, runtime, spec, write_task
from small_harness import SmallHarness

from lego_rl.engine.protocol import Engine, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.errors import ConfigError
from lego_rl.evaluate.review import Decision, ReviewedAttempt, reviewed
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.template import ChatTemplate
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.trial import Runtime

TEMPLATE = ChatTemplate.load(POLICY)
ENCODER = Encoder((POLICY / "tokenizer.json").read_text(encoding="utf-8"))
CAREFUL = {
    "draft": [bash("sed -i 's/a - b/a * b/' calc.py"), "Mended."],
    "review": [
        bash("grep -n 'a [*] b' calc.py; echo spoiled > calc.py"),
        "I read it.\nREVISE: it has to add, not multiply.",
    ],
    "revision": [bash("sed -i 's/a [*] b/a + b/' calc.py"), "Mended again."],
    "review of a sum": ["**ACCEPT**"],
}


def policy(says: Mapping[str, list[str]], heard: list[str]) -> Engine:
    """A policy that plays author and reviewer; which of them it is, and of what, its prompt says."""

    def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        text = TEMPLATE.decode(prompt)
        heard.append(text)
        asked = text.partition("<|im_start|>assistant")[0]
        part = "review" if "A colleague changed" in asked else "revision" if "sent back" in asked else "draft"
        if part == "review" and "+    return a + b" in asked:
            part = "review of a sum"
        turn = text.count("<|im_start|>assistant") - 1
        return Reply([*ENCODER.encode(says[part][turn]), TEMPLATE.end_of_turn])

    return ScriptedEngine(script)


def attempted(
    folder: Path, says: Mapping[str, list[str]], rounds: int, heard: list[str] | None = None
) -> list[ReviewedAttempt]:
    """One attempt at the task with a few reviews."""
    heard = [] if heard is None else heard
    task = folder / "task" / "calc"
    if not task.exists():
        write_task(folder / "task", "calc")
    base = replace(runtime(folder / "run", policy(says, heard)), harness=SmallHarness())
    base = replace(base, bundle=SmallHarness().install(folder / "bundle"))
    draft = replace(spec(task), harness=HarnessChoice("small"))

    async def run_all() -> list[ReviewedAttempt]:
        with Journal(base.directory.journal) as journal:

            async def run(specs: Sequence[TrialSpec], handovers: Mapping[str, Handover]) -> list[TrialRecord]:
                stage: Runtime = replace(base, handovers=handovers)
                return await run_trials(specs, stage, journal, concurrency=2)

            return await reviewed(await run([draft], {}), run, rounds)

    return asyncio.run(run_all())


def test_a_change_that_is_sent_back_is_revised_where_it_stands(tmp_path: Path) -> None:
    heard: list[str] = []
    (attempt,) = attempted(tmp_path, CAREFUL, 2, heard)
    assert attempt.decisions == (Decision.SENT_BACK, Decision.ACCEPTED)
    assert [record.outcome.reward for record in attempt.candidates] == [0, 1]
    assert attempt.final.patch is not None
    assert [change.path for change in attempt.final.patch.changes] == ["calc.py"]
    assert b"a + b" in attempt.final.patch.changes[0].content
    assert {record.outcome.ended for record in attempt.sessions} == {Ended.FINISHED}
    assert all(record.outcome.reward is None for record in attempt.reviews)
    grep = next(text for text in heard if "2:    return a * b" in text)
    assert "-    return a - b\n+    return a * b" in grep, "the reviewer is shown the change"
    assert any("REVISE: it has to add, not multiply." in text and "sent back" in text for text in heard)

    before = len(heard)
    (again,) = attempted(tmp_path, CAREFUL, 2, heard)
    assert len(heard) == before, "what is scored is loaded"
    assert [record.spec.id for record in again.sessions] == [record.spec.id for record in attempt.sessions]


def test_the_last_round_ends_with_a_revision(tmp_path: Path) -> None:
    (attempt,) = attempted(tmp_path, CAREFUL, 1)
    assert attempt.decisions == (Decision.SENT_BACK,)
    assert (len(attempt.candidates), attempt.final.outcome.reward) == (2, 1)


@pytest.mark.parametrize(
    ("words", "decision"),
    [("REVISE was my first thought.\nACCEPT", Decision.ACCEPTED), ("Hm.", Decision.UNDECIDED)],
)
def test_a_change_that_is_not_sent_back_stands(words: str, decision: Decision, tmp_path: Path) -> None:
    (attempt,) = attempted(tmp_path, CAREFUL | {"review": [words]}, 3)
    assert attempt.decisions == (decision,)
    assert (len(attempt.candidates), attempt.final.outcome.reward) == (1, 0)


def test_a_change_that_cannot_be_written_is_reviewed_all_the_same(tmp_path: Path) -> None:
    """The agent made it: a fault that masks the trial would be one that it chose."""
    deep = "python3 -c \"import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(100)]; open('f', 'w')\""
    (attempt,) = attempted(tmp_path, CAREFUL | {"draft": [bash(deep), "Done."], "review": ["ACCEPT"]}, 1)
    assert attempt.is_whole
    assert attempt.decisions == (Decision.ACCEPTED,)
    assert attempt.final.outcome.counted_reward == 0


def test_no_round_is_refused() -> None:
    with pytest.raises(ConfigError, match="0 rounds of review"):
        asyncio.run(reviewed([], lambda *_: asyncio.sleep(0, ()), 0))
