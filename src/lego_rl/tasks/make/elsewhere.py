"""Where else the code of a tree can be read: in copies of it in the tree itself, and where its tests run.

Invariant: a bug is put only where the agent cannot read the right code off another file.
"""

import shlex

from lego_rl.errors import TaskError
from lego_rl.tasks.make.inject.module import Module
from lego_rl.tasks.make.running import Bench
from lego_rl.tasks.make.tree import Tree

LOOK_SECONDS = 60.0
_LOOK = """\
import importlib.util
import sys

for name in sys.argv[1:]:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        continue
    if found is not None:
        print(name)
"""


def is_copied(tree: Tree, path: str, function: str) -> bool:
    """Whether the text of a function stands in another file of the tree as well, as in a ``build`` folder."""
    module = Module.read(path, tree.files[path])
    found = dict(module.functions()).get(function) if module is not None else None
    if module is None or found is None:
        return False
    start, end = module.span(found)
    text = module.source[start:end]
    return any(text in content for other, content in tree.files.items() if other != path)


async def check_own(tree: Tree, bench: Bench) -> None:
    """See that the packages of a tree are not there already where its tests run.

    Raises:
        TaskError: One is: its tests might import the wrong one, and an agent could read the right code.
        SandboxError: The look could not be had.
    """
    names = sorted(_packages(tree))
    words = " ".join(shlex.quote(name) for name in names)
    run = await bench.run({}, f'cd / && python3 -P -B -c {shlex.quote(_LOOK)} {words} > "$LEGO_REPORT"', LOOK_SECONDS)
    there = set(run.report.decode(errors="replace").split()) & set(names)
    if there:
        raise TaskError(
            f"the sandbox has {min(there)} of its own, which its tests need to run or Python brings",
            "make tasks of another package: an agent could read the right code there",
        )


def _packages(tree: Tree) -> set[str]:
    """The top-level modules of a tree."""
    found = set()
    for path in tree.modules:
        folder = next((f"{name}/" for name in tree.module_folders if name != "." and path.startswith(f"{name}/")), "")
        found.add(path.removeprefix(folder).partition("/")[0].removesuffix(".py"))
    return {name for name in found if name.isidentifier()}
