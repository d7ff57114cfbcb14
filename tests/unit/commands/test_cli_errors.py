"""Bad input on the command line: one line what is wrong, one what to do, exit code 1, and nothing left behind."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lego_rl import cli
from lego_rl.commands.policies import policy_directory
from lego_rl.commands.rollouts import SpecBuilder
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.lock import LockedFolder
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.pool import load_pool, pool_place

RECIPES = sorted((Path(__file__).parents[3] / "recipes").glob("demo-*.toml"))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["lego-rl", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("override", "problem", "fix"),
    [
        ("harness.name=claude-cod", "there is no harness 'claude-cod'", "did you mean claude-code?"),
        ("harness.options.baer=true", "unknown key harness.options.baer", "did you mean harness.options.bare?"),
        ("policy.path=builtin:dema", "there is no shipped policy builtin:dema", "builtin:demo"),
        ("policy.path=/nowhere", "there is no policy directory /nowhere", "builtin:NAME"),
        ("policy.path=~/nowhere", "/nowhere", "builtin:NAME"),
        ("tasks.pool=~nobody-at-all/pool", "no such home folder", "docs/recipes.md"),
        ("policy.tool_parser=hermess", "no tool-call parser is called 'hermess'", "qwen3_coder"),
        ("policy.tool_parser=hermes", "'hermes' cannot read the calls that the chat template", "'qwen3_coder'"),
        ("run.steps=true", "run.steps = 'true': input should be a valid integer", "docs/recipes.md"),
        ("train.optimizer.lr=false", "train.optimizer.lr = 'false': input should be a valid number", "docs/recipes.md"),
        ("run.steps=" + "9" * 5000, "99…", "docs/recipes.md"),
        ("x" * 5000, "…", "--set train.steps=12"),
        ("sandbox.rootfs=/", "/ is this machine's own root", "unpack an image into a new folder"),
        ("sandbox.state=/etc/passwd", "sandboxes cannot keep their files in /etc/passwd", "set sandbox.state"),
        ("sandbox.state=/proc/x", "sandboxes cannot keep their files in /proc/x", "set sandbox.state"),
        ("sandbox.rootfs=/nowhere", "/nowhere is no root file system", "unpack an image there"),
        ("tasks.pool=/nowhere", "there is no task pool at /nowhere", "builtin"),
        ("tasks.train=trian", "the pool has no split 'trian'", "it has heldout, train, unseen"),
        ("rollout.tasks_per_step=400", "does not fit the 320 of split 'train'", "lower rollout.tasks_per_step"),
        ("budget.context_tokens=99999", "the policy has 16384 positions", "at most 16384"),
        ("train.updates=3", "must be divisible by train.updates (3)", "docs/recipes.md"),
        ("evaluate.splits.train=4", "evaluate.splits names 'train', the split that is trained on", "docs/recipes.md"),
        ("train.optimiser.lr=1", "unknown key train.optimiser", "did you mean train.optimizer?"),
        ("train.optimizer.lr=fast", "train.optimizer.lr = 'fast'", "docs/recipes.md"),
        ("rollout.temperature=1e-300", "rollout.temperature = 1e-300", "docs/recipes.md"),
        ("evaluate.temperature=1e-300", "should be 0, or at least 0.001", "docs/recipes.md"),
        ("budget.output_tokens=9000", "output_tokens must be smaller than context_tokens", "docs/recipes.md"),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused(
    override: str,
    problem: str,
    fix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["train", str(RECIPES[0]), "--set", f"run.dir={tmp_path / 'run'}", "--set", override]
    monkeypatch.setattr("lego_rl.commands.live_line.QUIET_SECONDS", 3600.0)  # on a busy machine it says what it does
    assert run(monkeypatch, *arguments) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("lego-rl: ")
    assert problem in lines[0]
    assert len(lines[0]) < 500
    assert lines[1].startswith("  fix: ")
    assert fix in lines[1]
    assert not (tmp_path / "run" / "recipe.toml").exists(), "a run that never began cannot be resumed"


def test_wrong_usage_is_another_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "trian") == 2
    assert run(monkeypatch, "train") == 2
    assert "--resume RUN" in capsys.readouterr().err


def begun(folder: Path) -> Path:
    """A run directory with a recipe and nothing else."""
    directory = RunDirectory.make(folder)
    directory.recipe.write_text(dump(read(Recipe, RECIPES[0], ["run.dir=moved", "run.seed=9"])))
    return folder


def test_a_dry_run_of_a_resumed_run_only_prints_its_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = begun(tmp_path / "run")
    assert run(monkeypatch, "train", "--resume", str(folder), "--dry-run") == 0
    printed = tomllib.loads(capsys.readouterr().out)["run"]
    assert (printed["dir"], printed["seed"]) == (str(folder), 9)
    assert not RunDirectory(folder).journal.exists()
    assert run(monkeypatch, "train", "--resume", str(folder), "--dry-run", "--set", "run.seed=1") == 1


def test_a_dry_run_knows_the_options_of_the_harness(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ("--set", "harness.name=codex", "--set", "harness.options.bare=true")
    assert run(monkeypatch, "train", str(RECIPES[0]), "--dry-run", *named) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "unknown key harness.options.bare" in output.err


def test_advice_names_the_command_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for typed in (".venv/bin/lego-rl", "lego-rl", "cli.py"):
        monkeypatch.setattr("sys.argv", [typed, "harness", "verify", "opencode"])
        with pytest.raises(SystemExit, match="1"):
            cli.main()
        named = typed if typed.endswith("lego-rl") else "lego-rl"
        assert capsys.readouterr().err.endswith(f"run: {named} harness install opencode\n")


def test_a_run_that_is_at_work_is_refused_before_its_checkpoints_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory(begun(tmp_path / "run"))
    (directory.checkpoints / "step-0003").mkdir(parents=True)  # incomplete: reading it is another error
    with Journal(directory.journal):
        assert run(monkeypatch, "train", "--resume", str(directory.path)) == 1
    assert "another process is writing" in capsys.readouterr().err


def test_fine_tuning_goes_on_only_with_the_recipe_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    (folder / "checkpoints" / "step-0001").mkdir(parents=True)
    recipe = tmp_path / "sft.toml"
    recipe.write_text(
        f'run.dir = "{folder}"\npolicy.path = "builtin:demo"\ndemonstrations.runs = ["{tmp_path / "none"}"]\n'
        "sft.steps = 2\n"
    )
    (folder / "recipe.toml").write_text(recipe.read_text())
    assert run(monkeypatch, "sft", str(recipe), "--set", "sft.steps=3") == 1
    assert "holds a run of another recipe" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    for name in (str(folder), "run"):
        assert run(monkeypatch, "sft", str(recipe), "--set", f"run.dir={name}") == 1
        assert "holds no captured trials" in capsys.readouterr().err, "its own recipe goes on"


def test_neither_command_works_in_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory(begun(tmp_path / "run"))
    with Journal(directory.journal) as journal:
        journal.append("trial-started", {"id": "t", "try": 1})
    before = directory.recipe.read_bytes()
    recipe = tmp_path / "sft.toml"
    recipe.write_text(
        f'run.dir = "{directory.path}"\npolicy.path = "builtin:demo"\ndemonstrations.runs = ["{tmp_path}"]\n'
        "sft.steps = 2\n"
    )
    assert run(monkeypatch, "sft", str(recipe)) == 1
    assert "holds a run of lego-rl train" in capsys.readouterr().err
    assert directory.recipe.read_bytes() == before
    directory.recipe.unlink()  # its trials are another recipe's, whoever removed it
    assert run(monkeypatch, "train", str(RECIPES[0]), "--set", f"run.dir={directory.path}") == 1
    assert "holds a run already" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [False, True], ids=["", "Ctrl-C ignored"])
def test_whoever_asks_a_command_to_end_has_it_end_as_ctrl_c_does(number: signal.Signals, ignored: bool) -> None:
    program = (
        "import asyncio, os, signal, sys\n"
        "from lego_rl import cli\n"
        f"signal.signal(signal.SIGINT, signal.{'SIG_IGN' if ignored else 'default_int_handler'})\n"
        f"signal.signal({int(number)}, signal.SIG_DFL)\n"  # nohup, under which a suite may run, has it ignored
        "async def work():\n"
        "    try:\n"
        f"        os.kill(os.getpid(), {int(number)})\n"
        "        await asyncio.sleep(60)\n"
        "    finally:\n"
        "        print('cleared up')\n"
        "def app():\n"
        "    try:\n"
        "        asyncio.run(work())\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
        "cli.app = app\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "cleared up\n"), done.stderr


def test_a_terminal_without_a_letter_for_it_ends_no_command() -> None:
    program = (
        "import sys; from lego_rl import cli; from rich.console import Console\n"
        "cli.app = lambda: Console().print('a · |Δ|')\n"
        "cli.main()\n"
    )
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "a ? |?|\n"), done.stderr


def test_fine_tuning_that_is_at_work_is_refused_before_its_folder_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "sft.toml"
    recipe.write_text(
        f'run.dir = "{tmp_path / "run"}"\npolicy.path = "builtin:demo"\n'
        f'demonstrations.runs = ["{tmp_path / "none"}"]\nsft.steps = 2\n'
    )
    with LockedFolder(tmp_path / "run") as folder:
        (folder.path / "recipe.toml").write_text("of the one at work")
        assert run(monkeypatch, "sft", str(recipe)) == 1
        assert (folder.path / "recipe.toml").read_text() == "of the one at work"
    assert "another process is writing" in capsys.readouterr().err
    assert run(monkeypatch, "sft", str(recipe)) == 1
    assert "holds no captured trials" in capsys.readouterr().err, "the lock went with its process"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_meets_its_promises(path: Path, tmp_path: Path) -> None:
    recipe = read(Recipe, path)
    assert recipe.run.steps >= 8
    assert recipe.rollout.tasks_per_step >= 4
    assert recipe.rollout.group_size == 8
    assert recipe.evaluate.splits["heldout"] >= 32
    assert recipe.evaluate.trials >= 4
    assert recipe.evaluate.temperature == recipe.rollout.temperature == 1.0
    assert recipe.train.routing == "replay"
    assert policy_directory(recipe.policy.path).is_dir()
    task = load_pool(pool_place("builtin", tmp_path))["heldout"][0]
    build = SpecBuilder(recipe)
    before, after = (build([task], label, 4, 1.0) for label in ("heldout/before", "heldout/after"))
    assert len({spec.seed for spec in before + after}) == 8
    assert [spec.id for spec in build([task], "heldout/before", 4, 1.0)] == [spec.id for spec in before]
    assert (before[0].family, before[0].split) == (task.family, "heldout")


def test_a_policy_is_shipped_or_a_folder(tmp_path: Path) -> None:
    assert policy_directory(str(tmp_path)) == tmp_path
    with pytest.raises(ConfigError, match="shipped: builtin:demo"):
        policy_directory("builtin:")


def test_sandboxes_of_an_unknown_kind_are_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "bench", "sandbox", "--environment", "bubblewarp") == 1
    assert "sandbox.environment = 'bubblewarp': input should be 'bubblewrap'" in capsys.readouterr().err
