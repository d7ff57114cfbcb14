"""``lego-rl check``: what can be known before anything starts."""

from rich.console import Console

from lego_rl.sandbox.preflight import check_machine


def sandbox() -> None:
    """Say that agents can be isolated here.

    Raises:
        SandboxError: They cannot; the message names the one command that mends it.
    """
    check_machine()
    Console().print("sandbox: bubblewrap, user namespaces and overlays work here")
