"""Stand-alone programs of Lego-RL as byte code: every sandbox starts two of them, and compiling would be a third of it.

Invariant: a file is the byte code of exactly this source for exactly this Python, or it is made anew.
"""

import hashlib
import importlib.util
import marshal
import py_compile
from collections.abc import Sequence
from pathlib import Path

from lego_rl.sandbox.state import State

_PROGRAM = """import marshal, sys
for name, code in {modules!r}:
    module = sys.modules[name] = type(sys)(name)
    exec(marshal.loads(code), module.__dict__)
exec(marshal.loads({main!r}))
"""
"""A program with its modules: they are there when it imports them."""


def compiled(source: Path, state: State, modules: Sequence[Path] = ()) -> Path:
    """The byte code of a program, which ``python -I -S`` runs as it runs the source; made once for each state of it.

    Args:
        source: The program's file.
        state: Where it is kept.
        modules: What it imports besides the standard library, which becomes part of it.
    """
    text = b"\0".join(path.read_bytes() for path in (source, *modules))
    key = hashlib.sha256(importlib.util.MAGIC_NUMBER + text).hexdigest()[:16]
    target = state.programs / f"{source.stem}-{key}.pyc"
    if not target.is_file():
        with state.building(state.programs) as scratch:
            program = scratch / source.name
            program.write_text(_whole(source, modules))
            made = scratch / target.name
            unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(program), str(made), str(source), doraise=True, invalidation_mode=unchecked)
            made.chmod(0o644)
            made.rename(target)
    return target


def _whole(source: Path, modules: Sequence[Path]) -> str:
    if not modules:
        return source.read_text(encoding="utf-8")
    parts = tuple((path.stem, _code(path)) for path in modules)
    return _PROGRAM.format(modules=parts, main=_code(source))


def _code(path: Path) -> bytes:
    return marshal.dumps(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
