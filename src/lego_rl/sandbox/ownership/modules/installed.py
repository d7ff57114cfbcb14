"""Which modules a task's image has elsewhere than in its work tree's sources: what its tests' Python has installed.

Invariant: a sandbox is asked before anything of the agent's is in it. Where it does not answer in time, every module
counts as installed: what an agent adds must not choose a fault.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from lego_rl.sandbox.ownership.modules import installed_search
from lego_rl.sandbox.sandbox import Sandbox

SECONDS = 120.0
"""For the search through all the folders of an image."""
SEARCH = Path(installed_search.__file__).read_text(encoding="utf-8")

_MAY_NAME_PYTHON = re.compile(r"/[\w./+-]+|\b(?:python|pypy)[0-9.]*(?![\w/-])")
"""A program of such a name, and whatever path: of one, of a folder with one, of an environment to activate."""


async def installed_in(
    box: Sandbox, names: Collection[str], env: Mapping[str, str], said: Iterable[str]
) -> frozenset[str]:
    """Those of some modules that a Python of the tests could find outside of the work tree.

    Args:
        box: A sandbox in which nothing of the agent's has been yet.
        names: Dotted names.
        env: Environment variables of the tests.
        said: What runs the tests: texts in which another Python than the first on ``PATH`` may be named.

    Raises:
        SandboxLostError: The sandbox died, and the host can tell that it was nobody inside.
        SandboxError: The sandbox died.
    """
    if not names:
        return frozenset()
    asked = {
        "names": sorted(names),
        "words": sorted({word for text in said for word in _MAY_NAME_PYTHON.findall(text)}),
        "workdir": box.image.workdir,
        "skipped": list(box.surroundings.host_folders),
    }
    argv = ["python3", "-c", SEARCH]
    done = await box.exec(argv, env=env, cwd="/", stdin=json.dumps(asked), timeout_sec=SECONDS)
    try:
        return frozenset(names) & frozenset(json.loads(done.stdout))
    except ValueError:
        return frozenset(names)
