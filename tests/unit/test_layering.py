"""Imports go one way, and heavy libraries stay where the contract puts them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "lego_rl"
LOW = {"tasks", "sandbox", "harness", "gateway", "engine"}
HIGH = {
    "bench",
    "rollout",
    "train",
    "cluster",
    "evaluate",
    "analysis",
    "dashboard",
    "report",
    "config",
    "cli",
    "cli_check",
    "cli_eval",
    "cli_harness",
    "cli_run",
    "cli_tasks",
    "commands",
    "conformance",
    "selfcheck",
    "workspace",
}
MAY_IMPORT_TORCH = ("engine/embedded", "engine/inside_vllm", "train/", "cluster/")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every absolute module name a file imports, wherever in the file the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_there_is_code_to_check() -> None:
    assert {room(path) for path in modules()} >= LOW | {"rollout", "train"}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    for line, name in imported(path):
        target = name.split(".")[1] if name.startswith("lego_rl.") else ""
        assert not (room(path) in LOW and target in HIGH), f"{path}:{line} imports {name}"
        assert name.split(".")[0] != "warm_start", f"{path}:{line} reaches the demonstrator"


def test_no_two_rooms_need_each_other() -> None:
    needs: dict[str, set[str]] = {}
    for path in modules():
        targets = {name.split(".")[1] for _, name in imported(path) if name.startswith("lego_rl.")}
        needs.setdefault(room(path), set()).update(targets - {room(path)})
    list(TopologicalSorter(needs).static_order())  # raises CycleError with the rooms


MUST_NOT_KNOW = {
    "rollout": {"train"},
    "evaluate": {"train"},
    "analysis": {"train", "report", "config"},
    "report": {"train"},
    "train": {"sandbox", "harness", "gateway.server", "gateway.dialects"},
    "conformance": {"rollout", "train", "config"},
    "selfcheck": {"train", "config", "conformance"},
    "workspace": {"rollout", "train", "config"},
    "bench": {"rollout", "train", "config", "harness", "conformance"},
}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_knows_nothing_of_what_is_not_its_business(path: Path) -> None:
    for line, name in imported(path):
        for unknown in MUST_NOT_KNOW.get(room(path), set()):
            assert not f"{name}.".startswith(f"lego_rl.{unknown}."), f"{path}:{line} imports {name}"


ENVIRONMENTS = ("bubblewrap", "docker", "kubernetes")
MAY_CHOOSE_ONE = {"sandbox/environments.py", "sandbox/settings.py", "conformance/trial.py"}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_who_chooses_an_environment_knows_which_there_are(path: Path) -> None:
    relative = path.relative_to(SOURCE)
    if str(relative) in MAY_CHOOSE_ONE:
        return
    own = relative.parts[1] if room(path) == "sandbox" else ""
    for line, name in imported(path):
        for other in set(ENVIRONMENTS) - {own}:
            assert not f"{name}.".startswith(f"lego_rl.sandbox.{other}."), f"{path}:{line} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_libraries_stay_in_their_rooms(path: Path) -> None:
    relative = str(path.relative_to(SOURCE))
    for line, name in imported(path):
        library = name.split(".")[0]
        if library in {"torch", "transformers", "safetensors"}:
            assert relative.startswith(MAY_IMPORT_TORCH), f"{path}:{line} imports {name}"
        assert library not in {"verl", "ray"} or relative.startswith("cluster/"), f"{path}:{line} imports {name}"


def test_the_command_line_starts_without_anything_heavy() -> None:
    code = "import sys, lego_rl.cli; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"torch", "transformers", "numpy", "pyarrow", "harbor", "swebench", "dulwich", "pydantic"} & set(found)
