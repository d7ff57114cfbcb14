"""Whose fault it is: what an agent does to its own pod, and what a cluster does to it, end differently."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from kube_cluster import Cluster
from kube_policies import PolicyAgent
from kube_tools import LIMITS, settings_for, until

from lego_rl.errors import SandboxError
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.kubernetes.evidence import Loss
from lego_rl.sandbox.kubernetes.image import KubernetesImage
from lego_rl.sandbox.kubernetes.pod import PodSandbox
from lego_rl.sandbox.loss import LossCause
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal import verify_seal


async def test_a_plug_in_that_ignores_policies_is_found(
    box: PodSandbox, cluster: Cluster, policies: PolicyAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.pod.SETTLE_SECONDS", 2.0)
    await verify_seal(box, None)
    policies.enforcing = False
    try:
        await until(lambda: "DROP" not in cluster.run("iptables", "-S", "OUT"))
        with pytest.raises(SandboxError, match="not sealed") as found:
            await verify_seal(box, None)
    finally:
        policies.enforcing = True
    for address in (f"{cluster.inside} port 6443", "10.96.0.1 port 443", f"{cluster.inside} port 53", " port 8080"):
        assert f"{address} answers" in str(found.value)
    assert "169.254.169.254 port 80 answers" in str(found.value)


async def test_a_cluster_that_cannot_reach_this_machine_is_found(
    image: KubernetesImage, cluster: Cluster, policies: PolicyAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.pod.SETTLE_SECONDS", 2.0)
    settings = settings_for(cluster, tmp_path, advertise="10.99.99.99").kubernetes
    away = replace(image, settings=settings)
    box = await away.start(Phase.AGENT, limits=LIMITS)
    try:
        with pytest.raises(SandboxError, match=r"set sandbox\.kubernetes\.advertise"):
            await verify_seal(box, None)
    finally:
        await box.close()


async def test_an_agent_cannot_make_its_end_look_like_the_clusters(box: PodSandbox) -> None:
    await box.exec(["sh", "-c", "f() { f | f & }; f; sleep 60"], timeout_sec=3)
    await box.exec(["bash", "-c", "kill -9 -1; kill -9 1; exec 3<&-"])
    assert (await box.exec(["true"])).returncode == 0
    await box.kill()
    assert (await box.lost()).loss is Loss.NONE


async def test_a_pod_that_somebody_deletes_is_the_clusters_loss(image: KubernetesImage, cluster: Cluster) -> None:
    box = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        cluster.ask("DELETE", f"/api/v1/namespaces/default/pods/{box.name}", {"gracePeriodSeconds": 0})
        done = await box.exec(["sleep", "60"], timeout_sec=30)
        assert done.died and not done.timed_out
        assert done.loss is not None and done.loss.cause is LossCause.KILLED
        assert (await box.lost()).loss is Loss.REMOVED
        await box.kill()
        with pytest.raises(SandboxError, match="files of pod"):
            await box.snapshot()
    finally:
        await box.close()


async def test_a_stream_that_breaks_is_the_clusters_loss(image: KubernetesImage, cluster: Cluster) -> None:
    box = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        (keeper,) = cluster.docker("ps", "-q", "--filter", f"name=k8s_keeper_{box.name}_").split()
        kill = "for p in /proc/[2-9]*; do grep -q programs/bridge $p/cmdline && kill -9 ${p#/proc/}; done; true"
        cluster.docker("exec", keeper, "sh", "-c", kill)
        done = await box.exec(["sleep", "60"], timeout_sec=30)
        assert done.died and done.loss is not None and done.loss.cause is LossCause.RUNTIME
        assert (await box.lost()).loss is Loss.NODE
        await box.kill()
        assert (await box.snapshot()).diff(image.pristine).changes == ()
    finally:
        await box.close()


async def test_memory_is_the_agents_and_its_work_is_still_taken(image: KubernetesImage, box: PodSandbox) -> None:
    hog = await box.exec(["python3", "-c", "open('kept', 'w').close()\nx = b'x' * (400 << 20)"])
    assert hog.returncode == 137
    await box.kill()
    assert box.limit_hits().memory >= 1 and (await box.lost()).loss is Loss.NONE
    assert [each.path for each in (await box.snapshot()).diff(image.pristine).changes] == ["kept"]


async def test_disk_is_the_agents_and_its_work_is_still_taken(image: KubernetesImage, box: PodSandbox) -> None:
    script = "echo 1 > kept; for i in 1 2 3; do head -c 10000000 /dev/urandom > large$i; done; sleep 60"
    done = await box.exec(["bash", "-c", script], timeout_sec=30)
    assert done.died and not done.timed_out and done.loss is None
    await box.kill()
    assert box.limit_hits().disk
    assert "kept" in [each.path for each in (await box.snapshot()).diff(image.pristine).changes]


async def test_a_silent_node_is_the_clusters_loss(image: KubernetesImage, cluster: Cluster) -> None:
    box = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        assert (await box.exec(["true"])).returncode == 0
        cluster.signal("kubelet", signal.SIGSTOP)
        try:
            await until(lambda: box._run.pods.get(box.name) is not None and "False" in _ready(cluster, box.name), 60)
            assert (await box.lost()).loss is Loss.NODE
        finally:
            cluster.signal("kubelet", signal.SIGCONT)
        await until(lambda: "True" in _ready(cluster, box.name), 60)
    finally:
        await box.close()


def _ready(cluster: Cluster, name: str) -> list[str]:
    (pod,) = [each for each in cluster.objects("pods") if each["metadata"]["name"] == name]
    return [each["status"] for each in pod["status"]["conditions"] if each["type"] == "Ready"]


async def test_an_image_that_cannot_be_had_names_what_mends_it(
    cluster: Cluster, policies: PolicyAgent, tmp_path: Path
) -> None:
    provider = provider_of(settings_for(cluster, tmp_path))
    with pytest.raises(SandboxError, match=r"ErrImageNeverPull.*load the image onto the nodes"):
        await asyncio.to_thread(provider.prepare, tmp_path, workdir="/app", docker_image="lego-test/none:1")


async def test_a_pod_that_no_node_takes_says_so(image: KubernetesImage, cluster: Cluster, tmp_path: Path) -> None:
    settings = settings_for(cluster, tmp_path, cpus=64, start_sec=3).kubernetes
    with pytest.raises(SandboxError, match=r"no node takes it: .*Insufficient cpu"):
        await replace(image, settings=settings).start(Phase.GRADING, limits=LIMITS)


async def test_who_may_do_nothing_is_told_the_rule(cluster: Cluster, tmp_path: Path) -> None:
    provider = provider_of(settings_for(cluster, tmp_path, user="stranger"))
    with pytest.raises(SandboxError, match=r"forbids to create pods .*role.yaml"):
        await asyncio.to_thread(provider.check)
