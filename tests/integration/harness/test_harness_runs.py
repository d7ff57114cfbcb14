"""Both harnesses, real and headless, in a sandbox with nothing but loopback: they do the work and call nobody else.

The sandbox holds a minimal root file system, so that a bundle that needed anything of the installing host would fail.
"""

import itertools
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lego_rl.harness import registry
from lego_rl.harness.base import Endpoint, HarnessBundle, Launch, OptionValue

ENDPOINT = Endpoint("http://127.0.0.1:4000/s/secret", "policy", context_tokens=8_000, output_tokens=1_000, turns=12)
FILE = "/app/shop/price.py"
PROMPT = '--help\n  total_fee should add the fee;  "fix" it: $HOME, `pwd`, é.\n'
OLD, NEW = "    return cost - fee", "    return cost + fee"

CLAUDE_REPLIES = [
    ["Bash", {"command": "grep -rn 'def total_fee' ."}],
    ["Read", {"file_path": FILE}],
    ["Edit", {"file_path": FILE, "old_string": OLD, "new_string": NEW}],
    ["Read", {"file_path": "/app/missing"}],
    "Done.",
]
OPENHANDS_REPLIES = [
    ["terminal", {"command": "grep -rn 'def total_fee' .; env", "security_risk": "LOW"}],
    ["file_editor", {"command": "view", "path": FILE, "security_risk": "LOW"}],
    ["file_editor", {"command": "str_replace", "path": FILE, "old_str": OLD, "new_str": NEW, "security_risk": "LOW"}],
    ["terminal", {"command": "sleep 300 & echo started", "security_risk": "LOW"}],
    ["finish", {"message": "Done."}],
]


@dataclass(frozen=True)
class Report:
    """What `cell.py` saw."""

    returncode: int
    output: str
    requests: list[dict[str, Any]]
    names: list[str]
    edited: str

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request["body"] for request in self.requests]


