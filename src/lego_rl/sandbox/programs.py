"""Stand-alone programs of Lego-RL as byte code: every sandbox starts two of them, and compiling would be a third of it.

Invariant: a file is the byte code of exactly this source for exactly this Python, or it is made anew.
"""

import hashlib
import importlib.util
import py_compile
from pathlib import Path

from lego_rl.sandbox.state import State


def compiled(source: Path, state: State) -> Path:
    """The byte code of a program, which ``python -I -S`` runs as it runs the source; made once for each state of it.

    Args:
        source: The program's file.
        state: Where it is kept.
    """
    key = hashlib.sha256(importlib.util.MAGIC_NUMBER + source.read_bytes()).hexdigest()[:16]
    target = state.programs / f"{source.stem}-{key}.pyc"
    if not target.is_file():
        with state.building(state.programs) as scratch:
            made = scratch / target.name
            unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(source), str(made), doraise=True, invalidation_mode=unchecked)
            made.chmod(0o644)
            made.rename(target)
    return target
