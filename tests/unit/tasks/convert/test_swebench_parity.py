"""Our grading of a log and that of swebench itself, on logs that are made up: the same, but where we say otherwise."""

import json
import random
import subprocess
import sys
from pathlib import Path

from lego_rl.tasks.reports import Report, parser_named

PROGRAM = """
import json, sys
from swebench.harness.grading import get_eval_report
from swebench.types import TestSpec
for line in sys.stdin:
    case = json.loads(line)
    spec = TestSpec("a__b-1", "", [], "a/b", "", case["fail"], case["pass"], case["parser"], "pass_and_fail")
    prediction = {"instance_id": "a__b-1", "model_patch": "x", "model_name_or_path": "x"}
    report = get_eval_report(spec, prediction, case["log"], False)["a__b-1"]
    print(json.dumps(report["resolved"]))
"""
PARSERS = ("parse_log_pytest", "parse_log_pytest_v2", "parse_log_django", "parse_log_jq")
WORDS = {
    "parse_log_pytest": {"passed": "PASSED {0}", "failed": "FAILED {0} - no", "error": "ERROR {0} - x"},
    "parse_log_django": {"passed": "{0} ... ok", "failed": "{0} ... FAIL", "error": "{0} ... ERROR"},
    "parse_log_jq": {"passed": "PASS: {0}", "failed": "FAIL: {0}", "error": "FAIL: {0}"},
}
WORDS["parse_log_pytest_v2"] = WORDS["parse_log_pytest"]


def case(rng: random.Random, folder: Path, number: int) -> dict[str, object]:
    parser = rng.choice(PARSERS)
    tests = [
        f"t/test_{index}.py::test[{index}-a b]" if rng.random() < 0.3 else f"test_{index} (m.C)" for index in range(6)
    ]
    if parser == "parse_log_pytest":
        tests = [test.replace(" ", "_") for test in tests]
    said = {test: rng.choices(["passed", "failed", "error", ""], [8, 1, 1, 1])[0] for test in tests}
    bad = any(status in ("failed", "error") for status in said.values())
    status = (1 if bad else 0) if rng.random() < 0.9 else 1 - bad
    lines = [WORDS[parser][status].format(test) for test, status in said.items() if status]
    rng.shuffle(lines)
    log = folder / f"{number}.log"
    body = "\n".join(["noise", ">>>>> Start Test Output", *lines, ">>>>> End Test Output"])
    log.write_text(f"{body}\n>>>>> Test Exit Code: {status}\n")
    asked = rng.sample(tests, 4)
    cut = [test.partition("-a")[0] if "[" in test and rng.random() < 0.5 else test for test in asked]
    return {"parser": parser, "fail": cut[:2], "pass": cut[2:], "log": str(log), "status": status}


def test_the_same_logs_are_resolved(tmp_path: Path) -> None:
    rng = random.Random(0)
    cases = [case(rng, tmp_path, number) for number in range(48)]
    asked = "".join(f"{json.dumps(one)}\n" for one in cases)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], input=asked, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    ours = []
    for one in cases:
        wanted = [*one["fail"], *one["pass"]]  # type: ignore[misc]
        report = Report(Path(str(one["log"])).read_bytes(), int(str(one["status"])))
        found = parser_named(f"swebench:{one['parser']}").statuses(report, wanted)
        ours.append(all(status == "passed" for status in found.values()))
    assert len(theirs) == len(cases) and 8 < sum(theirs) < 40
    assert ours == theirs
