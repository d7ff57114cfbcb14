"""The operations of the first process that carry content: files in, files out, the look at the seal.

Invariant: neither what a sandbox sends nor how long it takes is its own to choose.
"""

import asyncio

from lego_rl.errors import SandboxError
from lego_rl.sandbox.channel import Channel, SandboxDied
from lego_rl.sandbox.output import BoundedOutput, OutputPipe

TRANSFER_SECONDS = 300.0
"""How long a transfer may take: what runs in the sandbox can stop it, or hold its pipes open."""
TRANSFER_BYTES = 256 << 20
ERROR_BYTES = 4096


class TransferError(SandboxError):
    """A living sandbox refused a file transfer: what was asked for cannot be written or read in it."""


async def operate(channel: Channel, fields: list[str], content: bytes = b"") -> bytes:
    """Run one operation with `content` as its standard input; what it wrote.

    Raises:
        TransferError: It failed.
        SandboxError: It wrote too much or took too long, or the sandbox died.
    """
    received, errors = bytearray(), BoundedOutput(ERROR_BYTES)

    async def keep(piece: bytes) -> None:
        if len(received) + len(piece) > TRANSFER_BYTES:
            raise SandboxError(
                f"a file transfer from the sandbox is larger than {TRANSFER_BYTES >> 20} MiB",
                "fetch a smaller folder, or the files in it one by one",
            )
        received.extend(piece)

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
    return bytes(received)
