"""A harness of a few lines, for trials that are about everything but the harness."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import override

from rollout_kit import PARTS

from lego_rl.harness.base import DEFAULT_PATH, BundleSpec, Endpoint, HarnessBundle, Launch

HARNESS = """
import json, os, subprocess, sys, urllib.request
bash = {"type": "object", "properties": {"command": {"type": "string"}, "more": {"type": "array"}}}
tools = [{"type": "function", "function": {"name": "Bash", "parameters": bash}}]
messages = [{"role": "user", "content": sys.stdin.read()}]
while True:
    body = json.dumps({"model": "policy", "messages": messages, "tools": tools}).encode()
    url = os.environ["GATEWAY"] + "/v1/chat/completions"
    message = json.load(urllib.request.urlopen(urllib.request.Request(url, body)))["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
"""


class SmallHarness:
    """Asks, runs what it is told, and asks again; ends on an answer without a call."""

    name, version = "small", "1"
    spec = BundleSpec("small", "1", "none", "1")

    def install(self, root: Path) -> HarnessBundle:
        root.mkdir(exist_ok=True)
        return HarnessBundle("small", "1", "", root, 0, "none")

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        part = instruction.partition(PARTS)[2].partition(".")[0]
        environment = {"GATEWAY": endpoint.base_url, "PATH": path, "PART": part}
        return Launch(("python3", "-c", HARNESS), environment, stdin=instruction)


@dataclass(frozen=True)
class Broken(SmallHarness):
    """A harness that does not get as far as the model."""

    how: Callable[[], Launch]

    @override
    def launch(self, *_: object, **__: object) -> Launch:
        return self.how()