class Cell:
    """A sandbox with a network namespace of its own, the bundle and a small repository in it."""

    def __init__(self, folder: Path) -> None:
        self.python = registry.load("openhands-sdk")
        self.folder = folder

    def run(self, launch: Launch, bundle: HarnessBundle, replies: list[Any]) -> Report:
        repository, home, etc = (self.folder / name for name in ("app", "home", "etc"))
        for path in (repository / "shop", home, etc):
            path.mkdir(parents=True)
        (repository / "shop" / "price.py").write_text(f"def total_fee(cost, fee):\n{OLD}\n")
        (etc / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        orders = {
            "argv": list(launch.argv),
            "env": dict(launch.env),
            "cwd": "/app",
            "files": dict(launch.files),
            "stdin": launch.stdin,
            "replies": replies,
        }
        finished = subprocess.run(
            [*self._bwrap(bundle, repository, home, etc), "/opt/python/bin/python", "-I", "-S", "-B", "/cell.py"],
            input=json.dumps(orders),
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        report = json.loads(finished.stdout)
        return Report(**report, edited=(repository / "shop" / "price.py").read_text())

    def _bwrap(self, bundle: HarnessBundle, repository: Path, home: Path, etc: Path) -> list[str]:
        command = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--die-with-parent"]
        command += ["--clearenv", "--setenv", "LD_LIBRARY_PATH", "/opt/python/lib", "--cap-add", "CAP_NET_BIND_SERVICE"]
        command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/app"]
        for source in ("/usr", "/bin", "/lib", "/lib64"):
            command += ["--ro-bind-try", source, source]
        binds = [
            ("--ro-bind", bundle.path, "/opt/harness"),
            ("--ro-bind", self.python.path, "/opt/python"),
            ("--ro-bind", Path(__file__).with_name("cell.py"), "/cell.py"),
            ("--bind", repository, "/app"),
            ("--bind", home, "/home/agent"),
            ("--bind", etc, "/etc"),
        ]
        return command + [str(part) for bind in binds for part in bind]


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path)


def run(cell: Cell, name: str, replies: list[Any], prompt: str = PROMPT, **options: OptionValue) -> Report:
    launch = registry.make(name, options).launch(
        prompt, ENDPOINT, mount="/opt/harness", home="/home/agent", workdir="/app"
    )
    return cell.run(launch, registry.load(name), replies)


def text_of(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]


def assert_each_request_extends_the_one_before(bodies: list[dict[str, Any]]) -> None:
    for before, after in itertools.pairwise(bodies):
        assert len(after["messages"]) > len(before["messages"])
        for old, new in zip(before["messages"], after["messages"], strict=False):
            # A lone text part is sent as a plain string later on.
            assert old == new or (old["role"], text_of(old)) == (new["role"], text_of(new))
        assert after["tools"] == before["tools"]
        assert after.get("system") == before.get("system")


def test_the_cell_sees_a_harness_that_calls_home(cell: Cell) -> None:
    talkative = Launch(
        argv=(
            *("/opt/python/bin/python", "-I", "-S", "-B", "-c"),
            "import socket, contextlib\nwith contextlib.suppress(OSError): socket.getaddrinfo('example.org', 443)",
        ),
        env={"LD_LIBRARY_PATH": "/opt/python/lib"},
    )
    report = cell.run(talkative, cell.python, ["unused"])
    assert (report.returncode, report.output) == (0, "")
    assert "example.org" in report.names


@pytest.mark.parametrize("bare", [True, False])
def test_claude_code_works_and_is_silent(cell: Cell, bare: bool) -> None:
    report = run(cell, "claude-code", CLAUDE_REPLIES, bare=bare)
    assert report.returncode == 0, report.output
    assert NEW in report.edited
    assert report.names == []
    assert {(r["method"], r["path"]) for r in report.requests} == {("POST", "/s/secret/v1/messages?beta=true")}
    assert len(report.requests) == len(CLAUDE_REPLIES)
    assert PROMPT in text_of(report.bodies[0]["messages"][0])
    assert all(body["stream"] and body["model"] == "policy" for body in report.bodies)
    assert all(body["max_tokens"] >= ENDPOINT.output_tokens for body in report.bodies)
    assert "cache_control" not in json.dumps(report.bodies)
    assert "x-anthropic-billing-header" not in json.dumps(report.bodies)
    assert_each_request_extends_the_one_before(report.bodies)


def test_claude_code_options_shape_the_request(cell: Cell) -> None:
    report = run(
        cell,
        "claude-code",
        ["Done."],
        bare=True,
        tools=["Bash", "Read"],
        append_system_prompt="-- Be exact.",
        effort="low",
    )
    assert report.returncode == 0, report.output
    (body,) = report.bodies
    assert [tool["name"] for tool in body["tools"]] == ["Bash", "Read"]
    assert "-- Be exact." in "\n".join(block["text"] for block in body["system"])
    assert body["output_config"]["effort"] == "low"


def test_claude_code_bare_prompt_is_small(cell: Cell) -> None:
    (body,) = run(cell, "claude-code", ["Done."], prompt="Fix it.", bare=True).bodies
    assert len(json.dumps([body["system"], body["messages"], body["tools"]])) < 6_000


def test_openhands_works_and_is_silent(cell: Cell) -> None:
    report = run(cell, "openhands-sdk", OPENHANDS_REPLIES)
    assert report.returncode == 0, report.output
    assert "status: finished" in report.output
    assert NEW in report.edited
    assert report.names == []
    assert {(r["method"], r["path"]) for r in report.requests} == {("POST", "/s/secret/v1/chat/completions")}
    assert len(report.requests) == len(OPENHANDS_REPLIES)
    assert text_of(report.bodies[0]["messages"][1]) == [PROMPT]
    assert [tool["function"]["name"] for tool in report.bodies[0]["tools"]] == [
        *("terminal", "file_editor", "task_tracker", "finish", "think")
    ]
    assert_each_request_extends_the_one_before(report.bodies)
    environment = text_of(report.bodies[1]["messages"][-1])[0]
    assert "HOME=/home/agent" in environment
    assert "LD_LIBRARY_PATH" not in environment
    assert "PYDANTIC" not in environment
    assert "\x1b" not in json.dumps(report.bodies, ensure_ascii=False)


def test_openhands_options_shape_the_request(cell: Cell) -> None:
    report = run(
        cell,
        "openhands-sdk",
        [["finish", {"message": "Done."}]],
        tools=["terminal", "file_editor"],
        builtin_tools=["FinishTool"],
        system_prompt="Fix the issue, then call finish.",
        condenser_max_size=40,
    )
    assert report.returncode == 0, report.output
    (body,) = report.bodies
    assert [tool["function"]["name"] for tool in body["tools"]] == ["terminal", "file_editor", "finish"]
    assert text_of(body["messages"][0]) == ["Fix the issue, then call finish."]
    assert len(json.dumps(body)) < 11_000
