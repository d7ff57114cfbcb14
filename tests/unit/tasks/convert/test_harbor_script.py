"""``tests/test.sh`` under stock Harbor: run on the tree that an agent left, here with paths of a temporary folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_rows import COMMIT, HIDDEN, MENDING, TREE, gym

from git_tools import commit, init
from lego_rl.tasks.convert.registry import format_named

MENDED = TREE["src/calc.py"].replace(b"first - second", b"first + second  " + MENDING.encode())
NEW = """\
diff --git a/tests/test_new.py b/tests/test_new.py
new file mode 100644
--- /dev/null
+++ b/tests/test_new.py
@@ -0,0 +1,2 @@
+def test_new():
+    assert True
"""


def reward_of(tmp_path: Path, changes: dict[str, bytes | None]) -> str | None:
    """What stock Harbor finds after an agent changed a work tree."""
    tree = tmp_path / "testbed"
    init(tree)
    base = commit(tree, {name: content.decode() for name, content in TREE.items()}, "base")
    for name, content in changes.items():
        if content is None:
            (tree / name).unlink()
        else:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(content)
    task = format_named("swe-gym").convert(gym(repo="iterative/dvc", test_patch=HIDDEN + NEW)).write(tmp_path / "pool")
    script = (task / "tests" / "test.sh").read_text()
    for path, here in (("/testbed", tree), ("/tests/", f"{task / 'tests'}/"), ("/logs", tmp_path / "logs")):
        script = script.replace(path, str(here))
    script = script.replace(COMMIT, base).replace("/tmp/reward", str(tmp_path / "reward"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", script], check=False, capture_output=True, env={"PATH": path, "HOME": str(tmp_path)})
    assert "test_hidden_sum_of_one_and_two" in (tree / "tests" / "test_calc.py").read_text()
    reward = tmp_path / "logs" / "verifier" / "reward.txt"
    return reward.read_text().strip() if reward.exists() else None


@pytest.mark.parametrize(
    ("changes", "reward"),
    [
        ({}, "0"),
        ({"src/calc.py": MENDED}, "1"),
        (
            {"src/calc.py": MENDED, "tests/test_calc.py": TREE["tests/test_calc.py"] + b"\ndef test_mine():\n    1\n"},
            "1",
        ),
        ({"src/calc.py": MENDED, "tests/test_calc.py": None}, "1"),
        ({"src/calc.py": MENDED, "tests/test_new.py": b"def test_mine():\n    assert 0\n"}, "1"),
        ({"src/calc.py": MENDED, "tests/test_new.py/x": b""}, "1"),
        ({"tests/test_calc.py": b"", "tests/test_new.py": b""}, "0"),
    ],
)
def test_whatever_an_agent_did_to_the_tests_there_is_a_reward(
    tmp_path: Path, changes: dict[str, bytes | None], reward: str
) -> None:
    assert reward_of(tmp_path, changes) == reward
