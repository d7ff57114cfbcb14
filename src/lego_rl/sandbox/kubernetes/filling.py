"""What a pod does not start with: mounts, the task's own work tree and git directory; and what its image sets.

Invariant: all of it is there before anything of the caller's runs.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from lego_rl.sandbox.channel import Channel
from lego_rl.sandbox.kubernetes import delta
from lego_rl.sandbox.kubernetes.pod_image import PodImage
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.records import Record, encode, read_tree
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.transfer import operate
from lego_rl.sandbox.user import environment

PORTION_BYTES = 32 << 20
"""Of content sent at a time, but for a file that is larger alone."""
CLUSTERS_OWN = ("KUBERNETES_", "HOSTNAME=", "HOME=", "PWD=")
"""Variables of a container that are not its image's."""


async def fill(channel: Channel, image: PodImage, phase: Phase, mounts: Sequence[Mount]) -> dict[str, str]:
    """Bring everything in; the variables of every command.

    Raises:
        SandboxError: It could not be written.
    """
    for number, mount in enumerate(mounts):
        await _put(channel, ["mount", str(number)], read_tree(mount.source))
    prepared, put = image.prepared, ["put", image.workdir]
    await _put(channel, put, await asyncio.to_thread(delta.delta, image.base, prepared.pristine))
    if (git := prepared.git_of_work_tree(phase)) is not None:
        await _put(channel, put, read_tree(git))
    lines = (await operate(channel, ["environ", ""])).decode(errors="surrogateescape").split("\0")
    own = (line.partition("=")[::2] for line in lines if not line.startswith(CLUSTERS_OWN))
    return environment({**dict(own), **prepared.env})


async def _put(channel: Channel, operation: list[str], wanted: Iterable[Record]) -> None:
    """Write into a pod, in portions that a node can bear and that are read as they are sent."""
    rest = iter(wanted)
    while portion := await asyncio.to_thread(_portion, rest):
        await operate(channel, operation, portion)


def _portion(rest: Iterator[Record]) -> bytes:
    """The stream of the next records; empty at the end."""
    taken: list[Record] = []
    size = 0
    for record in rest:
        taken.append(record)
        size += len(record.content)
        if size > PORTION_BYTES:
            break
    return encode(taken)
