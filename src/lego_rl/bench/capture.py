"""What capturing a long conversation costs the gateway, over real HTTP, against rendering every request anew.

Invariant: only the gateway is measured, and all of it: from the first request to the record on the disk. The client is
another process, the engine answers at once with what was made before, and everything else of this process stands still
meanwhile; so this process's CPU time is the gateway's. What is measured is a capture that lost nothing, or there are no
figures.
"""

import asyncio
import ctypes
import gc
import io
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from multiprocessing import get_context
from pathlib import Path

import aiohttp
import numpy as np

from lego_rl import __version__
from lego_rl.bench import client
from lego_rl.bench.engine import ReadyEngine, Routes
from lego_rl.bench.rerender import render_anew
from lego_rl.bench.workload import Conversation, Shape, conversation, wire_form
from lego_rl.errors import RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.session import Session
from lego_rl.gateway.store import write_trajectory
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls.qwen3_coder import Qwen3CoderParser
from lego_rl.gateway.trajectory import Trajectory

_LAST = 20
_WARM_UP = 10
_BODY = 4 * 10**6
_MB = 10**6


@dataclass(frozen=True)
class Measured:
    """One run of one or several sessions. Sizes are in units of 10^6 bytes.

    Attributes:
        cpu_s: CPU seconds a session, from the first request until its record was written.
        finish_s: The part of them after the last answer: closing the session, and writing its record.
        last_ms: CPU milliseconds a call over the last turns.
        call_ms: Wall-clock milliseconds of every call, as the client saw them.
        rss_mb: How much more memory was resident before the sessions were closed, what is free in it given back; a
            session.
        free_mb: What was free in it: what past requests leave behind in this process; of all sessions.
        disk_mb: Size of the records, a session.
        tokens: Tokens of the last prompt and answer.
    """

    cpu_s: float
    finish_s: float
    last_ms: float
    call_ms: tuple[float, ...]
    rss_mb: float
    free_mb: float
    disk_mb: float
    tokens: int


