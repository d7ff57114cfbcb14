"""What a task declares of a network is there for its tests, through the host, and never for the agent."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig, VerifierConfig
from harbor.trial.trial import Trial
from history_task import make_task
from sandbox_tools import FIXED, processes_named, python, write_files

from lego_rl.errors import SandboxError
from lego_rl.sandbox import grading
from lego_rl.sandbox import network as network_module
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.codec import verdict_from_json
from lego_rl.sandbox.grading import GradingStartError, grade
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.provider import Provider, TaskImage
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.network import NamedHosts, PublicNetwork
from lego_rl.tasks.task import Task

HOSTS = NamedHosts(("store.example", "other.example"), (443, 5432))
ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as call:
    call.sendall(b"price?")
    call.shutdown(socket.SHUT_WR)
    answer = call.makefile("rb").read()
print(answer.decode())
"""
FIX = Patch((Change("calc/core.py", "file", FIXED.encode()),))


type Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers when the question has come to its end, so that both directions and both ends are carried."""
    question = await reader.read()
    writer.write(b"42 to " + question)
    writer.close()


@asynccontextmanager
async def service(serve: Serve = answer) -> AsyncIterator[str]:
    """A service on this machine's loopback; where it is."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def near(provider: Provider, task_dir: Path, services: dict[str, str]) -> TaskImage:
    """The tiny task's image where services are at hand."""
    return replace(provider, services=services).prepare(task_dir / "environment", workdir="/app")  # type: ignore[type-var]


async def ask(image: TaskImage, host: str, port: int, network: NamedHosts = HOSTS) -> str:
    """What a grading sandbox hears from a host; its error where it hears nothing."""
    box = await image.start(Phase.GRADING, limits=Limits(memory_mb=512), network=network)
    try:
        done = await box.exec(["python3", "-c", ASK, host, str(port)], timeout_sec=20)
        return done.stdout.strip() or "".join(done.stderr.strip().splitlines()[-1:])
    finally:
        await box.close()


async def test_a_named_host_answers_on_its_ports(provider: Provider, task_dir: Path) -> None:
    async with service() as place:
        image = near(provider, task_dir, {"store.example:443": place, "other.example:5432": place})
        assert await ask(image, "store.example", 443) == "42 to price?"
        assert await ask(image, "other.example", 5432) == "42 to price?"


async def test_nothing_else_answers(provider: Provider, task_dir: Path) -> None:
    async with service() as place:
        image = near(provider, task_dir, {"store.example:443": place})
        port = int(place.rpartition(":")[2])
        assert "Connection refused" in await ask(image, "127.0.0.1", port)
        assert "Connection refused" in await ask(image, "store.example", 80)
        assert "Network is unreachable" in await ask(image, "192.0.2.1", 443)
        assert "Name or service" in await ask(image, "unnamed.example", 443)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "169.254.169.254", "0.0.0.0", "::ffff:127.0.0.1", "fe80::1"])
