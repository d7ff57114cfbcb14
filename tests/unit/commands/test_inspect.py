"""``lego-rl inspect`` shows what of a trial is trained."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from lego_rl import cli
from lego_rl.commands import inspect
from lego_rl.commands.inspect import Stretch, stretches
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.engine.protocol import Timings, WeightSpan
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.accounting import account
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.call_log import CALL_LOG
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.segments import build_segments, last_calls
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import Generation, Trajectory
from lego_rl.messages import Message
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory

DEMO = Path(str(files("lego_rl.policies") / "demo"))
RECIPE = Path(__file__).parents[3] / "recipes" / "demo-claude-code.toml"
SPEC = TrialSpec(Path("tasks/one"), "train/step-0000", 0, 1, 7, 1.0, Budget(), HarnessChoice("claude-code"))


def generation(index: int, context: str, said: str, **changes: object) -> Generation:
    encoder = Encoder((DEMO / "tokenizer.json").read_text(encoding="utf-8"))
    context_ids, token_ids = (np.array(encoder.encode(text), np.int32) for text in (context, said))
    made = Generation(
        call_id=f"call-{index}",
        parent=index - 1 if index else None,
        context_ids=context_ids,
        token_ids=token_ids,
        logprobs=np.full(len(token_ids), -0.25, np.float32),
        finish_reason="stop",
        weight_versions=(WeightSpan(3, 0, len(token_ids)),),
        timings=Timings(),
        role="main",
        fate="delivered",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def stored(run: Path, *calls: Generation, refused: Mapping[str, int] | None = None) -> Path:
    """A trial of these calls, in a run with the demo's recipe."""
    segments = build_segments(calls)
    trajectory = Trajectory(
        segments=segments,
        generations=calls,
        conversations=((Message("user", "Mend."), Message("assistant", "Done.")),) * len(last_calls(calls)),
        tools=(),
        accounting=account(calls, segments, None, refused or {}),
    )
    directory = RunDirectory.make(run)
    directory.recipe.write_text(dump(read(Recipe, RECIPE)))
    outcome = Outcome(1, Ended.FINISHED, None, "")
    record = TrialRecord(SPEC, outcome, trajectory, PhaseSeconds(), trajectory.accounting, harness_version="2.1.332")
    directory.store.save(record)
    return directory.trials / SPEC.id


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    return stored(
        tmp_path / "run",
        generation(0, "Mend the price." * 40, "I look."),
        generation(1, "def price(): ...", "\u202eDone.", parsed=False),
        generation(2, "Again?", "No.", fate="superseded"),
    )


