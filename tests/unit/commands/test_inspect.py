"""``lego-rl inspect`` shows what of a trial is trained."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from lego_rl.commands import inspect
from lego_rl.commands.inspect import Stretch, stretches
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.engine.protocol import Timings, WeightSpan
from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.segments import build_segments
from lego_rl.gateway.trajectory import Accounting, Generation, Trajectory
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


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    calls = (
        generation(0, "Mend the price." * 40, "I look."),
        generation(1, "def price(): ...", "\u202eDone.", parsed=False),
        generation(2, "Again?", "No.", fate="superseded"),
    )
    trajectory = Trajectory(
        segments=build_segments(calls),
        generations=calls,
        conversations=((Message("user", "Mend."), Message("assistant", "Done.")),),
        tools=(),
        accounting=Accounting(calls=3, sampled_tokens=12, trainable_tokens=9, excluded={"superseded": 3}),
    )
    directory = RunDirectory.make(tmp_path / "run")
    directory.recipe.write_text(dump(read(Recipe, RECIPE)))
    outcome = Outcome(1, Ended.FINISHED, None, "")
    directory.store.save(TrialRecord(SPEC, outcome, trajectory, PhaseSeconds(), trajectory.accounting))
    return directory.trials / SPEC.id


def test_calls_masks_and_texts_are_shown(trial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspect.run(trial, None, 40)
    shown = capsys.readouterr().out
    for expected in ("reward 1 · finished", "3 superseded", "superseded", "unparsed call"):
        assert expected in shown
    assert "I look." in shown
    assert "\\u{202e}Done." in shown, "a direction mark would turn what follows"
    assert "Mend the price.Mend" in shown
    assert " … " in shown, "long context is cut"
    assert shown.count("mask 1 log-prob -0.250 weights 3") == 2
    assert "No." not in shown, "what was superseded is in no segment"


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
        inspect.run(trial, tmp_path, 40)
    assert "--policy" in raised.value.fix
    (trial.parents[1] / "recipe.toml").unlink()
    with pytest.raises(ConfigError, match="does not lie in a run"):
        inspect.run(trial, None, 40)
