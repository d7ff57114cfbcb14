"""How this program was called: in a checkout it is on no search path, so advice that can be pasted names its file."""

import sys
from pathlib import Path

_NAME = "lego-rl"


def program() -> str:
    """The command as it was typed; its plain name where another program runs this one."""
    called = Path(sys.argv[0])
    return str(called) if called.name == _NAME else _NAME


def as_called(advice: str) -> str:
    """Advice that ends in a command of this program, with the command as it has to be typed here."""
    return advice.replace(f"run: {_NAME} ", f"run: {program()} ")
