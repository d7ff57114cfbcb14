"""The demo's claims, measured: it learns, from its rewards and from what it sees. Figures are printed as JSON.

These are the runs that ``make demo`` makes, several times over; allow an hour and a half on two cores.
"""

import json
from pathlib import Path

import pytest
from controls import BlindEngine, ShuffledRewards
from tokenizers import Tokenizer

from lego_rl.commands.assemble import policy_directory
from lego_rl.commands.train import execute
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.engine.protocol import Engine
from lego_rl.report.write import write_report

RECIPES = Path(__file__).parents[2] / "recipes"
pytestmark = pytest.mark.timeout(0)


def recipe_of(harness: str, run: Path, *overrides: str) -> Recipe:
    return read(Recipe, RECIPES / f"demo-{harness}.toml", [f"run.dir={run}", *overrides])


def measured(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    summary = json.loads(write_report(run).summary.to_json())
    with capsys.disabled():
        print("\n" + json.dumps({"experiment": name} | summary, indent=1))
    return dict(summary)


def rate(score: object) -> float:
    assert isinstance(score, dict)
    return float(score["solved"]) / float(score["trials"])


@pytest.mark.parametrize(
    ("harness", "seed"), [("claude-code", 0), ("claude-code", 1), ("claude-code", 2), ("openhands-sdk", 0)]
)
def test_the_policy_improves(harness: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    execute(recipe_of(harness, tmp_path / "run", f"run.seed={seed}"))
    summary = measured(tmp_path / "run", f"{harness}, seed {seed}", capsys)
    before, after = rate(summary["heldout_before"]), rate(summary["heldout_after"])
    assert 0.1 <= before <= 0.5
    assert after - before >= 0.25
    assert int(str(summary["families_risen"])) >= 6
    assert float(str(summary["pearson_min"])) >= 0.999


def test_shuffled_rewards_teach_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    execute(recipe_of("claude-code", tmp_path / "run"), rewards=ShuffledRewards(seed=0))
    summary = measured(tmp_path / "run", "rewards shuffled within each step", capsys)
    rise = summary["rise"]
    assert isinstance(rise, dict)
    assert rise["mean"] <= 0.10
    assert rise["interval"]["low"] <= 0.0 <= rise["interval"]["high"]


def test_a_policy_that_sees_no_tool_result_solves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = recipe_of("claude-code", tmp_path / "run", "run.steps=0")
    tokenizer = Tokenizer.from_file(str(policy_directory(recipe.policy.path) / "tokenizer.json"))
    opening, closing = tokenizer.token_to_id("<tool_response>"), tokenizer.token_to_id("</tool_response>")
    filler = tokenizer.encode("the", add_special_tokens=False).ids[0]

    def blind(engine: Engine) -> Engine:
        return BlindEngine(engine, opening, closing, filler)

    execute(recipe, inject=blind)
    summary = measured(tmp_path / "run", "tool results replaced by a constant", capsys)
    assert rate(summary["heldout_after"]) <= 0.05


def test_replay_keeps_a_bfloat16_engine_faithful(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same two steps with and without replay, engine in bfloat16, trainer in float32."""
    from lego_rl.rollout.metrics_file import read_rows

    found = {}
    for routing in ("replay", "own"):
        run = tmp_path / routing
        overrides = ["run.steps=2", "evaluate.splits={}", "engine.dtype=bfloat16", f"train.routing={routing}"]
        wide = [
            f"train.gate.{limit}"
            for limit in (
                "min_pearson_logprobs=0.5",
                "min_pearson_probs=0.5",
                "max_mean_abs=1",
                "max_abs=20",
                "max_k3=1",
            )
        ]
        execute(recipe_of("claude-code", run, *overrides, *(wide if routing == "own" else [])))
        names = ("pearson_logprobs", "pearson_probs", "mean_abs", "max_abs", "k3")
        found[routing] = [{name: row[f"fidelity/{name}"] for name in names} for row in read_rows(run / "metrics.jsonl")]
    with capsys.disabled():
        print("\n" + json.dumps({"experiment": "bfloat16 engine, float32 trainer"} | found, indent=1))
    assert all(float(str(row["pearson_logprobs"])) >= 0.999 for row in found["replay"])
    replayed, own = (sum(float(str(row["mean_abs"])) for row in found[routing]) for routing in ("replay", "own"))
    assert replayed < own
