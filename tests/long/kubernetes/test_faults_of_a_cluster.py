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
from lego_rl.sandbox.kubernetes import api, pod
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.image import KubernetesImage
from lego_rl.sandbox.kubernetes.pod import PodSandbox
from lego_rl.sandbox.kubernetes.stream import StreamEnd
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.loss import LossCause, RuntimeLostError, SandboxKilledError
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal import verify_seal


async def test_a_plug_in_that_ignores_policies_is_found(
    box: PodSandbox, cluster: Cluster, policies: PolicyAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.way_out.SETTLE_SECONDS", 2.0)
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
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.way_out.SETTLE_SECONDS", 2.0)
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


async def test_a_pod_that_somebody_deletes_is_the_clusters_loss(image: KubernetesImage, cluster: Cluster) -> None:
    box = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        cluster.ask("DELETE", f"/api/v1/namespaces/default/pods/{box.name}", {"gracePeriodSeconds": 0})
        done = await box.exec(["sleep", "60"], timeout_sec=30)
        assert done.died and not done.timed_out
        assert done.loss is not None and done.loss.cause is LossCause.KILLED
        with pytest.raises(SandboxKilledError):
            await box.kill()
    finally:
        await box.close()


async def test_a_keepers_program_that_ends_is_nobodys_loss(image: KubernetesImage, cluster: Cluster) -> None:
    """An agent may have a way to end it, as it had one to use up its memory."""
    box = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        (keeper,) = cluster.docker("ps", "-q", "--filter", f"name=k8s_keeper_{box.name}_").split()
        kill = "for p in /proc/[2-9]*; do grep -q programs/bridge $p/cmdline && kill -9 ${p#/proc/}; done; true"
        cluster.docker("exec", keeper, "sh", "-c", kill)
        done = await box.exec(["sleep", "60"], timeout_sec=30)
        assert done.died and done.loss is None
        assert box._stream.end is StreamEnd.PROGRAM, box._stream.said
        await box.kill()
        assert (await box.snapshot()).diff(image.pristine).changes == ()
    finally:
        await box.close()


async def test_a_stream_that_is_cut_while_everything_answers_is_nobodys_loss(image: KubernetesImage) -> None:
    """As a proxy does that ends connections of some age: an agent could wait for that."""
    box = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        running = asyncio.create_task(box.exec(["sleep", "60"], timeout_sec=50))
        await asyncio.sleep(0.5)
        connection = box._stream._socket._response.connection
        assert connection is not None and connection.transport is not None
        connection.transport.abort()
        done = await running
        assert done.died and done.loss is None and box._stream.end is StreamEnd.CUT
    finally:
        await box.close()


async def test_an_api_server_that_stops_answering_is_the_clusters_loss(
    image: KubernetesImage, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "HEARTBEAT_SECONDS", 4.0)
    monkeypatch.setattr(api, "OPERATION_SECONDS", 6.0)
    monkeypatch.setattr(api, "DISCARD_SECONDS", 3.0)
    monkeypatch.setattr(pod, "KILL_SECONDS", 6.0)
    box = await image.start(Phase.AGENT, limits=LIMITS)
    loop = asyncio.get_running_loop()
    try:
        assert (await box.exec(["true"])).returncode == 0
        cluster.signal("kube-apiserver", signal.SIGSTOP)
        try:
            started = loop.time()
            done = await box.exec(["sleep", "600"], timeout_sec=120)
            assert done.died and not done.timed_out
            assert done.loss is not None and done.loss.cause is LossCause.RUNTIME, box._stream.said
            with pytest.raises(ClusterError, match="does not answer"):
                await image.start(Phase.GRADING, limits=LIMITS)
            with pytest.raises(RuntimeLostError, match="does not answer"):
                await box.kill()
            await box.close()
            assert loop.time() - started < 150
        finally:
            cluster.signal("kube-apiserver", signal.SIGCONT)
        fresh = await image.start(Phase.AGENT, limits=LIMITS)
        await fresh.close()
    finally:
        await box.close()


async def test_memory_is_the_agents_and_its_work_is_still_taken(image: KubernetesImage, box: PodSandbox) -> None:
    hog = await box.exec(["python3", "-c", "open('kept', 'w').close()\nx = b'x' * (400 << 20)"])
    assert hog.returncode == 137
    await box.kill()
    assert box.limit_hits().memory >= 1
    assert [each.path for each in (await box.snapshot()).diff(image.pristine).changes] == ["kept"]


async def test_disk_is_the_agents_and_its_work_is_still_taken(image: KubernetesImage, box: PodSandbox) -> None:
    script = "echo 1 > kept; for i in 1 2 3; do head -c 10000000 /dev/urandom > large$i; done; sleep 60"
    done = await box.exec(["bash", "-c", script], timeout_sec=30)
    assert done.died and not done.timed_out and done.loss is None
    await box.kill()
    assert box.limit_hits().disk
    assert "kept" in [each.path for each in (await box.snapshot()).diff(image.pristine).changes]


async def test_a_silent_node_is_the_clusters_loss(
    image: KubernetesImage, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "HEARTBEAT_SECONDS", 4.0)
    box = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        assert (await box.exec(["true"])).returncode == 0
        cluster.signal("kubelet", signal.SIGSTOP)
        try:
            done = await box.exec(["sleep", "600"], timeout_sec=100)
            assert done.died and done.loss is not None and done.loss.cause is LossCause.RUNTIME, box._stream.said
            assert "False" in _ready(cluster, box.name)
        finally:
            cluster.signal("kubelet", signal.SIGCONT)
        await until(lambda: box.name not in str(cluster.objects("pods")) or "True" in _node(cluster), 60)
    finally:
        await box.close()
    await until(lambda: "True" in _node(cluster), 60)


async def test_processes_are_the_agents_and_are_counted(box: PodSandbox) -> None:
    forks = "import os, time\nfor _ in range(400):\n    if os.fork() == 0:\n        time.sleep(60)"
    done = await box.exec(["python3", "-c", forks], timeout_sec=20)
    assert done.returncode == 1 and not done.died
    await box.kill()
    assert box.limit_hits() == LimitHits(processes=box.limit_hits().processes)
    assert box.limit_hits().processes >= 1


def _ready(cluster: Cluster, name: str) -> list[str]:
    (pod,) = [each for each in cluster.objects("pods") if each["metadata"]["name"] == name]
    return [each["status"] for each in pod["status"]["conditions"] if each["type"] == "Ready"]


def _node(cluster: Cluster) -> list[str]:
    (node,) = cluster.ask("GET", "/api/v1/nodes")["items"]
    return [each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready"]


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
