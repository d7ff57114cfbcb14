"""Which modules a task's image has elsewhere than in the sources of its work tree: those of its installed packages.

Invariant: a sandbox is asked before anything of the agent's is in it. Where it does not answer in time, every module
counts as installed: what an agent adds must not choose a fault.
"""

import json
from collections.abc import Collection
from pathlib import Path

from lego_rl.sandbox.ownership.modules import installed_search
from lego_rl.sandbox.sandbox import Sandbox

SECONDS = 120.0
"""For the search through all the folders of an image."""
SEARCH = Path(installed_search.__file__).read_text(encoding="utf-8")


async def installed_in(box: Sandbox, names: Collection[str]) -> frozenset[str]:
    """Those of some modules that Python could find outside of the work tree.

    Args:
        box: A sandbox in which nothing of the agent's has been yet.
        names: Dotted names.

    Raises:
        SandboxLostError: The sandbox died, and the host can tell that it was nobody inside.
        SandboxError: The sandbox died.
    """
    if not names:
        return frozenset()
    argv = ["python3", "-c", SEARCH, box.image.workdir]
    done = await box.exec(argv, cwd="/", stdin=json.dumps(sorted(names)), timeout_sec=SECONDS)
    try:
        return frozenset(names) & frozenset(json.loads(done.stdout))
    except ValueError:
        return frozenset(names)
