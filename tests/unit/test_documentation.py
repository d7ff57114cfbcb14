"""What the pages say and the code can contradict: links, commands, options, names, and examples that run."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from lego_rl.cli import app
from lego_rl.conformance.laws import Law
from lego_rl.conformance.situations import SITUATIONS
from lego_rl.engine.protocol import Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.dialects import DIALECTS
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import CallRole, Fate, Trajectory
from lego_rl.harness import registry
from lego_rl.messages import Message
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.settled import SCORED
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.codec import patch_to_json, verdict_to_json
from lego_rl.sandbox.verdict import Change, Patch, Verdict

ROOT = Path(__file__).parents[2]
DEMO = Path(str(files("lego_rl.policies") / "demo"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
HARNESSES = (ROOT / "docs" / "harnesses.md").read_text(encoding="utf-8")
CAPTURE = (ROOT / "docs" / "capture.md").read_text(encoding="utf-8")
TITLES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "mini-swe-agent": "mini-swe-agent",
    "opencode": "OpenCode",
    "openhands-sdk": "OpenHands SDK",
    "qwen-code": "Qwen Code",
}
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def without_code(text: str) -> str:
    """The page without its blocks of code."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(line for line in prose.split("\n") if not line.startswith("    "))


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def indented(text: str) -> list[str]:
    """Blocks of code that are set off by four spaces."""
    found = re.findall(r"(?:^(?:    .*)?\n)+", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.M)
    return ["\n".join(line[4:] for line in block.split("\n")).strip("\n") for block in found if block.strip()]


def python_of(text: str) -> list[str]:
    """Its Python, in order: fenced, or set off and with an import."""
    return blocks(text, "python") + [block for block in indented(text) if re.match(r"(import|from) ", block)]


