"""Waiting for descriptors, of which a process of the kernel's (pidfd) is one."""

import asyncio
import socket

type Readable = socket.socket | int


async def first_readable(*descriptors: Readable) -> Readable:
    """Wait until one of some descriptors can be read, or has come to its end, and say which."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Readable] = loop.create_future()

    def settle(descriptor: Readable) -> None:
        if not found.done():
            found.set_result(descriptor)

    for descriptor in descriptors:
        loop.add_reader(descriptor, settle, descriptor)
    try:
        return await found
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
