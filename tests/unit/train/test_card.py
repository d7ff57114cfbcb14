"""A policy that was trained says how, and is run that way unless a recipe says otherwise."""

import json
from pathlib import Path

import pytest
from tiny_moe import CARD, honest, moe, policy_directory, segment, trials

from lego_rl.commands import sft as sft_command
from lego_rl.commands import train as train_command
from lego_rl.commands.policies import read_recipe
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.settings import Reasoning
from lego_rl.rollout.lock import LockedFolder
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.card import PolicyCard
from lego_rl.train.settings import TrainSettings
from lego_rl.train.sft import run_sft
from lego_rl.train.sft_settings import SftSettings
from lego_rl.train.trainer import BatchShape, Trainer

RECIPE = Path(__file__).parents[3] / "recipes" / "demo-claude-code.toml"


def exported(folder: Path, card: PolicyCard = CARD, source: Path | None = None) -> Path:
    """The policy of a checkpoint after one step."""
    if source is None:
        source = policy_directory(folder / "base")
        (source / "README.md").write_text("Licence: mine.\n")
    trainer = Trainer.from_directory(source, TrainSettings(), BatchShape(2, 4, 1.0))
    trainer.step(trials(moe()), honest())
    (folder / "checkpoint").mkdir(parents=True)
    trainer.save(folder / "checkpoint", card)
    return folder / "checkpoint" / "policy"


def test_a_checkpoints_policy_says_how_it_was_trained(tmp_path: Path) -> None:
    policy = exported(tmp_path)
    assert PolicyCard.read(policy) == CARD
    page = (policy / "README.md").read_text()
    assert page.startswith("---\nlibrary_name: transformers\n")
    assert "1 steps of reinforcement learning (GSPO) from `tiny`, inside claude-code" in page
    assert "Reasoning of earlier turns: `as_sent`" in page
    assert "[README-base.md](README-base.md)" in page
    assert (policy / "README-base.md").read_text() == "Licence: mine.\n"
    sealed = json.loads((policy.parent / "trainer.json").read_text())["sha256"]
    assert {"policy/README.md", "policy/lego-rl.json"} <= sealed.keys()


def test_a_further_training_says_its_own_and_keeps_the_first_page(tmp_path: Path) -> None:
    first = exported(tmp_path / "first")
    card = PolicyCard("gspo", str(first), "opencode", "keep")
    second = exported(tmp_path / "second", card, source=first)
    assert PolicyCard.read(second) == card
    assert "`keep`" in (second / "README.md").read_text()
    assert (second / "README-base.md").read_text() == "Licence: mine.\n"


def test_what_was_fine_tuned_has_a_card_too(tmp_path: Path) -> None:
    card = PolicyCard("sft", "tiny", None, None)
    settings = SftSettings(steps=1, batch=2, checkpoint_every=1)
    data = [segment([1, 2, 3, 4, 5], [0, 0, 1, 1, 1])] * 2
    with LockedFolder(tmp_path / "run") as run:
        policy = run_sft(policy_directory(tmp_path / "policy"), data, run, settings, lambda _: None, card)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-0001" / "policy"
    assert PolicyCard.read(policy) == PolicyCard.read(checkpoint) == card
    page = (policy / "README.md").read_text()
    assert "1 steps of supervised fine-tuning from `tiny`, by" in page
    assert "README-base.md" not in page


@pytest.mark.parametrize("trained", ["keep", "as_sent"])
@pytest.mark.parametrize("wanted", [None, "keep", "as_sent"])
def test_an_evaluation_takes_the_exports_mode_or_the_recipes(
    trained: Reasoning, wanted: Reasoning | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = policy_directory(tmp_path / "policy")
    PolicyCard("gspo", "tiny", "claude-code", trained).write(policy, 3)
    overrides = [f"policy.path={policy}", "run.steps=0", *([f"capture.reasoning={wanted}"] if wanted else [])]
    recipe = read_recipe(RECIPE, overrides)
    assert recipe.capture.reasoning == (wanted or trained)
    train_command.dry_run(RECIPE, overrides)
    assert f'reasoning = "{wanted or trained}"' in capsys.readouterr().out
    resolved = tmp_path / "recipe.toml"
    resolved.write_text(dump(recipe))
    assert read(Recipe, resolved) == recipe, "a resumed run does not ask the policy again"
    roles = read_recipe(RECIPE, [*overrides, 'capture.train_roles=["main"]']).capture
    assert (roles.reasoning, roles.train_roles) == (wanted or trained, ("main",))


@pytest.mark.parametrize("policy", ["builtin:demo", "/nowhere", "SAYS NOTHING"])
def test_a_policy_that_says_nothing_keeps_its_reasoning(policy: str, tmp_path: Path) -> None:
    if policy == "SAYS NOTHING":
        PolicyCard("sft", "tiny", None, None).write(policy_directory(tmp_path / "policy"), 3)
        policy = str(tmp_path / "policy")
    assert read_recipe(RECIPE, [f"policy.path={policy}"]).capture.reasoning == "keep"


def test_a_damaged_card_is_refused(tmp_path: Path) -> None:
    CARD.write(tmp_path, 3)
    file = tmp_path / "lego-rl.json"
    whole = json.loads(file.read_text())
    for content, kind, problem in (
        ("{", ConfigError, "is no card"),
        ("[]", RunError, "no format number"),
        (json.dumps(whole | {"reasoning": "sometimes"}), ConfigError, "reasoning"),
        (json.dumps(whole | {"format": 2}), RunError, "has format 2, this version of lego-rl reads 1"),
    ):
        file.write_text(content)
        with pytest.raises(kind, match=problem):
            read_recipe(RECIPE, [f"policy.path={tmp_path}"])


@pytest.mark.parametrize(
    ("modes", "expected"), [(["as_sent"], "as_sent"), (["keep", None], "keep"), (["keep", "as_sent"], None)]
)
def test_demonstrations_tell_how_they_were_captured(
    modes: list[str | None], expected: str | None, tmp_path: Path
) -> None:
    runs = []
    for number, mode in enumerate(modes):
        directory = RunDirectory.make(tmp_path / str(number))
        if mode is not None:  # a capture by the warm start has no recipe
            directory.recipe.write_text(dump(read(Recipe, RECIPE, [f"capture.reasoning={mode}"])))
        runs.append(directory.path)
    assert sft_command.reasoning_of(runs) == expected
