"""What our objects are called, and whose they are."""

import getpass
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from lego_rl.sandbox.kubernetes.api import Manifest
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


@dataclass(frozen=True)
class Identity:
    """What every object of a run carries.

    Attributes:
        run: The run's name, and that of its lease and programs.
        labels: Who made it, for whom and for which run.
        owner: The reference to the lease, with which everything goes; nothing before there is one.
    """

    run: str
    labels: Mapping[str, str]
    owner: Manifest | None = None

    def metadata(self, name: str, extra: Mapping[str, str] | None = None) -> Manifest:
        """Name, labels and owner of an object."""
        found: Manifest = {"name": name, "labels": {**self.labels, **(extra or {})}}
        if self.owner is not None:
            found["ownerReferences"] = [self.owner]
        return found
