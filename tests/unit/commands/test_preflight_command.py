"""``lego-rl check recipe`` and ``lego-rl train --backend verl`` as a person calls them."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_rl import cli
from lego_rl.cluster.launch import Launch
from lego_rl.commands.train_verl import write_datasets
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.tasks.index.file import Index

RECIPES = Path(__file__).parents[3] / "recipes"
PUBLISHED = sorted(map(str, RECIPES.glob("qwen3.5-35b-a3b-*.toml")))
CPU = str(RECIPES / "cluster-cpu.toml")
DEMO = str(RECIPES / "demo-claude-code.toml")

type Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["lego-rl", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


@pytest.mark.parametrize("recipe", PUBLISHED, ids=lambda path: Path(path).stem)
def test_a_published_recipe_passes_offline(recipe: str, call: Call) -> None:
    code, out, err = call("check", "recipe", recipe, "--offline")
    assert (code, err) == (0, "")
    assert {line.split()[0] for line in out.splitlines()} == {"OK"}


def test_one_line_a_check_and_what_is_fatal_again_at_the_end(call: Call) -> None:
    code, out, err = call("check", "recipe", PUBLISHED[0], "--offline", "--set", "cluster.nodes=5")
    (fatal,) = [line for line in out.splitlines() if line.startswith("FATAL")]
    assert code == 1
    assert fatal.startswith("FATAL  node-sums: 2 training + 1 rollout nodes are 3, cluster.nodes is 5; fix: set ")
    assert "node-sums" in err


def test_several_are_counted(call: Call) -> None:
    wrong = ["--set", "cluster.nodes=5", "--set", "cluster.microbatch_tokens=1000"]
    code, _, err = call("check", "recipe", PUBLISHED[0], "--offline", *wrong)
    assert code == 1
    assert "2 of " in err


def test_json_has_the_reasons(call: Call) -> None:
    code, out, _ = call("check", "recipe", CPU, "--offline", "--json", "--set", "cluster.nodes=5")
    records = {record["id"]: record for record in json.loads(out)}
    assert code == 1
    assert records["node-sums"]["level"] == "FATAL"
    assert records["node-sums"]["reason"].startswith("verl takes trainer and servers")
    assert records["gspo"]["level"] == "OK"


def test_a_recipe_of_one_machine_is_asked_what_concerns_it(call: Call) -> None:
    code, out, _ = call("check", "recipe", DEMO, "--offline")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == ["tool-parser:", "harness:"]


def test_the_line_of_a_run_on_verl(call: Call, tmp_path: Path) -> None:
    chosen = ["--set", f"run.dir={tmp_path}", "--set", "cluster.python=/opt/verl/bin/python"]
    code, out, _ = call("train", CPU, "--backend", "verl", "--dry-run", *chosen)
    words = shlex.split(out)
    assert code == 0
    assert words[words.index("/opt/verl/bin/python") :][1:3] == ["-m", "verl.trainer.main_ppo"]
    assert "trainer.v1.trainer_mode=lego_sync" in words
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", CPU], "--backend verl"),
        (["train", DEMO, "--backend", "verl"], "no section [cluster]"),
        (["train", CPU, "--backend", "verl", "--set", "cluster.nodes=5"], "the run would fail: node-sums"),
    ],
)
def test_the_wrong_backend_and_a_wrong_recipe_are_refused(
    arguments: list[str], said: str, call: Call, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = ["--set", f"run.dir={run}", "--set", f"sandbox.state={tmp_path / 'state'}"]
    code, _, err = call(*arguments, *settings)
    assert code == 1
    assert said in err
    assert not run.exists()


def test_verl_is_given_the_tasks_of_the_split_and_those_that_are_evaluated(tmp_path: Path) -> None:
    chosen = [f"run.dir={tmp_path / 'run'}", f"sandbox.state={tmp_path / 'state'}", "evaluate.splits={unseen=3}"]
    launch = Launch.of(read(Recipe, Path(CPU), chosen), Path("python"))
    write_datasets(launch)
    trained, evaluated = Index.read(launch.files.train), Index.read(launch.files.evaluated)
    assert set(trained.info("split")) == {"train"}
    assert evaluated.info("split") == ["unseen"] * 3
    assert all(path.is_absolute() and path.is_dir() for path in [*trained.paths, *evaluated.paths])