async def test_a_name_that_leads_to_this_machine_is_not_followed(
    image: TaskImage, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    reached = asyncio.Event()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        writer.close()

    async with service(serve) as place:
        port = int(place.rpartition(":")[2])
        loop = asyncio.get_running_loop()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        async def resolve(*_: object, **__: object) -> list[object]:
            return list(found)

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        said = await ask(image, "store.example", port, NamedHosts(("store.example",), (port,)))
        assert "to price?" not in said
        assert not reached.is_set()


async def test_an_agent_phase_has_no_network_whatever_is_asked(image: TaskImage) -> None:
    with pytest.raises(SandboxError, match="an agent phase has no network"):
        await image.start(Phase.AGENT, network=HOSTS)
    box = await image.start(Phase.AGENT)
    try:
        done = await python(box, "print(open('/etc/hosts').read())")
        assert "example" not in done.stdout
    finally:
        await box.close()


async def test_bubblewrap_refuses_a_public_network_before_the_agent_starts(
    task: Task, task_dir: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "START_PAUSES", (0.0,))
    provider = BubblewrapProvider(state)
    with pytest.raises(SandboxError, match="no public network; name what they need"):
        provider.check_network(PublicNetwork())
    image = provider.prepare(task_dir / "environment", workdir="/app")
    with pytest.raises(GradingStartError, match="no public network"):
        await grade(replace(task, network=PublicNetwork()), FIX, image)


async def test_connections_are_bounded_and_end_with_the_sandbox(
    provider: Provider, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_module, "FEWEST_CONNECTIONS", 1)
    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(network_module, "SHARE_OF_HANDLES", 6.5 / handles)
    ended = []
    held = asyncio.Semaphore(0)

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.release()
        await reader.read()
        ended.append(True)
        writer.close()

    code = (
        "import socket, time\n"
        "calls = [socket.create_connection(('store.example', 443)) for _ in range(5)]\n"
        "for call in calls[3:]:\n"
        "    call.settimeout(30)\n"
        "print(calls[3].recv(1), calls[4].recv(1), flush=True)\n"
        "time.sleep(4444.5)\n"
    )
    async with service(hold) as place:
        image = near(provider, task_dir, {"store.example:443": place})
        box = await image.start(Phase.GRADING, network=HOSTS)
        said: list[bytes] = []
        spoken = asyncio.Event()

        async def hear(piece: bytes, _: str) -> None:
            said.append(piece)
            spoken.set()

        running = asyncio.create_task(box.exec(["python3", "-c", code], sink=hear))
        async with asyncio.timeout(60):
            for _ in range(3):
                await held.acquire()
            await spoken.wait()
        assert said == [b"b'' b''\n"], "two of five are hung up on"
        assert held.locked()
        await box.kill()
        await running
        await box.close()
        async with asyncio.timeout(30):
            while len(ended) < 3:  # noqa: ASYNC110  # Nothing tells of it.
                await asyncio.sleep(0.01)
    assert not processes_named("4444.5")


NETWORK_TEST = """import socket
import subprocess

from calc import add


class TestAdd:
    def test_sum(self):
        with socket.create_connection(("store.example", 443), timeout=5) as call:
            call.sendall(b"a sum")
            call.shutdown(socket.SHUT_WR)
            answer = call.makefile("rb").read()
        assert answer == b"42 to a sum"
        assert subprocess.run(["git", "describe", "--tags"], capture_output=True, text=True).stdout == "v1\\n"
        assert add(2, 3) == 5
"""
PROBE = (
    "sed -i 's/a - b/a + b/' calc/core.py; (git tag | sed s/^/TAG/; git log --oneline | sed s/^/LOG/;"
    " getent hosts store.example && echo NAME;"
    " for place in store.example/443 127.0.0.2/443 127.0.0.1/{port}; do"
    ' bash -c "exec 3<>/dev/tcp/$place" && echo REACHED; done) > /logs/agent/said.txt 2>&1; true'
)
DECLARED = 'grading_history = "tags"\nverifier_ports = [443]'
NEEDS = '[verifier]\nnetwork_mode = "allowlist"\nallowed_hosts = ["store.example"]'


async def test_tests_that_need_a_service_and_tags_are_graded_and_their_agent_reaches_neither(
    settings: SandboxSettings, tmp_path: Path
) -> None:
    own = make_task(tmp_path / "task", DECLARED)
    write_files(own, {"task.toml": (own / "task.toml").read_text().replace("[verifier]", NEEDS)})
    write_files(own / "tests" / "files", {"tests/test_hidden.py": NETWORK_TEST})
    async with service() as place:
        script = PROBE.format(port=place.rpartition(":")[2])
        sandbox = {**settings.model_dump(mode="json"), "services": {"store.example:443": place}}
        trial = await Trial.create(
            TrialConfig(
                task=TaskConfig(path=own),
                trials_dir=tmp_path,
                trial_name="trial",
                agent=AgentConfig(import_path="harbor_agents:ScriptAgent", kwargs={"script": script}),
                environment=EnvironmentConfig(
                    import_path="lego_rl.sandbox.environment:SealedEnvironment", kwargs={"sandbox": sandbox}
                ),
                verifier=VerifierConfig(import_path="lego_rl.sandbox.verifier:FreshVerifier"),
            )
        )
        result = await trial.run()
    assert result.exception_info is None
    verdict = verdict_from_json((tmp_path / "trial" / "verifier" / "verdict.json").read_text())
    assert result.verifier_result.rewards == {"reward": 1}, verdict.log
    said = (tmp_path / "trial" / "agent" / "said.txt").read_text()
    assert said.count("LOG") == 2, said
    assert not any(line.startswith(("REACHED", "NAME", "TAG")) for line in said.splitlines()), said
    assert said.count("connect: Connection refused") == 2, said