def test_calls_masks_and_texts_are_shown(trial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspect.run(trial, None, 40)
    shown = capsys.readouterr().out
    for expected in ("reward 1 · finished", "2 superseded", "superseded", "unparsed call"):
        assert expected in shown
    assert "I look." in shown
    assert "\\u{202e}Done." in shown, "a direction mark would turn what follows"
    assert "Mend the price.Mend" in shown
    assert " … " in shown, "long context is cut"
    assert shown.count("mask 1 log-prob -0.250 weights 3") == 2
    assert "No." not in shown, "what was superseded is in no segment"


def test_what_was_left_of_answers_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = generation(0, "Mend.", "I look at it."), generation(1, "I look", "Yes.", delivered_prefix=1)
    count, last = len(first.token_ids), len(second.token_ids)
    trial = stored(
        tmp_path / "run",
        replace(first, delivered_prefix=2),
        replace(second, kept=2),
        generation(2, "And now?", "No.", parent=None, finish_reason="length", excluded="im\x1b[2Jage\nreward 1"),
        refused={"turns": 2},
    )
    inspect.run(trial, None, 40)
    shown = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[1] == "reward 1 · finished · claude-code 2.1.332 · reasoning keep"
    assert f"{count - 2 + last - 1} cut" in lines[2]
    assert "im\\u{1b}[2Jage\\u{a}reward 1 · delivered" in lines[2]
    assert lines[3] == "answers: 1 truncated"
    assert lines[4] == "refused: 2 turns"
    calls = lines[lines.index(next(line for line in lines if line.startswith("call "))) + 1 :][:3]
    assert calls[0].endswith("stop only the first 2 delivered")
    assert calls[1].endswith(f"stop after the first 2 of {count} tokens; only the first 1 delivered")
    assert calls[2].endswith("length not trained: im\\u{1b}[2Jage\\u{a}reward 1; truncated")


def test_the_reasoning_mode_is_the_runs(trial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = trial.parents[1] / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('reasoning = "keep"', 'reasoning = "as_sent"'))
    inspect.run(trial, None, 40)
    assert " · reasoning as_sent\n" in capsys.readouterr().out
    recipe.unlink()
    inspect.run(trial, "builtin:demo", 40)
    assert "reasoning" not in capsys.readouterr().out, "nothing says which it was"


def test_a_token_that_the_tokenizer_does_not_know_is_not_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = generation(0, "Mend.", "No.")
    sampled = replace(call, token_ids=np.full(len(call.token_ids), 9_999, np.int32))
    inspect.run(stored(tmp_path / "run", sampled), None, 40)
    assert "unknown to the tokenizer: 9999, 9999" in capsys.readouterr().out
    told = replace(call, context_ids=np.full(4, 9_999, np.int32))
    with pytest.raises(ConfigError, match=r"token 9999 of a prompt is none of the tokenizer of builtin:demo") as raised:
        inspect.run(stored(tmp_path / "other", told), None, 40)
    assert "--policy" in raised.value.fix


def test_files_that_contradict_each_other_are_one_line_and_no_trial(
    trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = stored(tmp_path / "other", generation(0, "Mend.", "I look."))
    shutil.copy(other / "tokens.npz", trial / "tokens.npz")
    monkeypatch.setattr("sys.argv", ["lego-rl", "inspect", str(trial)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    shown = capsys.readouterr()
    assert not shown.out
    problem, fix = shown.err.splitlines()
    assert "tokens.npz is not the file that outcome.json was written with" in problem
    assert fix.startswith("  fix: restore ")


def test_stretches_cover_a_segment_and_agree_with_its_mask(trial: Path) -> None:
    (segment,) = RunDirectory(trial.parents[1]).store.load(trial.name).trajectory.segments  # type: ignore[union-attr]
    found = list(stretches(segment))
    assert [stretch.trained for stretch in found] == [False, True, False, True]
    assert found[0].start == 0
    assert found[-1].end == len(segment.token_ids)
    for stretch in found:
        assert set(segment.loss_mask[stretch.start : stretch.end].tolist()) == {int(stretch.trained)}
    assert [one.end for one in found[:-1]] == [one.start for one in found[1:]]
    assert Stretch(0, found[0].end, trained=False) == found[0]


def test_what_is_no_trial_or_has_no_policy_is_refused(trial: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no trial"):
        inspect.run(tmp_path, None, 40)
    with pytest.raises(ConfigError, match="no tokenizer") as raised:
        inspect.run(trial, str(tmp_path), 40)
    assert "--policy" in raised.value.fix
    (trial.parents[1] / "recipe.toml").unlink()
    with pytest.raises(ConfigError, match="does not lie in a run"):
        inspect.run(trial, None, 40)


async def test_a_trial_that_is_not_finished_shows_what_was_said_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory.make(tmp_path / "run")
    log = directory.scratch / SPEC.id / CALL_LOG
    trial = directory.trials / SPEC.id
    with pytest.raises(RunError, match="holds no trial"):
        inspect.run(trial, None, 40)
    log.parent.mkdir()
    with pytest.raises(RunError, match="no model call is answered yet"):
        inspect.run(trial, None, 40)
    directory.recipe.write_text(dump(read(Recipe, RECIPE)))
    engine = ScriptedEngine(lambda prompt, sampling: Reply(encoder.encode("Done.\x1b[2J<|im_end|>")))
    encoder = Encoder((DEMO / "tokenizer.json").read_text(encoding="utf-8"))
    gateway = Gateway(engine, ChatTemplate.load(DEMO), tool_call_parser("qwen3_coder"))
    session = gateway.open(Budget(), temperature=1.0, log=log)
    await (await session.admit(Request((Message("user", "Mend the price."),), ()))).answer()
    inspect.run(trial, None, 40)
    shown = capsys.readouterr().out
    assert "not finished, or not yet graded · claude-code · reasoning keep" in shown
    assert "user: Mend the price." in shown
    assert "assistant: Done.\\u{1b}[2J" in shown
    await gateway.close(session)
