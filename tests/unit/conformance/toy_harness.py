"""A harness of thirty lines, over the wire and the gateway that real ones are tried with."""

import asyncio
import contextlib
import functools
import json
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import aiohttp

from lego_rl.conformance.engines import Tape, scripted
from lego_rl.conformance.hostile import MARK
from lego_rl.conformance.laws import Books
from lego_rl.conformance.policy import INSTRUCTION, Policy
from lego_rl.conformance.situations import SITUATIONS, Situation
from lego_rl.conformance.wire import Fault, Wire
from lego_rl.engine.protocol import Sample
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import CallRole, Trajectory
from lego_rl.harness.base import Conduct, ToolUse

DEMO = Path(str(resources("lego_rl.policies") / "demo"))
JOB = Path(str(resources("lego_rl.conformance") / "job" / "repo"))
BASH: dict[str, Any] = {
    "name": "bash",
    "description": "Run a command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
CONDUCT = Conduct(ToolUse("bash", "command"), too_long="stops")
NAMED = {situation.name: situation for situation in SITUATIONS}


@functools.cache
def template() -> ChatTemplate:
    return ChatTemplate.load(DEMO)


@functools.cache
def encoder() -> Encoder:
    return Encoder((DEMO / "tokenizer.json").read_text(encoding="utf-8"))


@dataclass
class Ran:
    """What came of a run."""

    trajectory: Trajectory
    samples: list[Sample]
    wire: Wire
    roles: Mapping[str, CallRole]
    statuses: list[int] = field(default_factory=list)

    @property
    def books(self) -> Books:
        """What is known of it apart from the gateway."""
        return Books(self.samples, self.wire.arrived(self.samples, template().decode), roles=self.roles)


async def run_toy(situation: Situation, folder: Path, faults: Mapping[int, Fault] | None = None) -> Ran:
    """Let the toy work in `folder`, where the job's files are put."""
    shutil.copytree(JOB, folder / "repo")
    policy = Policy(template(), encoder(), CONDUCT, situation.steps, interfere=situation.interfere)
    tape = Tape(scripted(policy))
    gateway = Gateway(tape, template(), tool_call_parser("qwen3_coder"))
    session = gateway.open(situation.budget, temperature=1.0, seed=0)
    statuses: list[int] = []
    with socket.socket(socket.AF_UNIX) as inner, socket.socket() as outer:
        inner.bind(str(folder / "gateway"))
        inner.listen()
        inner.setblocking(False)
        outer.bind(("127.0.0.1", 0))
        outer.listen()
        listener = await gateway.serve(inner.dup(), session)
        wire = Wire(
            str(folder / "gateway"),
            lambda: [each.call_id for each in tape.samples],
            faults or situation.faults,
            MARK.encode(),
        )
        try:
            async with wire.laid(outer.dup()):
                url = f"http://127.0.0.1:{outer.getsockname()[1]}{session.path}/v1"
                await _talk(url, folder / "repo", statuses)
        finally:
            await listener.close()
    roles = {sample.call_id: policy.role(sample.prompt_ids) for sample in tape.samples}
    return Ran(await gateway.close(session), tape.samples, wire, roles, statuses)


async def _talk(url: str, workdir: Path, statuses: list[int]) -> None:
    async with aiohttp.ClientSession() as client:
        messages: list[Any] = [{"role": "user", "content": INSTRUCTION}]
        while message := await _ask(client, url, messages, statuses):
            messages.append(message)
            for call in message.get("tool_calls", ()):
                command = json.loads(call["function"]["arguments"]).get("command", "echo there is no such tool")
                process = await asyncio.create_subprocess_exec(
                    "bash", "-c", command, cwd=workdir, stdout=asyncio.subprocess.PIPE
                )
                output, _ = await process.communicate()
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": output.decode()})
            if not message.get("tool_calls"):
                return


async def _ask(
    client: aiohttp.ClientSession, url: str, messages: list[Any], statuses: list[int]
) -> dict[str, Any] | None:
    """The next message, asked for up to three times; ``None`` if the request is refused."""
    body = {"model": "policy", "messages": messages, "tools": [{"type": "function", "function": BASH}]}
    for _ in range(3):
        with contextlib.suppress(aiohttp.ClientError):
            async with client.post(f"{url}/chat/completions", json=body) as response:
                statuses.append(response.status)
                if response.status < 500:
                    answer = await response.json()
                    return answer["choices"][0]["message"] if response.status == 200 else None
    return None
