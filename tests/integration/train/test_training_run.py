"""A whole training run by its command: real harness, real sandboxes, and a random policy. Stopped and resumed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lego_rl.engine.embedded.policy import load_policy, save_policy
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.metrics_file import read_rows
from lego_rl.train.card import PolicyCard

STEPS, TRIALS = 2, 4
RECIPE = """
[run]
dir = "{run}"
steps = {steps}
[policy]
path = "{policy}"
[harness]
name = "claude-code"
options = {{ bare = true }}
[sandbox]
state = "{state}"
[budget]
turns = 2
context_tokens = 6144
output_tokens = 24
wall_clock_sec = 60
[rollout]
tasks_per_step = 2
group_size = 2
concurrency = 2
[evaluate]
splits = {{ heldout = 1 }}
trials = 1
"""


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo policy's shape with random weights."""
    source = Path(str(files("lego_rl.policies") / "demo"))
    torch.manual_seed(0)
    module = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(source))
    target = tmp_path_factory.mktemp("policy") / "random"
    save_policy(module.state_dict(), module.config, target, dtype=torch.float32, companions=source)
    assert load_policy(target, torch.float32).config.vocab_size == module.config.vocab_size
    return target


@pytest.fixture
def recipe(tmp_path: Path, policy: Path) -> Path:
    path = tmp_path / "recipe.toml"
    text = RECIPE.format(run=tmp_path / "run", steps=STEPS, policy=policy, state=tmp_path / "state")
    path.write_text(text)
    return path


def command(*arguments: str | Path) -> list[str]:
    return [str(Path(sys.executable).with_name("lego-rl")), *map(str, arguments)]


def finish(*arguments: str | Path) -> str:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stopped_when(condition: Callable[[], object], by: signal.Signals, recipe: Path) -> subprocess.CompletedProcess[str]:
    """Start a run, stop it as soon as the condition holds, and wait for its end."""
    # A suite that runs in the background ignores Ctrl-C, and so would its children.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started = subprocess.Popen(
            command("train", recipe), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, ignored)
    with started as process:
        end = time.monotonic() + 200
        while not condition():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, "it never came to that"
            time.sleep(0.05)
        os.kill(process.pid, by)
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def scored(run: Path, label: str) -> list[str]:
    if not (run / "journal").exists():
        return []
    entries = (entry for entry in read_journal(run / "journal") if entry.kind == "trial-scored")
    return [name for entry in entries if (name := str(entry.data["id"])).startswith(label)]


def check_complete(run: Path) -> None:
    rows = read_rows(run / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(STEPS))
    for step in range(STEPS):
        names = scored(run, f"train.step-{step:04d}")
        assert max(Counter(names).values()) == 1, "a trial was scored twice"
        assert len(names) == TRIALS
    assert all(row["fidelity/pearson_logprobs"] > 0.999 for row in rows)  # type: ignore[operator]
    assert all(row["audit/tokens"] == row["fidelity/tokens"] > 0 for row in rows)  # type: ignore[operator]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["steps"] == STEPS
    assert len(json.loads((run / "trained-families.json").read_text())) == 8
    assert summary["heldout_after"]["trials"] == 1
    assert summary["harness"] == "claude-code"
    assert (run / "report.html").stat().st_size > 10_000
    card = PolicyCard.read(run / "checkpoints" / f"step-{STEPS:04d}" / "policy")
    assert card is not None
    assert (card.harness, card.reasoning) == ("claude-code", "keep")


def run_examples(run: Path) -> None:
    """Run what docs/capture.md says of reading a trial, one example after the other in one interpreter."""
    page = Path(__file__).parents[3] / "docs" / "capture.md"
    blocks = page.read_text().partition("## Reading a trial")[2].partition("\n## ")[0]
    code = "\n".join(line[4:] for line in blocks.splitlines() if line.startswith("    "))
    trial = next(path.name for path in (run / "trials").iterdir() if (path / "tokens.npz").is_file())
    code = code.replace("runs/demo/trials/ID", f"runs/demo/trials/{trial}").replace("runs/demo", str(run))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "train/step-0000" in done.stdout


def scored_of(names: list[str], step: int) -> list[str]:
    return [name for name in names if name.startswith(f"train.step-{step:04d}")]


def check_unfinished(run: Path, step: int) -> None:
    """What can be seen of a run that was stopped."""
    output = finish("report", run)
    assert f"unfinished: {step} of {STEPS} steps are done" in output
    assert f"unfinished: {step} of {STEPS} steps are done" in (run / "report.html").read_text()
    listed = finish("inspect", run).splitlines()
    names = [line.split()[0] for line in listed]
    ended = [*scored(run, "heldout"), *scored(run, "train")]
    assert set(ended) <= set(names)
    assert f"{len(ended)} trials have ended" in listed[-1]
    finish("inspect", run / "trials" / ended[0])


@pytest.mark.parametrize(
    ("by", "step"), [(signal.SIGKILL, 1), (signal.SIGINT, 1), (signal.SIGKILL, 0), (signal.SIGTERM, 0)]
)
def test_a_stopped_run_resumes_from_its_last_finished_step(
    tmp_path: Path, recipe: Path, by: signal.Signals, step: int
) -> None:
    run = tmp_path / "run"
    ended = stopped_when(lambda: scored(run, f"train.step-{step:04d}"), by, recipe)
    before = scored(run, "train")
    assert [row["step"] for row in read_rows(run / "metrics.jsonl")] == list(range(step))
    if by != signal.SIGKILL:
        assert ended.returncode == 130
        assert f"lego-rl train --resume {run}" in ended.stderr
    check_unfinished(run, step)
    output = finish("train", "--resume", run)
    first, *_ = output.splitlines()
    assert first == f"resumed · {step} of {STEPS} steps are finished"
    assert f"train/step-{step:04d} · {TRIALS} trials · " in output
    assert f" · {len(scored_of(before, step))} have ended before" in output
    assert ("step 1/2" in output) == (step == 0)
    assert "step 2/2" in output
    check_complete(run)
    assert scored(run, "train")[: len(before)] == before
    summary = (run / "summary.json").read_bytes()
    finish("report", run)
    assert (run / "summary.json").read_bytes() == summary, "a summary is a function of the records"
    run_examples(run)


@pytest.mark.parametrize("wanted", [None, "keep"])
def test_what_was_trained_as_sent_is_evaluated_so_unless_the_recipe_says_otherwise(
    tmp_path: Path, recipe: Path, policy: Path, wanted: str | None
) -> None:
    export, run = tmp_path / "export", tmp_path / "run"
    shutil.copytree(policy, export)
    PolicyCard("gspo", str(policy), "claude-code", "as_sent").write(export, STEPS)
    chosen = [] if wanted is None else ["--set", f"capture.reasoning={wanted}"]
    finish("train", recipe, "--set", "run.steps=0", "--set", f"policy.path={export}", *chosen)
    mode = wanted or "as_sent"
    assert f'reasoning = "{mode}"' in (run / "recipe.toml").read_text()
    (trial,) = scored(run, "heldout.before")
    head, second, *_ = finish("inspect", run / "trials" / trial).splitlines()
    assert head == trial
    assert second.endswith(f"· reasoning {mode}")


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path, recipe: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text("")
    refused = subprocess.run(command("train", recipe), capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 1
    assert "holds a run already" in refused.stderr
    assert "--resume" in refused.stderr


def test_no_run_is_resumed_where_there_is_none(tmp_path: Path) -> None:
    refused = subprocess.run(command("train", "--resume", tmp_path), capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "holds no run" in refused.stderr
