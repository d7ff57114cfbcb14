"""What our objects are called, and whose they are."""

import getpass
import re
import secrets
import socket

from lego_rl.sandbox.kubernetes.settings import KubernetesSettings

MANAGED_BY = "app.kubernetes.io/managed-by"
LEGO = "lego-rl"
OWNER, RUN, SANDBOX, ROLE = "lego-rl.io/owner", "lego-rl.io/run", "lego-rl.io/sandbox", "lego-rl.io/role"


def owner_of(settings: KubernetesSettings) -> str:
    """The owner's name as a label's value: letters, digits, dots and dashes, 63 at most."""
    return settings.owner or re.sub(r"[^a-z0-9.-]+", "-", f"{getpass.getuser()}-{socket.gethostname()}".lower())[
        :63
    ].strip("-.")


def new_name() -> str:
    """A name that nobody else has."""
    return f"lego-{secrets.token_hex(8)}"


def selector(labels: dict[str, str]) -> str:
    """Labels as a query."""
    return ",".join(f"{name}={value}" for name, value in labels.items())
