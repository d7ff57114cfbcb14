"""Whether a cluster's API server is silent, as evidence that no agent can produce.

Invariant: silence counts only where this process was awake to hear an answer and had what a connection takes. A host
that agents keep busy, or that is out of file handles, is no silent cluster.
"""

import asyncio

import aiohttp

from lego_rl.sandbox import lack
from lego_rl.sandbox.kubernetes.api import Api

ATTEMPTS = 3
ATTEMPT_SECONDS = 5.0
PAUSE_SECONDS = 1.0
TICK_SECONDS = 0.1
LONGEST_NAP_SECONDS = 1.0
"""Longest that this process may have been busy with something else during an attempt that counts."""


async def is_silent(api: Api) -> bool:
    """Whether several attempts in a row got no answer, and that was not this process's doing."""
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(PAUSE_SECONDS)
        if not await _is_unheard(api):
            return False
    return True


async def _is_unheard(api: Api) -> bool:
    napped: list[float] = [0.0]
    ticking = asyncio.create_task(_tick(napped))
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS):
            return not await api.answers()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return not lack.is_own(error) and napped[0] < LONGEST_NAP_SECONDS
    finally:
        ticking.cancel()


async def _tick(napped: list[float]) -> None:
    """Keep the longest time between two turns of the event loop in `napped`."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    while True:
        await asyncio.sleep(TICK_SECONDS)
        now = loop.time()
        napped[0] = max(napped[0], now - before)
        before = now
