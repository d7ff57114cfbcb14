"""Rows of every format as their documentation describes them. All of it is SYNTHETIC: no text, patch or test of it is
anybody's row; names and ids are made up, but for the schema."""

import json
from typing import Any

type Row = dict[str, Any]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOLD = """\
diff --git a/src/calc.py b/src/calc.py
--- a/src/calc.py
+++ b/src/calc.py
@@ -1,2 +1,2 @@
 def add(first, second):
-    return first - second
+    return first + second  # this is the line that mends it
"""
MENDING = "# this is the line that mends it"
BUG = """\
diff --git a/src/calc.py b/src/calc.py
index 0000001..0000002 100644
--- a/src/calc.py
+++ b/src/calc.py
@@ -1,2 +1,2 @@ context of nothing
 def add(first, second):
-    return first + second  # this is the line that mends it
+    return first - second
"""
HIDDEN = """\
diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -1,3 +1,6 @@
 import sys; sys.path.insert(0, "src"); from calc import add
 def test_zero():
     assert add(0, 0) == 0
+
+def test_hidden_sum_of_one_and_two():
+    assert add(1, 2) == 3
"""
TREE = {
    "src/calc.py": b"def add(first, second):\n    return first - second\n",
    "tests/test_calc.py": (
        b'import sys; sys.path.insert(0, "src"); from calc import add\ndef test_zero():\n    assert add(0, 0) == 0\n'
    ),
}
FAILS, PASSES = "tests/test_calc.py::test_hidden_sum_of_one_and_two", "tests/test_calc.py::test_zero"
ISSUE = 'add() subtracts\r\n\r\nadd(1, 2) is -1, it\'s "wrong".\r\n'

SCRIPT = f"""\
#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
cd /testbed
git status
git show
git -c core.fileMode=false diff {COMMIT}
python -m pip install -e .
git checkout {COMMIT} tests/test_calc.py
git apply -v - <<'EOF_114329324912'
{HIDDEN}
EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA tests/test_calc.py
: '>>>>> End Test Output'
git checkout {COMMIT} tests/test_calc.py
"""


def classic(**changes: Any) -> Row:
    """SWE-bench, Lite and Verified of 2024, whose lists are JSON text."""
    return {
        "repo": "pallets/flask",
        "instance_id": "pallets__flask-9999",
        "base_commit": COMMIT,
        "patch": GOLD,
        "test_patch": HIDDEN,
        "problem_statement": ISSUE,
        "hints_text": "HINT: change the operator in src/calc.py",
        "created_at": "2023-01-22T12:21:52Z",
        "version": "2.3",
        "FAIL_TO_PASS": json.dumps([FAILS]),
        "PASS_TO_PASS": json.dumps([PASSES]),
        "environment_setup_commit": COMMIT,
        "difficulty": "<15 min fix",
        **changes,
    }


def present(**changes: Any) -> Row:
    """The same of 2026."""
    return (
        classic(
            eval_script=SCRIPT,
            log_parser="parse_log_flask",
            eval_type="pass_and_fail",
            image="swebench/sweb.eval.x86_64.pallets_1776_flask-9999:latest",
        )
        | changes
    )


def multilingual(**changes: Any) -> Row:
    """SWE-bench Multilingual, whose lists are lists."""
    script = SCRIPT.replace("pytest -rA tests/test_calc.py", '(go test -v . -run "^TestColor") | cat')
    row = present(repo="me/gopher", instance_id="me__gopher-1", log_parser="parse_log_gotest", eval_script=script)
    return row | {"FAIL_TO_PASS": ["TestColorForStatus"], "PASS_TO_PASS": ["TestColorForMethod"]} | changes


def multimodal(**changes: Any) -> Row:
    """SWE-bench Multimodal."""
    return present(image_assets="{}", eval_type="fail_only", log_parser="parse_log_marked") | changes


def openswe(**changes: Any) -> Row:
    """OpenSWE: no lists, a script that applies the fix, a recipe that starts from what nobody publishes."""
    script = f"""\
#!/bin/bash
set -uxo pipefail
source /opt/conda/etc/profile.d/conda.sh
conda activate testbed
cd /testbed
git checkout {COMMIT} tests/test_calc.py
# Apply the gold patch
git apply -v - <<'EOF_GOLD'
{GOLD}
EOF_GOLD
git apply -v - <<'EOF_TEST'
{HIDDEN}
EOF_TEST
echo ">>>>> Start Test Output"
pytest --no-header tests/test_calc.py
rc=$?
echo ">>>>> End Test Output"
echo "OPENSWE_EXIT_CODE=$rc"
git checkout {COMMIT} tests/test_calc.py
"""
    return {
        "instance_id": "me__calc-7",
        "repo": "me/calc",
        "base_commit": COMMIT,
        "end_commit": "f" * 40,
        "created_at": "2025-03-06T00:00:00Z",
        "version": "0.0.1",
        "language": "python",
        "problem_statement": ISSUE,
        "patch": GOLD,
        "test_patch": HIDDEN,
        "FAIL_TO_PASS": [],
        "PASS_TO_PASS": [],
        "install_config": {"test_cmd": ""},
        "Dockerfile": (
            "FROM openswe-python-3.11\nWORKDIR /testbed\nCOPY repo /testbed\n"
            "RUN conda run -n testbed pip install -e .\n"
        ),
        "eval_script": script,
        "image_name": "me/openswe.me__calc-7:latest",
        **changes,
    }