class CaptureBench:
    """Measures one policy and one dialect.

    Args:
        policy: Folder with ``tokenizer.json`` and ``chat_template.jinja``.
        shape: Size of the conversation.
        dialect: ``openai-chat`` (whole answers) or ``anthropic`` (streamed).
        sessions: How many run at once in the last part.
    """

    def __init__(self, policy: Path, shape: Shape, dialect: str, sessions: int) -> None:
        self._policy = policy
        self._shape = shape
        self._dialect = dialect
        self._sessions = sessions
        self._template = ChatTemplate.load(policy)
        # What making it leaves behind in memory must not be there for the sessions to use.
        with ProcessPoolExecutor(1, get_context("spawn")) as aside:
            self._said = aside.submit(conversation, policy, shape).result()

    async def run(self) -> dict[str, object]:
        """Measure everything; the keys are described in ``docs/capture.md``.

        Raises:
            RunError: The client failed, a call got no answer, or something that was sampled is not in a record.
        """
        await self._measure(1, turns=_WARM_UP)
        plain = await self._measure(1)
        with ProcessPoolExecutor(1, get_context("spawn")) as aside:
            anew = aside.submit(render_anew, self._policy, self._said).result()
        routed = await self._measure(1, Routes(plain.tokens))
        many = await self._measure(self._sessions)
        return _figures(plain, routed, many, anew, self._sessions) | {
            "dialect": self._dialect,
            "turns": self._shape.turns,
            "sampled": sum(map(len, self._said.replies)),
            "body_of_4_mb": await self._large_body(),
        }

    async def _measure(self, sessions: int, routes: Routes | None = None, turns: int | None = None) -> Measured:
        said = self._said if turns is None else _first(self._said, turns)
        with tempfile.TemporaryDirectory(prefix="lego-rl-bench-") as folder:
            script = Path(folder) / "conversation.json"
            script.write_text(wire_form(said), encoding="utf-8")
            engines = [ReadyEngine(f"bench{number}", said.replies, routes) for number in range(sessions)]
            async with AsyncExitStack() as stack:
                _release()
                rss, began = _resident_mb(), time.process_time()
                opened = [await self._open(engine, stack, Path(folder), 2 * self._shape.total) for engine in engines]
                times = await talk(script, self._dialect, [url for _, _, url in opened])
                ended, most = time.process_time(), _resident_mb()
                _release()
                held, records, closing = _resident_mb(), [], time.process_time()
                for number, (gateway, session, _) in enumerate(opened):
                    record = Path(folder) / f"trial{number}"
                    record.mkdir()
                    trajectory = await gateway.close(session)
                    write_trajectory(trajectory, record, harness="bench", version=__version__, session_id=record.name)
                    records.append(trajectory)
                finish = time.process_time() - closing
            disk = _record_bytes(Path(folder))
        for each in records:
            check_whole(each, said)
        last = min(_LAST, len(said.replies) - 1)
        first, *_, end = engines[0].marks[-last - 1 :]  # from call to call, so reading and rendering are in it
        return Measured(
            cpu_s=(ended - began + finish) / sessions,
            finish_s=finish / sessions,
            last_ms=(end - first) / last / sessions * 1e3,
            call_ms=tuple(each for session in times for each in session),
            rss_mb=(held - rss) / sessions,
            free_mb=most - held,
            disk_mb=disk / _MB / sessions,
            tokens=len(records[0].segments[0].token_ids),
        )

    async def _open(
        self, engine: ReadyEngine, stack: AsyncExitStack, spool: Path, context_tokens: int
    ) -> tuple[Gateway, Session[Trajectory], str]:
        gateway = Gateway(engine, self._template, Qwen3CoderParser(), spool=spool)
        budget = Budget(turns=self._shape.turns, context_tokens=context_tokens)
        session = gateway.open(budget, temperature=1.0, seed=0, log=spool / f"{engine.name}.log")
        sock = socket.create_server(("127.0.0.1", 0))
        listener = await gateway.serve(sock, session)
        stack.push_async_callback(listener.close)
        return gateway, session, f"http://127.0.0.1:{sock.getsockname()[1]}{session.path}"

    async def _large_body(self) -> bool:
        """Whether a request of 4 MB is answered, and its answer captured, where the budget has room for its tokens."""
        reply = self._said.replies[0]
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lego-rl-bench-")))
            engine = ReadyEngine("large", [reply])
            gateway, session, url = await self._open(engine, stack, folder, context_tokens=2 * _BODY)
            text = self._said.results[0] * (_BODY // len(self._said.results[0]) + 1)
            body = {"model": "policy", "messages": [{"role": "user", "content": text}], "max_tokens": 9}
            http = await stack.enter_async_context(aiohttp.ClientSession())
            async with http.post(
                url + client.PATHS[self._dialect], data=io.BytesIO(json.dumps(body).encode())
            ) as response:
                await response.read()
            captured = (await gateway.close(session)).accounting.trainable_tokens
        return response.status == HTTPStatus.OK and captured == len(reply)


def check_whole(trajectory: Trajectory, said: Conversation) -> None:
    """See that what is measured is a whole capture.

    Raises:
        RunError: A sampled token is not trained, or there is more than one training sequence.
    """
    trained, sampled = trajectory.accounting.trainable_tokens, sum(map(len, said.replies))
    if trained != sampled or len(trajectory.segments) != 1:
        raise RunError(
            f"of {sampled} sampled tokens {trained} are trained, in {len(trajectory.segments)} segments",
            "the figures would be of a broken capture; run the tests of the gateway",
        )


def _figures(plain: Measured, routed: Measured, many: Measured, anew: float, sessions: int) -> dict[str, object]:
    return {
        "cpu_ms_last20": round(plain.last_ms, 2),
        "p50_ms": round(float(np.percentile(plain.call_ms, 50)), 2),
        "p99_ms": round(float(np.percentile(plain.call_ms, 99)), 2),
        "cpu_s_trajectory": round(plain.cpu_s, 3),
        "cpu_s_finish": round(plain.finish_s, 3),
        "cpu_s_rerender": round(anew, 1),
        # A record is written either way: what is compared is answering the requests.
        "cpu_ratio_vs_rerender": round(anew / (plain.cpu_s - plain.finish_s), 1),
        f"max_call_ms_{sessions}": round(max(many.call_ms), 1),
        "rss_mb_per_trajectory": round(plain.rss_mb, 2),
        f"rss_mb_per_trajectory_{sessions}": round(many.rss_mb, 2),
        "rss_mb_free": round(plain.free_mb, 2),
        "disk_mb": round(plain.disk_mb, 3),
        "routes": {
            "cpu_s_trajectory": round(routed.cpu_s, 3),
            "cpu_s_finish": round(routed.finish_s, 3),
            "disk_mb": round(routed.disk_mb, 2),
            "rss_mb": round(routed.rss_mb - plain.rss_mb, 2),
        },
        "tokens": plain.tokens,
    }


async def talk(script: Path, dialect: str, urls: Sequence[str]) -> list[list[float]]:
    """Run the client process to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, client.__file__, str(script), dialect, *urls, stdout=asyncio.subprocess.PIPE
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise RunError("the benchmark's client failed", "its traceback is above")
    times: list[list[float]] = json.loads(output)
    return times


def _first(said: Conversation, turns: int) -> Conversation:
    return Conversation(said.system, said.task, said.tools, said.replies[:turns], said.results[:turns])


def _record_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("trial*/*"))


def _release() -> None:
    """Give free memory back, so that what is resident afterwards is new."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc
        libc.malloc_trim(0)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MB
