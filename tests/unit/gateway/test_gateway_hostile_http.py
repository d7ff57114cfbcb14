"""Clients that speak no HTTP, or bend it: answered in a word, and nothing of it in the host's log."""

import asyncio
import gzip
import json
import logging
from urllib.parse import urlsplit

import pytest
from anthropic_wire import AnthropicWire
from gateway_kit import tape, user
from served import Served, served
from wire import Wire
from wires import every_wire

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.http_log import HTTP_LOG

CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
NO_HTTP = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00" + b"a" * 600,
    "nul": b"\0" * 1000,
    "version": b"GET / HTTP/9.9\r\n\r\n",
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "path": b"GET /s/\xe2\x98\x83 HTTP/1.1\r\n\r\n",
    "long path": b"GET " + b"/a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    "long header": b"GET / HTTP/1.1\r\nh: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"h: x\r\n" * 5000 + b"\r\n",
}
BENT = {
    "negative length": (b"Content-Length: -1\r\n\r\n", b""),
    "two lengths": (b"Content-Length: 3\r\n" + CHUNKED, b"0\r\n\r\n"),
    "no chunk": (CHUNKED, b"ZZ\r\n"),
    "huge chunk": (CHUNKED, b"FFFFFFFFFFFFFFFFF\r\nabc"),
    "expectation": (b"Expect: 200-ok\r\nContent-Length: 0\r\n\r\n", b""),
    "no gzip": (b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n", b"{}"),
    "no brotli": (b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n", b"{}"),
}


async def converse(at: Served, sent: bytes) -> bytes:
    """Send this and hang up after the first words of an answer."""
    address = urlsplit(at.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(sent)
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(12), 5)
    writer.close()
    return answer


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
async def test_what_is_no_http_is_refused_and_not_logged(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tape(["Done."])) as at:
        assert b" 400" in await converse(at, sent)
        assert (await at.ask(AnthropicWire(), [user("x")])).content == "Done."
    assert caplog.records == []


@every_wire
@pytest.mark.parametrize(("head", "body"), BENT.values(), ids=BENT)
async def test_a_bent_request_is_refused_and_not_logged(
    wire: Wire, head: bytes, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tape(["Done."])) as at:
        start = f"POST {at.session.path}{wire.path} HTTP/1.1\r\nHost: x\r\n".encode() + head
        assert (await converse(at, start + body)).split()[1] in {b"400", b"417"}
        assert (await at.ask(wire, [user("x")])).content == "Done."
    assert caplog.records == []


async def read_answer(at: Served, sent: bytes) -> tuple[int, bytes]:
    """Send this, without hanging up: status and body of the answer."""
    address = urlsplit(at.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(sent)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        return int(head.split()[1]), await asyncio.wait_for(reader.readexactly(length), 5)
    finally:
        writer.close()


@every_wire
async def test_a_body_that_does_not_arrive_is_not_waited_for_and_the_clock_runs(wire: Wire) -> None:
    budget = Budget(wall_clock_sec=0.3)
    async with served(engine := tape(["Done."] * 3), budget, body_seconds=0.1) as at:
        body = json.dumps(wire.body([user("x")], ())).encode()
        start = f"POST {at.session.path}{wire.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        stalled = await asyncio.gather(*(read_answer(at, start + body[:-1]) for _ in range(4)))
        assert [status for status, _ in stalled] == [408] * 4
        assert all("did not arrive" in json.loads(answer)["error"]["message"] for _, answer in stalled)
        await asyncio.sleep(0.3)
        assert (await at.ask(wire, [user("x")])).content != "Done."
        assert engine.samples == []
        assert (await at.close()).accounting.budget_hit == "wall_clock"


@every_wire
async def test_a_compressed_body_is_not_unpacked(wire: Wire) -> None:
    async with served(engine := tape(["Done."])) as at:
        body = gzip.compress(json.dumps(wire.body([user("x")], ())).encode())
        response = await at.client.post(at.url + wire.path, data=body, headers={"Content-Encoding": "gzip"})
        assert response.status == 400
        assert (await response.json())["error"]["type"] == "invalid_request_error"
        assert engine.samples == []


def test_a_fault_of_this_side_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        HTTP_LOG.error("Error handling request", exc_info=KeyError("ours"))
        HTTP_LOG.error("Error handling request", exc_info=ConnectionResetError("theirs"))
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["'ours'"]
