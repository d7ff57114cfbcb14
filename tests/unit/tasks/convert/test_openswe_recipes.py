"""Recipes of OpenSWE that may bring the fix are refused, and the clone has no history but that of the base commit.

Rows are SYNTHETIC."""

import base64
import re
import subprocess
from pathlib import Path

import pytest
from synthetic_rows import COMMIT, GOLD, HIDDEN, MENDING, TREE, openswe

from git_tools import commit, git, init
from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RowError

RECIPE = openswe()["Dockerfile"]
END = "f00dfeed" * 5


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def wrapped(text: str) -> str:
    return " ".join(encoded(text)[place : place + 76] for place in range(0, len(encoded(text)), 76))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (f"git clone https://example.org/x /opt/x && cd /opt/x && git checkout {END}", "names the commit of the fix"),
        (f"pip install git+https://example.org/x@{END[:7]}", "names the commit of the fix"),
        ("cd /testbed && git fetch origin pull/1/head:fix", "fetches a pull request"),
        ("wget https://example.org/x/y/pull/12.diff", "fetches a pull request"),
        ("git clone https://github.com/Me/Calc /opt/calc", "gets its repository me/calc a second time"),
        ("pip install https://github.com/me/calc/archive/main.zip", "gets its repository"),
        ("cd /testbed && git checkout main", "moves to another commit"),
        ("cd /testbed && git -C . pull", "moves to another commit"),
        ("git reset --hard \\\n  origin/main", "moves to another commit"),
        ("pip install -U 'calc>=2'", "installs a release of its own repository"),
        ("conda run -n testbed pip install Calc", "installs a release"),
        (f"echo {encoded(GOLD)} > /opt/x", "holds a part of its patches, encoded"),
        (f"echo {wrapped(HIDDEN)} > /opt/x", "holds a part of its patches, encoded"),
        (f"echo {GOLD.encode().hex()} > /opt/x", "holds a part of its patches, encoded"),
        ("echo eA== | base64 -d > /opt/x", "decodes what nobody can see"),
        ("python -c 'import base64; base64.b64decode(x)'", "decodes what nobody can see"),
        (f"echo 'return first + second  {MENDING}'", "holds a line of its patches"),
    ],
)
def test_a_recipe_that_may_bring_the_fix_is_refused(step: str, said: str) -> None:
    with pytest.raises(RowError, match=f"its Dockerfile {said}"):
        format_named("openswe").convert(openswe(Dockerfile=f"{RECIPE}RUN {step}\n", end_commit=END))


@pytest.mark.parametrize(
    "step",
    [
        f"cd /testbed && git checkout {COMMIT}",
        f"cd /testbed && git reset --hard {COMMIT[:8]}",
        "apt-get update && apt-get install -y git build-essential",
        "pip install calculator 'pytest==8.0.0' https://github.com/other/calc-more/archive/v1.zip",
        "git clone --depth 1 https://github.com/other/data /opt/data",
        "cd /testbed && pip install -e '.[test]' && git submodule update --init",
        "echo sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ],
)
def test_what_a_recipe_needs_stays(step: str) -> None:
    files = (
        format_named("openswe").convert(openswe(Dockerfile=f"{RECIPE}RUN {step}\n", end_commit=END)).environment.files
    )
    assert files["Dockerfile"].decode().endswith(f"RUN {step}\n")


def test_the_clone_has_the_past_of_the_base_commit_and_nothing_else(tmp_path: Path) -> None:
    origin = init(tmp_path / "origin")
    commit(origin, {"a.txt": "1"}, "old")
    git(origin, "tag", "v1")
    base = commit(origin, {name: content.decode() for name, content in TREE.items()}, "base")
    fix = commit(origin, {"src/calc.py": MENDING}, "the fix")
    git(origin, "tag", "v2")
    git(origin, "branch", "other")
    recipe = format_named("openswe").convert(openswe(base_commit=base)).environment.files["Dockerfile"].decode()
    (step,) = re.findall(r"^RUN (git clone (?:.*\\\n)*.*)$", recipe, re.MULTILINE)
    tree = tmp_path / "testbed"
    step = step.replace("https://github.com/me/calc.git", str(origin)).replace("/testbed", str(tree))
    subprocess.run(["sh", "-ec", step], check=True, capture_output=True)
    assert git(tree, "rev-parse", "HEAD") == base and git(tree, "tag") == "v1"
    assert git(tree, "rev-list", "--all", "HEAD", "--count") == "2"
    assert not git(tree, "remote")
    objects = git(tree, "cat-file", "--batch-check", "--batch-all-objects")
    assert fix not in objects and base in objects
    assert (tree / "src" / "calc.py").read_bytes() == TREE["src/calc.py"]