def rebench(**changes: Any) -> Row:
    """SWE-rebench."""
    row = classic(
        repo="me/calc",
        instance_id="me__calc-8",
        FAIL_TO_PASS=[FAILS],
        PASS_TO_PASS=[PASSES],
        FAIL_TO_FAIL=[],
        PASS_TO_FAIL=[],
        meta={
            "has_test_patch": True,
            "is_lite": True,
            "llm_score": {"difficulty_score": 0},
            "failed_lite_validators": [],
        },
        install_config={
            "python": "3.9",
            "install": "pip install -e .[dev]",
            "pip_packages": ["pytest"],
            "test_cmd": "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider",
            "log_parser": "parse_log_pytest",
            "env_vars": {"NAME": "it's; rm -rf /"},
            "no_use_env": None,
        },
        docker_image="swerebench/sweb.eval.x86_64.me_1776_calc-8",
        license_name="MIT License",
    )
    return row | changes


def rebench_v2(**changes: Any) -> Row:
    """SWE-rebench V2: times in ids and as numbers, several commands, a repository in a folder of its own name."""
    row = classic(
        repo="Me/Calc-c",
        instance_id="me__calc-c-9",
        created_at=1609298073000,
        FAIL_TO_PASS=["tst_sum (0.12 s)"],
        PASS_TO_PASS=["tst_zero [3 ms]"],
        pr_description="LEAK: the operator was wrong",
        interface="Function: add(first, second)",
        language="c",
        meta={"num_modified_files": 1, "llm_metadata": [{"reasoning": "LEAK"}], "pr_author": "me", "pr_url": None},
        install_config={
            "base_image_name": "c:latest",
            "docker_specs": None,
            "install": ["make"],
            "log_parser": "parse_log_jq",
            "log_parsers": None,
            "test_cmd": ["./configure", "make check"],
        },
        image_name="docker.io/swerebenchv2/me-calc-c:9-0123456",
    )
    return row | changes


def gym(**changes: Any) -> Row:
    """SWE-Gym."""
    row = classic(repo="getmoto/moto", instance_id="getmoto__moto-9999", FAIL_TO_PASS=[FAILS], PASS_TO_PASS=[PASSES])
    del row["environment_setup_commit"], row["difficulty"]
    return row | changes


def r2e(**changes: Any) -> Row:
    """R2E-Gym: a commit, with its tests and their statuses as JSON texts inside of the row."""
    results = {
        "repo_name": "calc",
        "new_commit_hash": "e" * 40,
        "test_file_names": ["test_1.py"],
        "test_file_codes": ["from calc import add\ndef test_hidden_sum():\n    assert add(1, 2) == 3\n"],
        "old_commit_res_stdout": (
            "=== short test summary info ===\nPASSED r2e_tests/test_1.py::T::test_zero\n"
            "FAILED r2e_tests/test_1.py::test_hidden_sum - assert -1 == 3\nFAILED r2e_tests/test_1.py::test_never - x\n"
        ),
        "new_commit_res_stdout": "",
    }
    lines = [
        {"content": "def add(first, second):", "type": "context"},
        {"content": "    return first - second", "type": "deleted"},
        {"content": "    return first + second  # this is the line that mends it", "type": "added"},
    ]
    hunk = {
        "descriptor": {"old_range": {"start": 1, "length": 2}, "new_range": {"start": 1, "length": 2}},
        "line_group": {"all_lines": lines},
    }
    files = [{
        "header": {"file": {"path": "src/calc.py"}},
        "minus_file": {"path": "a/src/calc.py"},
        "plus_file": {"path": "b/src/calc.py"},
        "hunks": [hunk],
    }]  # fmt: skip
    return {
        "repo_name": "calc",
        "docker_image": f"namanjain12/calc_final:{'e' * 40}",
        "commit_hash": "e" * 40,
        "parsed_commit_content": json.dumps({"old_commit_hash": f"{'e' * 40}^", "file_diffs": files}),
        "execution_result_content": json.dumps(results),
        "expected_output_json": json.dumps({
            "T.test_zero": "PASSED", "\x1b[1mtest_hidden_sum\x1b[0m": "PASSED", "test_never": "FAILED"
        }),
        "modified_files": ["src/LEAKED_FILE.py"],
        "relevant_files": ["src/LEAKED_FILE.py"],
        "modified_entity_summaries": [{"name": "LEAKED_FUNCTION"}],
        "num_non_test_files": 1,
        "prompt": "LEAKED_PROMPT",
        "problem_statement": f"[ISSUE]\n{ISSUE}[/ISSUE]",
        **changes,
    }  # fmt: skip


def smith(**changes: Any) -> Row:
    """SWE-smith: a patch that makes the bug, in a mirror."""
    return {
        "instance_id": "mewwts__addict.75284f95.func_basic__1",
        "repo": "swesmith/mewwts__addict.75284f95",
        "patch": BUG,
        "FAIL_TO_PASS": [PASSES.replace("zero", "sum")],
        "PASS_TO_PASS": [PASSES],
        "created_at": "2025-03-21T08:23:31.701599",
        "image_name": "swesmith.x86_64.mewwts__addict.75284f95",
        "base_commit": COMMIT,
        "problem_statement": ISSUE,
        **changes,
    }


ROWS = {
    "swebench": present(),
    "openswe": openswe(),
    "swe-rebench": rebench(),
    "swe-rebench-v2": rebench_v2(),
    "swe-gym": gym(),
    "r2e-gym": r2e(),
    "swe-smith": smith(),
}
"""One of each format."""
