"""Who owns a run's objects on a cluster, and whether that owner is still there.

Invariant: every object of a run belongs to its lease, so that one deletion takes them all. A lease is removed by
somebody else only where it carries the same owner's name and its holder is known to be dead: its process is gone from
this machine, or it has not renewed the lease for longer than it promised, by the cluster's own clock.
"""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lego_rl.owner import is_dead, own_stamp
from lego_rl.sandbox.kubernetes.answers import Lease, LeaseList, read
from lego_rl.sandbox.kubernetes.api import Api, Manifest
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.labels import LEGO, MANAGED_BY, OWNER, Identity, selector

GROUP = "coordination.k8s.io/v1"
LEASE_SECONDS = 120
RENEW_SECONDS = 20.0
_log = logging.getLogger(__name__)


def holder() -> str:
    """This process, as a lease names its holder: the machine since it started, then what `own_stamp` says."""
    return f"{_machine()} {own_stamp()}"


def new_lease(identity: Identity) -> Manifest:
    """A lease that this process holds from now on."""
    return {
        "apiVersion": GROUP,
        "kind": "Lease",
        "metadata": identity.metadata(identity.run),
        "spec": {"holderIdentity": holder(), "leaseDurationSeconds": LEASE_SECONDS, "renewTime": _now()},
    }


def reference(lease: Lease) -> Manifest:
    """The reference that makes an object belong to a lease."""
    return {"apiVersion": GROUP, "kind": "Lease", "name": lease.metadata.name, "uid": lease.metadata.uid}


async def renew(api: Api, lease: Lease) -> None:
    """Say that the holder is still there.

    Raises:
        ClusterError: The lease is gone, or the cluster does not answer.
    """
    path = api.path(GROUP, "leases", lease.metadata.name)
    current = await api.get(path)
    read(Lease, current)
    await api.replace(path, {**current, "spec": {**current.get("spec", {}), "renewTime": _now()}})


async def reap(api: Api, owner: str) -> list[str]:
    """Delete the leases of dead holders, and with them all that belongs to them; the names of their runs.

    Args:
        api: The cluster.
        owner: Whose.

    Raises:
        ClusterError: The cluster does not answer, or forbids it.
    """
    path = api.path(GROUP, "leases")
    found = read(LeaseList, await api.get(path, {"labelSelector": selector({MANAGED_BY: LEGO, OWNER: owner})}))
    removed = []
    for lease in found.items or ():
        if is_abandoned(lease, await api.now()):
            await api.delete(f"{path}/{lease.metadata.name}", uid=lease.metadata.uid)
            removed.append(lease.metadata.name)
    return removed


def is_abandoned(lease: Lease, now: datetime) -> bool:
    """Whether a lease's holder is known to be dead, by the cluster's clock where it is of another machine."""
    spec = lease.spec
    machine, _, stamp = (spec.holder_identity or "").partition(" ")
    if machine == _machine() and is_dead(stamp):
        return True
    if spec.renew_time is None or spec.lease_duration_seconds is None:
        return False  # What does not say when it was renewed is nobody's to remove.
    try:
        return now - datetime.fromisoformat(spec.renew_time) > timedelta(seconds=spec.lease_duration_seconds)
    except (ValueError, TypeError, OverflowError):  # It is no time, or one of no time zone.
        return False


def _machine() -> str:
    """This machine since it was started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def log_lost(error: ClusterError) -> None:
    """Note that a lease could not be renewed; it is tried again long before the lease ends."""
    _log.warning("a lease on the cluster could not be renewed: %s", error.problem)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
