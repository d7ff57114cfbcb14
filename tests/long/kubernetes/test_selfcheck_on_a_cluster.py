"""The self-check's attacks on the network, as trials in pods: a pod's own interface is no hole, all else would be."""

import asyncio

import pytest
from kube_cluster import Cluster
from kube_policies import PolicyAgent
from kube_tools import until

from lego_rl.sandbox.kubernetes.pod import PodSandbox
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.selfcheck.attack import Attack
from lego_rl.selfcheck.attacks.network import NETWORK
from lego_rl.selfcheck.ground import MARK, Ground, prepared
from lego_rl.selfcheck.suite import Attacked, attacked

AT_ONCE = 3


async def test_no_attack_on_the_network_succeeds(settings: SandboxSettings, policies: PolicyAgent) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def tried(ground: Ground, attack: Attack) -> Attacked:
        async with turns:
            return await attacked(ground, attack)

    async with prepared(settings) as ground:
        assert "eth0" in ground.interfaces
        found = await asyncio.gather(*(tried(ground, attack) for attack in NETWORK))
    assert {each.attack.id: each.why for each in found if each.why} == {}
    assert {each.ended for each in found} <= {"finished", "harness_error"}  # the script ended, by itself


@pytest.mark.parametrize("name", ["metadata-address", "cluster-api"])
async def test_they_are_no_duds_where_no_policy_holds(
    box: PodSandbox, cluster: Cluster, policies: PolicyAgent, name: str
) -> None:
    (script,) = (attack.script for attack in NETWORK if attack.id == name)
    policies.enforcing = False
    try:
        await until(lambda: "DROP" not in cluster.run("iptables", "-S", "OUT"))
        assert MARK in (await box.exec(["bash", "-c", script])).stdout
    finally:
        policies.enforcing = True
    await until(lambda: "DROP" in cluster.run("iptables", "-S", "OUT"))
    assert MARK not in (await box.exec(["bash", "-c", script])).stdout
