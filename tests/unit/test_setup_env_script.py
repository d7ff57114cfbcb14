"""The set-up of a node by its roles: what it would do, said without doing it."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "setup_env.sh"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def would(tmp_path: Path, *arguments: str) -> tuple[int, list[str], list[str]]:
    """Exit status, and lines of both streams, of a dry run in a checkout that nothing is set up in."""
    copy = tmp_path / "scripts" / SCRIPT.name
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(SCRIPT, copy)
    for name in ("pyproject.toml", "requirements-cluster-overrides.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run(
        ["bash", str(copy), "--dry-run", *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(tmp_path.rglob("*")) == before, "a dry run changes nothing"
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.parametrize(
    ("roles", "steps"),
    [
        (["laptop"], ["scripts/setup.sh claude-code"]),
        ([], ["scripts/setup.sh claude-code"]),
        (["--harness", "codex", "--harness", "opencode", "laptop"], ["scripts/setup.sh codex opencode"]),
        (["sandbox"], ["scripts/setup.sh claude-code", "scripts/setup_docker.sh"]),
        (["--cpu", "driver", "train", "rollout"], ["scripts/setup.sh claude-code", "scripts/setup_verl.sh"]),
    ],
)
def test_a_role_has_its_steps_once(tmp_path: Path, roles: list[str], steps: list[str]) -> None:
    status, out, err = would(tmp_path, *roles)
    assert (status, err) == (0, [])
    assert out == [*steps, "setup: nothing was done: this was a dry run"]


def test_all_nodes_of_ray_have_one_environment(tmp_path: Path) -> None:
    outputs = {tuple(would(tmp_path, role)[1]) for role in ("driver", "train", "rollout")}
    (lines,) = outputs
    assert [line.split()[0] for line in lines[:-1]] == ["scripts/setup.sh", *[".cache/uv/bin/uv"] * 3]
    assert "--override requirements-cluster-overrides.txt" in lines[2]


def test_vllm_that_serves_has_an_environment_of_its_own(tmp_path: Path) -> None:
    _, out, _ = would(tmp_path, "serve")
    assert any("--group vllm" in line and ".venv-serve" in line for line in out)


@pytest.mark.parametrize("arguments", [["nowhere"], ["--harness"], ["--gpu", "train"]])
def test_what_is_not_known_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    status, out, err = would(tmp_path, *arguments)
    assert status == 1
    assert out == []
    assert err[1].startswith("  fix: scripts/setup_env.sh")


def test_versions_are_the_same_everywhere() -> None:
    """An extra, a group, what the tests install and what the script installs beside them."""
    tested = (Requirement(line) for line in (ROOT / "requirements-verl.txt").read_text().splitlines() if "==" in line)
    pins = {found.name.lower(): str(found.specifier) for found in tested}
    extra = [Requirement(line) for line in PROJECT["project"]["optional-dependencies"]["verl"]]
    assert {found.name: str(found.specifier) for found in extra} == {found.name: pins[found.name] for found in extra}
    installed = dict(re.findall(r"\b(verl|veomni)(?:\[\w+\])?(==[\d.]+)", SCRIPT.read_text()))
    assert installed == {name: pins[name] for name in ("verl", "veomni")}