def anchors(page: Path) -> set[str]:
    """What can be linked to in a page, as GitHub names it."""
    titles = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def first_column(text: str, head: str) -> list[str]:
    """The names in the first column of the table that begins with `head`."""
    table = text.partition(f"| {head} |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.split("\n") if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def section(title: str) -> str:
    """The section of a harness."""
    found = HARNESSES.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, f"docs/harnesses.md has no section {title}"
    return found


def test_there_is_something_to_check() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(len(list(commands(text))) for text in texts) > 20
    assert len(python_of(CAPTURE)) >= 6
    assert len(python_of(HARNESSES)) >= 3
    assert "when-something-looks-wrong" in anchors(ROOT / "docs" / "capture.md")


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for place in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if place.startswith("http"):
            continue
        path, _, anchor = place.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{place} is not there"
        if anchor:
            assert anchor in anchors(target), f"{place}: {target.name} has no such heading"


def commands(text: str) -> Iterator[list[str]]:
    """Words of every ``lego-rl`` command in a page."""
    lines = [line for block in indented(text) for line in re.sub(r"\\\n\s*", "", block).split("\n")]
    shown = [line.partition("lego-rl ")[2] for line in lines]
    shown += re.findall(r"`(?:\S*/)?lego-rl ([^`]+)`", text.replace("\n", " "))
    for line in shown:
        words = shlex.split(line, comments=True)
        if words and not words[0].endswith(":"):
            yield words


@pages
def test_commands_and_their_options_exist(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        node: Any = typer.main.get_command(app)
        given = list(words)
        while getattr(node, "commands", None):
            name = given.pop(0)
            assert name in node.commands, f"lego-rl {' '.join(words)}"
            node = node.commands[name]
            if not given:
                break
        known = {name for parameter in node.params for name in parameter.opts}
        own = given[: given.index("--")] if "--" in given else given  # what comes after is another program's
        for word in own:
            if word.startswith("--"):
                assert word.partition("=")[0] in known, f"lego-rl {' '.join(words)}"


@pages
def test_targets_of_make_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"(?:^    |`)make ([\w-]+)", text, flags=re.MULTILINE)
    assert set(shown) <= targets


@pages
def test_python_compiles(page: Path) -> None:
    for block in python_of(page.read_text(encoding="utf-8")):
        compile(block, page.name, "exec")


@pytest.mark.parametrize("name", sorted(registry.REGISTRY))
def test_a_harness_has_its_section(name: str) -> None:
    assert name in TITLES, "a harness has a section in docs/harnesses.md, and its title here"
    text, harness = section(TITLES[name]), registry.make(name)
    assert harness.version in text
    rows = ("start", "speaks", "silent by", "limits", "who asks", "ends", "of the repository")
    assert [row for row in rows if f"| {row} |" not in text] == []
    silence = getattr(import_module(type(harness).__module__), "SILENCE", {})
    assert [key for key in leaves(silence) if key not in text] == []


def leaves(settings: dict[str, Any]) -> Iterator[str]:
    """Keys of settings that hold a value."""
    for key, value in settings.items():
        yield from leaves(value) if isinstance(value, dict) else [key]


def test_every_harness_has_a_recipe_that_is_valid() -> None:
    recipes = [tomllib.loads(block)["harness"] for block in blocks(HARNESSES, "toml")]
    for recipe in recipes:
        registry.make(recipe["name"], recipe.get("options", {}))
    assert sorted(recipe["name"] for recipe in recipes) == sorted(registry.REGISTRY)


def test_tables_of_harnesses_name_each() -> None:
    assert sorted(first_column(HARNESSES, "name")) == sorted(registry.REGISTRY)
    assert sorted(first_column(HARNESSES, "harness")) == sorted(registry.REGISTRY)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [title for title in TITLES.values() if title not in readme] == []


def test_situations_and_laws_are_explained() -> None:
    assert first_column(HARNESSES, "situation") == [situation.name for situation in SITUATIONS]
    assert first_column(HARNESSES, "law, in each of them") == list(Law)


def test_fates_and_roles_are_explained() -> None:
    assert first_column(CAPTURE, "fate of a call") == list(get_args(Fate.__value__))
    assert set(first_column(CAPTURE, "role of a call")) == set(get_args(CallRole.__value__))


def test_paths_of_the_gateway_are_listed() -> None:
    served = {
        path for dialect in DIALECTS for path in (dialect.completion_path, dialect.counting and dialect.counting.path)
    }
    assert {f"POST {path}" for path in served if path} <= set(first_column(CAPTURE, "path"))


def test_every_room_is_named() -> None:
    text = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    folders = {path.name for path in (ROOT / "src" / "lego_rl").iterdir() if any(path.glob("*.*"))}
    assert {name.rstrip("/") for name in first_column(text, "folder of `src/lego_rl/`")} == folders - {"__pycache__"}


async def captured() -> Trajectory:
    """Two turns, through a real session."""
    template = ChatTemplate.load(DEMO)
    encoder = Encoder((DEMO / "tokenizer.json").read_text(encoding="utf-8"))

    async def say(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        return Reply([*encoder.encode("I look."), template.end_of_turn])

    gateway = Gateway(ScriptedEngine(say, version=1), template, tool_call_parser("qwen3_coder"))
    session = gateway.open(Budget(), temperature=1.0, seed=0)
    messages: tuple[Message, ...] = (Message("user", "Mend the price."),)
    for _ in range(2):
        exchange = await session.admit(Request(messages, ()))
        answer = await exchange.answer()
        messages += (answer.message, Message("user", "Go on."))
        exchange.written()
    return await gateway.close(session)


async def test_the_ways_to_read_a_trial_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory.make(tmp_path / "runs" / "demo")
    spec = TrialSpec(Path("tasks/one"), "train/step-0000", 0, 1, 7, 1.0, Budget(), HarnessChoice("claude-code"))
    trajectory = await captured()
    lossy = replace(trajectory.accounting, refused={"turns": 1})
    trajectory = replace(trajectory, accounting=lossy)
    outcome = Outcome(1, Ended.FINISHED, None, "")
    directory.store.save(TrialRecord(spec, outcome, trajectory, PhaseSeconds(), lossy))
    with Journal(directory.journal) as journal:
        journal.append(SCORED, {"id": spec.id, "ended": Ended.FINISHED.value})
    monkeypatch.chdir(tmp_path)
    shared: dict[str, Any] = {}
    for block in python_of(CAPTURE):
        there = block.replace("trials/ID", f"trials/{spec.id}").replace("src/lego_rl/policies/demo", str(DEMO))
        exec(compile(there, "docs/capture.md", "exec"), shared)
        assert capsys.readouterr().out, f"nothing is printed by:\n{block}"


def test_the_way_to_read_a_grading_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = tmp_path / "runs" / "demo" / "trials" / "ID"
    trial.mkdir(parents=True)
    (trial / "patch.json").write_text(patch_to_json(Patch((Change("a.py", "file"),), {".git": "git directory"})))
    (trial / "verdict.json").write_text(verdict_to_json(Verdict(1, {"t.py::t": "passed"})))
    monkeypatch.chdir(tmp_path)
    (block,) = python_of((ROOT / "docs" / "sandbox.md").read_text(encoding="utf-8"))
    exec(compile(block, "docs/sandbox.md", "exec"), {})
    assert capsys.readouterr().out == "[('a.py', 'file')] {'.git': 'git directory'}\n{'t.py::t': 'passed'}\n"


def test_a_start_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [block for block in blocks(HARNESSES, "python") if block.startswith("from lego_rl.harness import")]
    exec(compile(block, "docs/harnesses.md", "exec"), {})
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:8100/s/SECRET" in capsys.readouterr().out
