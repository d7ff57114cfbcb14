"""The operations of the first process that carry content: files in, files out, the look at the seal.

Invariant: neither what a sandbox sends nor how long it takes is its own to choose.
"""

import asyncio
from weakref import WeakKeyDictionary

from lego_rl.errors import SandboxError
from lego_rl.sandbox.channel import Channel, SandboxDied
from lego_rl.sandbox.output import BoundedOutput, Consumer, OutputPipe
from lego_rl.sandbox.records import Record, RecordReader

TRANSFER_SECONDS = 300.0
"""How long a transfer may take: what runs in the sandbox can stop it, or hold its pipes open."""
TRANSFER_BYTES = 256 << 20
ERROR_BYTES = 4096
LOG_FILE_BYTES = 1 << 20
"""Kept of the end of each log file."""
LOG_BYTES = 8 << 20
"""Of all the logs of a sandbox; what comes later, by name, is left out."""
LOG_FILES = 2_000
LEFT_OUT = "left-out.txt"
"""Beside logs that were not all fetched."""
MOST_PUTS = 4
"""Trees that are written into sandboxes at one time; each is in memory twice meanwhile."""

_puts: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


class TransferError(SandboxError):
    """A living sandbox refused a file transfer: what was asked for cannot be written or read in it."""


def room_to_put() -> asyncio.Semaphore:
    """Is held while a tree is written into a sandbox; nothing of an agent's runs in that one then."""
    return _puts.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MOST_PUTS))


async def operate(channel: Channel, fields: list[str], content: bytes = b"") -> bytes:
    """Run one operation with `content` as its standard input; what it wrote.

    Raises:
        TransferError: It failed.
        SandboxError: It wrote too much or took too long, or the sandbox died.
    """
    received = bytearray()

    async def keep(piece: bytes) -> None:
        received.extend(piece)

    await run_operation(channel, fields, _bounded(keep), content)
    return bytes(received)


async def fetch(channel: Channel, path: str) -> list[Record]:
    """A file or folder of a sandbox, whole, without holding it in memory more than once.

    Raises:
        TransferError: There is no such path.
        SandboxError: It is larger than a transfer may be, is no tree, or the sandbox died.
    """
    reader = RecordReader()

    async def keep(piece: bytes) -> None:
        reader.feed(piece)

    await run_operation(channel, ["get", path], _bounded(keep))
    reader.end()
    return reader.records


async def fetch_logs(channel: Channel, folder: str) -> list[Record]:
    """A folder of logs: the end of each file, of as many files as there is room for, however much there is.

    Raises:
        TransferError: There is no such folder.
        SandboxError: It is no tree, or the sandbox died.
    """
    reader, received = RecordReader(), 0

    async def keep(piece: bytes) -> None:
        nonlocal received
        received += len(piece)
        if received <= LOG_BYTES and len(reader.records) < LOG_FILES:
            reader.feed(piece)
        else:
            received = LOG_BYTES + 1  # Nothing is kept from here on, however small.

    await run_operation(channel, ["get", folder, str(LOG_FILE_BYTES)], keep)
    if received <= LOG_BYTES:
        reader.end()
        return reader.records
    kept = reader.records[:LOG_FILES]
    last = kept[-1].path if kept else "none"
    mark = f"logs are kept up to {LOG_BYTES >> 20} MiB and {LOG_FILES} files; the last one here, by name, is {last}\n"
    return [*kept, Record(LEFT_OUT, "file", mark.encode(errors="replace"))]


async def run_operation(channel: Channel, fields: list[str], keep: Consumer, content: bytes = b"") -> None:
    """Run one operation with `content` as its standard input, and have `keep` take what it writes.

    Raises:
        TransferError: It failed.
        SandboxError: It took too long, or the sandbox died; or whatever `keep` raises.
    """
    errors = BoundedOutput(ERROR_BYTES)
    pipes = [OutputPipe(keep), OutputPipe(errors.write)]
    try:
        async with asyncio.timeout(TRANSFER_SECONDS):
            status = await channel.run(fields, content, pipes)
            for pipe in pipes:
                await pipe.drain(None)
    except SandboxDied as error:
        raise SandboxError("the sandbox died during a file transfer", "look at its limits and at its log") from error
    except TimeoutError as error:
        raise SandboxError(
            f"a file transfer did not end within {TRANSFER_SECONDS:.0f} s",
            "look for what stops or starves the processes of the sandbox",
        ) from error
    finally:
        for pipe in pipes:
            await pipe.drain(0)
    if status != 0:
        raise TransferError(
            f"{fields[0]} {fields[1]} failed in the sandbox: {errors.text().strip()}",
            "name a path that the sandbox has, and can write where it is to be written",
        )


def _bounded(keep: Consumer) -> Consumer:
    """Give up on what is larger than a transfer may be."""
    received = 0

    async def consume(piece: bytes) -> None:
        nonlocal received
        received += len(piece)
        if received > TRANSFER_BYTES:
            raise SandboxError(
                f"a file transfer from the sandbox is larger than {TRANSFER_BYTES >> 20} MiB",
                "fetch a smaller folder, or the files in it one by one",
            )
        await keep(piece)

    return consume
