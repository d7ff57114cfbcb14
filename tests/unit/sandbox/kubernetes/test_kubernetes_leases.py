"""Whose lease may be removed: only one whose holder is known to be dead."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from lego_rl.sandbox.kubernetes import lease
from lego_rl.sandbox.kubernetes.answers import Lease, Metadata, read
from lego_rl.sandbox.kubernetes.labels import Identity

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def held(holder: str, seconds: float = 0, **more: object) -> Lease:
    renewed = (NOW - timedelta(seconds=seconds)).isoformat()
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 120, "renewTime": renewed, **more}
    return read(Lease, {"metadata": {"name": "run"}, "spec": spec})


def test_a_living_process_keeps_its_lease_however_old() -> None:
    assert not lease.is_abandoned(held(lease.holder()), NOW)
    assert lease.new_lease(Identity("run", {}))["spec"]["holderIdentity"] == lease.holder()


def test_a_dead_process_of_this_machine_has_lost_it_at_once() -> None:
    code = "from lego_rl.sandbox.kubernetes.lease import holder; print(holder())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert holder.split()[0] == lease.holder().split()[0]
    assert lease.is_abandoned(held(holder.strip()), NOW)


@pytest.mark.parametrize(
    ("entry", "abandoned"),
    [
        (held("another 1 1 pid:[1]", 100), False),
        (held("another 1 1 pid:[1]", 121), True),
        (held("", 121), True),
        (held("another", 121, renewTime=None), False),
        (held("another", 121, leaseDurationSeconds=None), False),
        (held("another", 121, renewTime="long ago"), False),
        (held("another", 121, renewTime="2020-01-01T00:00:00"), False),
        (Lease(Metadata("run")), False),
    ],
)
def test_another_machine_has_until_its_lease_ends(entry: Lease, abandoned: bool) -> None:
    assert lease.is_abandoned(entry, NOW) is abandoned
