"""A checkpoint becomes the folder that its policy started from, with trained weights and a page; or nothing at all."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from sharded import write_shards
from tiny_moe import CARD, honest, policy_directory, trials

from lego_rl import cli
from lego_rl.config.load import dump
from lego_rl.config.recipe import Recipe
from lego_rl.engine.embedded.policy import load_policy
from lego_rl.engine.policy_dir import read_header
from lego_rl.errors import ConfigError, RunError
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.card import PolicyCard
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.export.checkpoint import find_checkpoint
from lego_rl.train.export.folder import Exported, export
from lego_rl.train.export.sources import FolderWeights
from lego_rl.train.settings import TrainSettings
from lego_rl.train.trainer import BatchShape, Trainer

IDS = torch.arange(12).reshape(1, 12)


def lego_rl(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["lego-rl", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy in bfloat16, in two files, with a tower and a head that no trainer holds."""
    path = policy_directory(tmp_path_factory.mktemp("policy") / "base")
    weights = {name: weight.bfloat16() for name, weight in load_file(path / "model.safetensors").items()}
    tower = {"model.visual.patch.weight": torch.randn(3, 5), "mtp.fc.weight": torch.randn(4).bfloat16()}
    (path / "model.safetensors").unlink()
    names = sorted(weights)
    first = {name: weights[name] for name in names[: len(names) // 2]}
    second = {name: weights[name] for name in names[len(names) // 2 :]} | tower
    index = {}
    for file, part in (("model-1.safetensors", first), ("model-2.safetensors", second)):
        save_file(part, path / file, metadata={"format": "pt"})
        index |= dict.fromkeys(part, file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (path / "generation_config.json").write_text('{"temperature": 0.7}')
    (path / "README.md").write_text("Licence: mine.\n")
    return path


def trained(base: Path, folder: Path) -> Trainer:
    """A trainer after one step, started from `base` without what it never holds."""
    started = folder / "started"
    shutil.copytree(base, started)
    kept = {}
    for file in sorted(started.glob("*.safetensors")):
        kept |= {name: w for name, w in load_file(file).items() if not name.startswith(("model.visual", "mtp"))}
        file.unlink()
    (started / "model.safetensors.index.json").unlink()
    save_file(kept, started / "model.safetensors", metadata={"format": "pt"})
    trainer = Trainer.from_directory(started, TrainSettings(threads=1), BatchShape(2, 4, 1.0))
    trainer.step(trials(trainer.policy), honest())  # type: ignore[arg-type]
    return trainer


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    """A run directory with a checkpoint of the embedded trainer."""
    folder = tmp_path_factory.mktemp("finished")
    directory = RunDirectory.make(folder / "run")
    recipe = {"run": {"dir": "run"}, "policy": {"path": str(base)}, "harness": {"name": "claude-code"}}
    directory.recipe.write_text(dump(Recipe.model_validate(recipe)))
    trainer = trained(base, folder)
    (directory.metrics).write_text(json.dumps({"step": 0, "fidelity/pearson_logprobs": 0.5}) + "\n")
    Checkpoints(directory.checkpoints, keep=1).save(1, lambda folder: trainer.save(folder, CARD))
    return directory.path


@pytest.fixture
def run(tmp_path: Path, finished: Path) -> Path:
    """Its copy, for one test."""
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def nothing(_: Path, __: Exported) -> None:
    """Describes nothing."""


def check_folder(out: Path, base: Path, policy: Any) -> None:
    """Same files, names, shapes and dtypes; trained weights are the policy's, the others the base's bit by bit."""
    assert {path.name for path in base.iterdir()} <= {path.name for path in out.iterdir()}
    for file in sorted(base.glob("*.safetensors")):
        assert read_header(out / file.name) == read_header(file)
        before, after = load_file(file), load_file(out / file.name)
        for name in ("model.visual.patch.weight", "mtp.fc.weight"):
            assert name not in before or torch.equal(before[name], after[name])
    for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json", "config.json"):
        assert (out / name).read_bytes() == (base / name).read_bytes()
    plain = out.with_name("plain")
    shutil.copytree(out, plain)
    merged = {}
    for file in sorted(plain.glob("*.safetensors")):
        merged |= load_file(file)
        file.unlink()
    (plain / "model.safetensors.index.json").unlink()
    merged = {name: weight for name, weight in merged.items() if not name.startswith(("model.visual", "mtp"))}
    save_file(merged, plain / "model.safetensors", metadata={"format": "pt"})
    with torch.no_grad():
        served = load_policy(plain, torch.float32)(IDS).logits.log_softmax(-1)
        for weight in policy.parameters():
            weight.copy_(weight.bfloat16())
        assert torch.equal(served, policy(IDS).logits.log_softmax(-1))


def test_a_run_becomes_a_folder(
    run: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "exported"
    assert lego_rl(monkeypatch, "export", run, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "2 copied untouched" in printed
    assert " 0 weights changed" not in f" {printed}"
    check_folder(out, base, load_policy(run / "checkpoints" / "step-0001" / "policy", torch.float32))
    page = (out / "README.md").read_text()
    assert page.startswith("---\nlibrary_name: transformers\n")
    for said in (
        "1 steps of reinforcement learning from `tiny`, inside claude-code",
        "| smallest Pearson correlation of log-probs, engine and trainer | 0.500000 |",
        "Held-out tasks were not evaluated.",
        "2 it never held and are copied bit by bit",
        "`as_sent`",
        "[rollout]",
        "| trainer | embedded |",
        "[README-base.md](README-base.md)",
    ):
        assert said in page, page
    assert str(tmp_path) not in page, "no path of the machine"
    assert PolicyCard.read(out) == CARD
    assert (out / "README-base.md").read_text() == "Licence: mine.\n"
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


def test_what_stands_there_stays(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "there"
    out.mkdir()
    (out / "mine").write_text("mine")
    assert lego_rl(monkeypatch, "export", run, "--out", out) == 1
    assert [path.name for path in out.iterdir()] == ["mine"]


@pytest.mark.parametrize("world", [1, 2])
def test_shards_of_a_cluster_become_the_same_folder(
    run: Path, base: Path, tmp_path: Path, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(run / "checkpoints" / "step-0001" / "policy", torch.float32)
    shutil.rmtree(run / "checkpoints" / "step-0001")
    folder = run / "checkpoints" / "global_step_7"
    write_shards(folder / "actor", policy.state_dict(), world)
    with pytest.raises(RunError, match="no finished checkpoint"):
        find_checkpoint(run)
    (run / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("7")
    found = find_checkpoint(run)
    assert (found.step, found.kind, found.run) == (7, "verl", run)
    for named in (folder, folder / "actor"):
        assert (find_checkpoint(named).folder, find_checkpoint(named).step) == (folder / "actor", 7)
    steps = [{"step": 1, "data": {"training/rollout_actor_probs_pearson_corr": value}} for value in (0.75, 0.5)]
    (run / "verl.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    assert lego_rl(monkeypatch, "export", run, "--out", tmp_path / "exported") == 0
    check_folder(tmp_path / "exported", base, policy)
    page = (tmp_path / "exported" / "README.md").read_text()
    assert "engine and trainer, of 2 steps: 0.500000" in page
    assert "7 steps of reinforcement learning from `base`, inside claude-code" in page


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            lambda step: halve(step / "policy" / "model.safetensors"),
            "policy/model.safetensors is not as it was written",
        ),
        (lambda step: (step / "optimizer.pt").unlink(), "is no complete checkpoint"),
        (lambda step: halve(step / "trainer.json"), "is no complete checkpoint"),
        (lambda step: (step / "trainer.json").unlink(), "is no checkpoint of the embedded trainer"),
        (shutil.rmtree, "holds no checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_named(
    run: Path,
    tmp_path: Path,
    damage: Callable[[Path], None],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(run / "checkpoints" / "step-0001")
    assert lego_rl(monkeypatch, "export", run, "--out", tmp_path / "exported") == 1
    lines = capsys.readouterr().err.splitlines()
    assert problem in lines[0]
    assert len(lines) == 2
    assert not (tmp_path / "exported").exists()


def test_numbers_that_are_not_finite_leave_nothing(run: Path, base: Path, tmp_path: Path) -> None:
    policy = load_policy(run / "checkpoints" / "step-0001" / "policy", torch.float32)
    weights = policy.state_dict()
    weights["lm_head.weight"][0, 0] = 3.4e38  # finite, but not once it is rounded to bfloat16
    write_shards(tmp_path / "shards", weights, 1)
    with pytest.raises(RunError, match=r"lm_head.weight has numbers that are not finite"):
        export(find_checkpoint(tmp_path / "shards").open(), base, tmp_path / "exported", nothing)
    assert [path.name for path in tmp_path.iterdir() if "exported" in path.name] == []


def test_a_page_that_cannot_be_written_leaves_nothing(run: Path, base: Path, tmp_path: Path) -> None:
    def full(_: Path, __: Exported) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        export(find_checkpoint(run).open(), base, tmp_path / "exported", full)
    assert [path.name for path in tmp_path.iterdir() if "exported" in path.name] == []


def test_a_checkpoint_without_a_run_needs_its_base(
    run: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loose = tmp_path / "loose"
    shutil.copytree(run / "checkpoints" / "step-0001", loose)
    assert lego_rl(monkeypatch, "export", loose, "--out", tmp_path / "exported") == 1
    assert "--base DIR" in capsys.readouterr().err
    assert lego_rl(monkeypatch, "export", loose, "--out", tmp_path / "exported", "--base", base) == 0
    assert "No run was at hand" in (tmp_path / "exported" / "README.md").read_text()
    other = policy_directory(tmp_path / "other")
    assert lego_rl(monkeypatch, "export", loose, "--out", tmp_path / "second", "--base", other) == 0


def test_a_quantised_base_cannot_be_written_to(run: Path, tmp_path: Path) -> None:
    weights = load_file(run / "checkpoints" / "step-0001" / "policy" / "model.safetensors")
    quantised = tmp_path / "quantised"
    shutil.copytree(run / "checkpoints" / "step-0001" / "policy", quantised)
    save_file(
        {name: weight.to(torch.float8_e4m3fn) for name, weight in weights.items()}, quantised / "model.safetensors"
    )
    with pytest.raises(ConfigError, match="is stored as F8_E4M3"):
        export(FolderWeights(run / "checkpoints" / "step-0001" / "policy"), quantised, tmp_path / "exported", nothing)


def test_a_policy_that_did_not_move_is_said_to_be_the_same(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = run / "checkpoints" / "step-0001" / "policy"
    assert lego_rl(monkeypatch, "export", run, "--out", tmp_path / "exported", "--base", policy) == 0
    assert "no weight is other than in the policy that the run started from" in capsys.readouterr().out
    assert (tmp_path / "exported" / "model.safetensors").read_bytes() == (policy / "model.safetensors").read_bytes()
