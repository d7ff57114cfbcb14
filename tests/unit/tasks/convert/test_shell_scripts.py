"""Scripts of rows: what applies patches is taken out in every form, the rest is what it was, and bash reads it."""

import contextlib
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.convert.shell import command_of, with_status, without_isolation, without_patches

DIFF = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-GOLD\n+GOLD\n"


def bash_reads(script: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", script], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "script",
    [
        f"git apply -v - <<'EOF'\n{DIFF}EOF\n",
        f"git apply -v --allow-empty - << EOF\n{DIFF}EOF\n",
        f'git -C /testbed apply <<"E.O-F"\n{DIFF}E.O-F\n',
        f"git -c core.x=y --no-pager apply - <<-EOF\n{DIFF}\tEOF\n",
        f"cd /testbed && git apply - <<'EOF' || {{ echo failed; exit 1; }}\n{DIFF}EOF\n",
        f"if ! git apply -v - <<'EOF'\n{DIFF}EOF\nthen\n  echo failed\n  exit 1\nfi\n",
        f"if git apply --check - <<'EOF'; then echo fine; fi\n{DIFF}EOF\n",
        f"patch -p1 <<'EOF'\n{DIFF}EOF\n",
        f"(cd /testbed; patch --batch --fuzz=5 -p1 -i - <<'EOF')\n{DIFF}EOF\n",
        f"cat > /tmp/gold.patch <<'EOF'\n{DIFF}EOF\ngit apply /tmp/gold.patch\n",
        f"cat <<'EOF' > /tmp/gold.patch\n{DIFF}EOF\npatch -p1 < /tmp/gold.patch || true\n",
        f"cat <<'EOF' | git apply -\n{DIFF}EOF\n",
        f"tee /tmp/gold.patch <<'EOF' >/dev/null\n{DIFF}EOF\ntimeout 10 git apply /tmp/gold.patch\n",
        f"git \\\n  apply -v \\\n  - <<'EOF'\n{DIFF}EOF\n",
        "git checkout 0123456 tests/a.py GOLD\ngit reset --hard GOLD; git stash pop GOLD\n",
        "git cherry-pick GOLD && git pull origin GOLD\n",
        "( git fetch origin GOLD ) || true\n",
        "git show GOLD\ngit status GOLD\ngit -c core.fileMode=false diff GOLD\ngit log GOLD\n",
        "# GOLD: how it was fixed\n",
        "time git restore 'GOLD; x' \"GOLD && y\" tests\n",
    ],
)
def test_patches_and_changes_of_the_tree_are_taken_out(script: str) -> None:
    made = without_patches(f"#!/bin/bash\nset -e\n{script}pytest tests\n")
    assert "GOLD" not in made and "diff --git" not in made
    assert made.startswith("set -e\n") and made.endswith("pytest tests\n")
    assert bash_reads(made), made


@pytest.mark.parametrize(
    "script",
    [
        "pytest -k 'apply or patch' tests\n",
        "echo 'git is not there'; git config --global --add safe.directory /testbed\n",
        "pip install patch unidiff\n",
        "python3 - <<'EOF'\nprint('x')\nEOF\n",
        "cat > conftest.txt <<'EOF'\nhello\nEOF\n",
        "git describe --tags; git rev-parse HEAD\n",
        "monkeypatch=1 ./run.sh --patch-level 3\n",
        'A="$(cat x)"; B=${A#patch}\n',
        "sed -i 's/a/b/' x | tee y\n",
    ],
)
def test_the_rest_stays(script: str) -> None:
    assert without_patches(script) == script


@pytest.mark.parametrize(
    "script",
    [
        "bash -c 'git apply x.diff'\n",
        "xargs git apply < x\n",
        'eval "git am x"\n',
        "./x | xargs patch -p1\n",
        "python3 - <<'EOF'\nos.system('git apply x')\nEOF\n",
    ],
)
def test_what_may_be_a_patch_in_disguise_is_refused(script: str) -> None:
    with pytest.raises(RowError, match="may apply a patch"):
        without_patches(script)


@pytest.mark.parametrize("target", ["src/a.py", "./src/a.py", "/testbed/src/a.py"])
@pytest.mark.parametrize("how", ["cat > {} <<'EOF'", "cat <<'EOF' >> {}", "tee {} <<'EOF'"])
def test_a_script_that_writes_a_file_of_the_patches_by_itself_is_refused(target: str, how: str) -> None:
    with pytest.raises(RowError, match=r"writes src/a\.py"):
        without_patches(f"{how.format(target)}\nfixed\nEOF\n", ["src/a.py"])
    assert without_patches(f"{how.format('other.txt')}\nx\nEOF\n", ["src/a.py"])


def test_a_hostile_script_takes_no_square_of_its_length() -> None:
    started = time.monotonic()
    for line in ("git " + "-a " * 6_000, "git status " + "'" * 19_001, "a/" * 9_000, ";" * 19_000, 'git "' * 3_000):
        with contextlib.suppress(RowError):
            without_patches(f"{line}\n" * 20)
    assert time.monotonic() - started < 20
    with pytest.raises(RowError, match="a line of more than"):
        without_patches("x\\\n" * 30_000)


def test_the_status_is_that_of_the_tests() -> None:
    script = with_status(": '>>>>> Start Test Output'\n(exit 7)\n: '>>>>> End Test Output'\ngit checkout x\n")
    assert subprocess.run(["bash", "-c", script], check=False, capture_output=True).returncode == 7
    assert with_status("pytest\n") == "pytest\n"


@pytest.mark.parametrize("text", ["it's", 'a "b" $HOME `id` \\', "new\nline", "'; touch /tmp/x; '", "<<EOF"])
def test_a_script_is_one_argument_whatever_is_in_it(text: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    command = command_of(f"printf %s {shlex.quote(text)}; exit 3")
    done = subprocess.run(["sh", "-c", command], env={"LEGO_REPORT": str(report), "PATH": "/usr/bin:/bin"}, check=False)
    assert (report.read_text(), done.returncode) == (text, 3)


def test_installing_the_work_tree_needs_no_network() -> None:
    assert without_isolation("python -m pip install -e .[test] --verbose") == (
        "python -m pip install --no-build-isolation --no-deps -e .[test] --verbose"
    )
    assert without_isolation("pip install . && x") == "pip install --no-build-isolation --no-deps . && x"
    for other in ("pip install -r x.txt", "pip install pytest==7", "pip install ../x", "pipx install ."):
        assert without_isolation(other) == other
