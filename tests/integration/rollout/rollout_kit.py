"""A task, a policy that plays a part, and a runtime with the real harness, sandbox and gateway around them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from lego_rl.engine.protocol import Engine, EngineError, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine, SyntheticRoutes
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness import registry
from lego_rl.rollout.spec import Grading, HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial import Runtime, Scratch
from lego_rl.sandbox.settings import SandboxSettings

POLICY = Path(__file__).parents[3] / "src" / "lego_rl" / "policies" / "demo"
HARNESS = HarnessChoice("claude-code", {"bare": True})
PARTS = "Play the part of "

TASK_TOML = """\
schema_version = "1.4"

[metadata]
grader = "tests"
family = "fixture"

[agent]
timeout_sec = 60.0
network_mode = "no-network"

[environment]
workdir = "/app"
network_mode = "no-network"
memory_mb = 1024
storage_mb = 64
"""

HIDDEN_TEST = """\
from calc import add, double


def test_add():
    assert add(2, 3) == 5


def test_double():
    assert double(4) == 8
"""

COMMAND = (
    'python3 -P -B -m pytest -q -c /dev/null --noconftest --import-mode=importlib --rootdir="$PWD" '
    '-o pythonpath="$PWD" --junitxml="$LEGO_REPORT" tests/test_calc.py'
)


def write_task(folder: Path, part: str) -> Path:
    """A task whose instruction names the part that the policy is to play."""
    spec = {
        "FAIL_TO_PASS": ["tests/test_calc.py::test_add"],
        "PASS_TO_PASS": ["tests/test_calc.py::test_double"],
        "command": COMMAND,
        "parser": "pytest-junit",
        "test_files": ["tests/test_calc.py"],
    }
    files = {
        "task.toml": TASK_TOML,
        "instruction.md": f"The function add in calc.py is wrong. Mend it. {PARTS}{part}.\n",
        "environment/repo/calc.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n",
        "tests/spec.json": json.dumps(spec),
        "tests/test.sh": "#!/bin/sh\nexit 1\n",
        "tests/files/tests/test_calc.py": HIDDEN_TEST,
    }
    for name, text in files.items():
        path = folder / part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / part


def bash(command: str) -> str:
    """A Bash call as the policy writes it."""
    return f"<tool_call>\n<function=Bash>\n<parameter=command>\n{command}\n</parameter>\n</function>\n</tool_call>"


FIX = bash("sed -i 's/a - b/a + b/' calc.py && cat calc.py")

ESCAPES = "; ".join(
    [
        "printf '\\377' > /logs/agent/trajectory.json",
        "ln -s / /logs/artifacts/everything",
        "mkdir -p /logs/verifier && ln -s /etc/passwd /logs/verifier/reward.json",
        "mkfifo pipe",
        "touch $(printf 'not\\377utf8')",
        "chmod 000 calc.py",
        "kill -9 1",
        "kill -TERM 1",
        "(sleep 90 &)",
    ]
)
"""What agents have tried in order to be faulted rather than graded."""

DIGGING = "python3 -c \"import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(3000)]\""

SCRIPTS: Mapping[str, list[str]] = {
    "the fixer": [FIX, "Mended."],
    "the bungler": [bash("sed -i 's/a - b/a * b/' calc.py"), "Mended."],
    "the mumbler": ["<tool_call>\n<function=Bash>\n<parameter=command>\nls", "never asked for"],
    "the idler": ["It looks fine to me."],
    "the sleeper": [FIX, bash("sleep 50"), "Slept."],
    "the dawdler": [FIX, bash("sleep 14"), "never asked for"],
    "the wrecker": [FIX, bash("kill -9 $PPID"), "never asked for"],
    "the looper": [bash("cat calc.py")] * 50,
    "the vandal": [bash("rm -rf /app/* /app/.[a-z]* /tests; mkdir calc.py"), "Gone."],
    "the escapist": [FIX, bash(ESCAPES), "Away."],
    "the digger": [FIX, bash(DIGGING), "Deep."],
    "the hog": [FIX, bash("head -c 300M /dev/zero > big; sleep 20"), "Full."],
}


def playing(
    template: ChatTemplate,
    interfere: Callable[[str, int], None] = lambda part, turn: None,
    scripts: Mapping[str, list[str]] = SCRIPTS,
) -> ScriptedEngine:
    """An engine that plays the part that the prompt's instruction names, one line a turn.

    `interfere` is told part and turn before each line; it may raise.
    """

    def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        text = template.decode(prompt)
        part = text.partition(PARTS)[2].partition(".")[0]
        turn = text.count("<|im_start|>assistant") - 1
        interfere(part, turn)
        return Reply([*encoder.encode(scripts[part][turn]), template.end_of_turn])

    encoder = Encoder((POLICY / "tokenizer.json").read_text(encoding="utf-8"))
    return ScriptedEngine(script, routes=SyntheticRoutes(layers=4, top_k=2, experts=8))


def fail(part: str, turn: int) -> None:
    """Interference of an engine that is down."""
    raise EngineError("the engine is down")


def runtime(folder: Path, engine: Engine | None = None, **settings: object) -> Runtime:
    """A runtime with Claude Code ``--bare``."""
    template = ChatTemplate.load(POLICY)
    return Runtime(
        gateway=Gateway(engine or playing(template), template, tool_call_parser("qwen3_coder")),
        harness=registry.make(HARNESS.name, HARNESS.options),
        bundle=registry.load(HARNESS.name),
        directory=RunDirectory.make(folder),
        sandbox=SandboxSettings(grading_sec=30.0, **settings),
        scratch=Scratch.DELETE,
    )


def spec(
    task: Path,
    *,
    attempt: int = 0,
    attempts: int = 1,
    grading: Grading = Grading.FRESH,
    turns: int = 10,
    output_tokens: int = 500,
    wall_clock_sec: float = 40.0,
) -> TrialSpec:
    return TrialSpec(
        task=task,
        label="test",
        attempt=attempt,
        attempts=attempts,
        seed=attempt,
        temperature=1.0,
        budget=Budget(turns=turns, context_tokens=20_000, output_tokens=output_tokens, wall_clock_sec=wall_clock_sec),
        harness=HARNESS,
        grading=grading,
    )
