"""The demo's claims, measured: it learns, from its rewards and from what it sees. Figures are printed as JSON.

These are the runs that ``make demo`` makes, several times over; allow some hours on two cores. ``make test-long
RUNS=DIR`` keeps the runs, goes on with those that were stopped, and only measures those that are finished.
"""

from dataclasses import asdict

import pytest
from controls import BlindEngine, ShuffledRewards
from experiments import Experiments, Run, rate, show

from lego_rl.commands.assemble import batch_shape
from lego_rl.commands.policies import policy_directory
from lego_rl.engine.protocol import Engine
from lego_rl.rollout.labels import train_label
from lego_rl.rollout.metrics_file import read_rows
from lego_rl.rollout.settled import settled_records
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.fidelity import EngineClaim, FidelityReport
from lego_rl.train.loop import as_graded
from lego_rl.train.settings import GateSettings
from lego_rl.train.trainer import Trainer

# After hours of rollouts a library's warning is no reason to lose them.
pytestmark = [pytest.mark.timeout(0), pytest.mark.filterwarnings("default")]

DEFAULTS = GateSettings()
NEVER_STOPS = GateSettings(min_pearson_probs=-1, min_pearson_logprobs=-1, max_mean_abs=1e9, max_abs=1e9, max_k3=1e9)


@pytest.mark.parametrize(
    ("harness", "seed"), [("claude-code", 0), ("claude-code", 1), ("claude-code", 2), ("openhands-sdk", 0)]
)
def test_the_policy_improves(
    harness: str, seed: int, experiments: Experiments, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = experiments.trained(harness, seed).summary()
    show(capsys, f"{harness}, seed {seed}", asdict(summary))
    before, after = summary.heldout_before, summary.heldout_after
    assert min(before.trials, after.trials) >= 0.95 * 32 * 4
    assert summary.steps >= 8
    assert 0.1 <= rate(before) <= 0.5
    assert rate(after) - rate(before) >= 0.25
    assert (summary.families_trained, summary.families_risen >= 6) == (8, True)
    assert summary.unseen_before.trials > 0
    assert summary.unseen_after.trials > 0
    assert summary.pearson_min is not None
    assert summary.pearson_min >= 0.999


def test_shuffled_rewards_teach_nothing(experiments: Experiments, capsys: pytest.CaptureFixture[str]) -> None:
    summary = experiments.run("shuffled-rewards", "claude-code", rewards=ShuffledRewards(seed=0)).summary()
    show(capsys, "rewards shuffled within each step", asdict(summary))
    assert summary.steps >= 8
    assert summary.rise is not None
    assert summary.rise.mean <= 0.10
    assert summary.rise.interval.low <= 0.0 <= summary.rise.interval.high


def test_a_trained_policy_that_sees_no_tool_result_solves_nothing(
    experiments: Experiments, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = experiments.trained("claude-code", 0)

    def blind(engine: Engine) -> Engine:
        return BlindEngine.of(engine, trained.last_policy)

    # Without a step both evaluations are of the same policy: together they are as many trials as one of the demo's.
    overrides = ("run.steps=0", "evaluate.splits={ heldout = 32 }", "evaluate.trials=2")
    run = experiments.run(
        "constant-tool-results", "claude-code", f"policy.path={trained.last_policy}", *overrides, inject=blind
    )
    blinded, seeing = run.summary(), trained.summary().heldout_after
    scores = (blinded.heldout_before, blinded.heldout_after)
    show(
        capsys,
        "tool results replaced by a constant",
        {
            "solved": sum(score.solved for score in scores),
            "trials": sum(score.trials for score in scores),
            "with tool results": asdict(seeing),
        },
    )
    assert sum(score.trials for score in scores) >= 0.95 * 32 * 4
    assert rate(*scores) <= 0.05


def test_replay_keeps_a_bfloat16_engine_faithful(experiments: Experiments, capsys: pytest.CaptureFixture[str]) -> None:
    """Engine in bfloat16, trainer in float32: with replay as the gate saw it, and without on the very same tokens."""
    run = experiments.run(
        "bfloat16-engine",
        "claude-code",
        "run.steps=2",
        "evaluate.splits={}",
        "engine.dtype=bfloat16",
        # The recipe's own limits are for a float32 engine.
        f"train.gate.min_pearson_logprobs={DEFAULTS.min_pearson_logprobs}",
        f"train.gate.max_mean_abs={DEFAULTS.max_mean_abs}",
    )
    names = ("tokens", "pearson_logprobs", "pearson_probs", "mean_abs", "max_abs", "k3")
    rows = read_rows(run.path / "metrics.jsonl")
    replayed = [{name: float(row[f"fidelity/{name}"] or 0) for name in names} for row in rows]
    own = [{name: float(getattr(without_replay(run, step), name)) for name in names} for step in range(len(rows))]
    show(capsys, "bfloat16 engine, float32 trainer", {"with replay": replayed, "without": own})
    assert len(replayed) == 2
    assert [step["tokens"] for step in own] == [step["tokens"] for step in replayed]
    assert all(step["pearson_logprobs"] >= 0.999 for step in replayed)
    assert sum(step["mean_abs"] for step in replayed) < sum(step["mean_abs"] for step in own)


def without_replay(run: Run, step: int) -> FidelityReport:
    """What the gate would have measured of a step, had the trainer's router chosen again."""
    settings = run.recipe.train.model_copy(update={"routing": "own", "gate": NEVER_STOPS})
    source, shape = policy_directory(run.recipe.policy.path), batch_shape(run.recipe)
    trainer = (
        Trainer.resume(run.path / "checkpoints" / f"step-{step:04d}", source, settings, shape)
        if step
        else Trainer.from_directory(source, settings, shape)
    )
    records = [record for record in settled_records(RunDirectory(run.path)) if record.spec.label == train_label(step)]
    return trainer.step(as_graded(records, step), EngineClaim(weight_version=step)).fidelity
