"""Requests to an API server that has its bad moments, over real HTTP."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import certifi
import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer
from kube_server import PODS, Server, kubeconfig

from lego_rl.errors import SandboxError
from lego_rl.sandbox.kubernetes import api as api_module
from lego_rl.sandbox.kubernetes.access import check_access
from lego_rl.sandbox.kubernetes.answers import Pod, read
from lego_rl.sandbox.kubernetes.api import Api
from lego_rl.sandbox.kubernetes.connection import connection
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.pods import Pods
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings


@pytest_asyncio.fixture
async def api(server: tuple[Server, TestServer], tmp_path: Path) -> AsyncIterator[Api]:
    async with await Api.connect(kubeconfig(tmp_path, str(server[1].make_url("")))) as connected:
        yield connected


async def test_what_passes_is_asked_again(server: tuple[Server, TestServer], api: Api) -> None:
    script, _ = server
    script.script = [
        (429, {}, {"Retry-After": "0"}),
        (429, {}, {"Retry-After": "Mon, 30 Nov 2026 12:00:00 GMT"}),
        (500, {}, {}),
        (0, {}, {}),
        (503, {}, {}),
        (200, {"kind": "Pod"}, {}),
    ]
    assert await api.get(api.path("v1", "pods", "one")) == {"kind": "Pod"}
    assert script.asked == [("GET", f"{PODS}/one", None)] * 6
    assert set(script.headers) == {"Bearer secret"}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "log in again"),
        (403, "with the role"),
        (404, "namespace"),
        (422, "refuses"),
        (500, "answered 500"),
        (0, "does not answer"),
    ],
)
async def test_what_does_not_pass_says_what_to_do(
    server: tuple[Server, TestServer], api: Api, status: int, said: str
) -> None:
    script, _ = server
    script.script = [(status, {"message": "because\nof that"}, {})]
    with pytest.raises(ClusterError, match=said) as found:
        await api.get(PODS)
    assert found.value.status == (status or None)
    least = api_module.ATTEMPTS if status in (0, 500) else 1
    # The HTTP client asks once more by itself where a connection that it kept open turns out to be closed.
    assert least <= len(script.asked) <= (2 * least if status == 0 else least)
    assert "\n" not in str(found.value)


async def test_an_object_that_a_lost_answer_made_is_taken(server: tuple[Server, TestServer], api: Api) -> None:
    script, _ = server
    script.script = [(0, {}, {}), (409, {}, {}), (200, {"metadata": {"name": "mine"}}, {})]
    made = await api.create(PODS, {"metadata": {"name": "mine"}})
    assert made["metadata"]["name"] == "mine"
    assert [method for method, _, _ in script.asked] == ["POST", "POST", "GET"]


async def test_what_is_gone_is_deleted(server: tuple[Server, TestServer], api: Api) -> None:
    script, _ = server
    script.script = [(404, {}, {})]
    await api.delete(f"{PODS}/one", uid="7")
    assert script.asked[0][2] == {
        "gracePeriodSeconds": 0, "propagationPolicy": "Background", "preconditions": {"uid": "7"},
    }  # fmt: skip


async def test_pods_are_listed_again_when_a_watch_has_forgotten(server: tuple[Server, TestServer], api: Api) -> None:
    script, _ = server

    def listed(version: str, *pods: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return 200, {"metadata": {"resourceVersion": version}, "items": list(pods)}, {}

    def named(phase: str) -> dict[str, Any]:
        return {"metadata": {"name": "one"}, "status": {"phase": phase}}

    script.script = [
        listed("1", named("Pending")),
        (200, [{"type": "MODIFIED", "object": named("Running")}, {"type": "ERROR", "object": {"code": 410}}], {}),
        listed("9", named("Unknown")),
        (200, [{"type": "DELETED", "object": named("Unknown")}], {}),
        listed("10"),
    ]
    pods = Pods(api, "a=b")
    try:
        seen: list[str] = []

        def gone(pod: Pod | None) -> bool | None:
            if pod is not None:
                seen.append(pod.status.phase)
            return True if pod is None and seen else None

        assert await pods.wait("one", gone)
        assert list(dict.fromkeys(seen)) == ["Pending", "Running", "Unknown"]
        assert "resourceVersion=9" in script.asked[3][1] and "labelSelector=a%3Db" in script.asked[3][1]
    finally:
        await pods.close()


NAMED = {"metadata": {"name": "one"}, "status": {"phase": "Running"}}
LISTED = {"metadata": {"resourceVersion": "1"}, "items": [NAMED]}
NO_POD: tuple[Any, ...] = (
    [],
    {},
    {"metadata": {}},
    {"metadata": {"name": 1}},
    {"metadata": {"name": "one"}, "status": []},
    {"metadata": {"name": "one"}, "status": {"phase": None}},
    {"metadata": {"name": "one"}, "status": {"conditions": ["Ready"]}},
    {"metadata": {"name": "one"}, "status": {"containerStatuses": [{"name": "work", "ready": "yes"}]}},
    {"metadata": {"name": "one"}, "status": {"containerStatuses": [{"name": "work", "state": {"terminated": {}}}]}},
)
NO_LIST: tuple[Any, ...] = (
    {},
    {"items": []},
    {"metadata": LISTED["metadata"]},
    {"metadata": LISTED["metadata"], "items": {}},
    {"metadata": {"resourceVersion": 1}, "items": []},
    *({"metadata": LISTED["metadata"], "items": [pod]} for pod in NO_POD),
)


@pytest.mark.parametrize("answer", NO_LIST)
async def test_an_odd_list_of_pods_is_asked_for_again(server: tuple[Server, TestServer], api: Api, answer: Any) -> None:
    script, _ = server
    script.script = [(200, answer, {}), (200, LISTED, {})]
    pods = Pods(api, "a=b")
    try:
        async with asyncio.timeout(20):
            assert await pods.wait("one", lambda pod: pod) == read(Pod, NAMED)
    finally:
        await pods.close()


async def test_odd_lists_of_pods_are_told_in_the_end(
    server: tuple[Server, TestServer], api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    server[0].script = [(200, {}, {})]
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.pods.GIVE_UP_SECONDS", 0.0)
    pods = Pods(api, "a=b")
    try:
        async with asyncio.timeout(20):
            with pytest.raises(ClusterError, match="answered with no PodList"):
                await pods.wait("one", lambda pod: pod)
    finally:
        await pods.close()


@pytest.mark.parametrize(
    "event",
    [[], {}, {"type": "ADDED"}, {"type": 1, "object": NAMED}, *({"type": "MODIFIED", "object": pod} for pod in NO_POD)],
)
async def test_an_odd_event_begins_another_watch(server: tuple[Server, TestServer], api: Api, event: Any) -> None:
    script, _ = server
    script.script = [(200, {**LISTED, "items": None}, {}), (200, [event], {}), (200, LISTED, {})]
    pods = Pods(api, "a=b")
    try:
        async with asyncio.timeout(20):
            assert await pods.wait("one", lambda pod: pod) == read(Pod, NAMED)
    finally:
        await pods.close()


@pytest.mark.parametrize("answer", [{}, {"major": 1, "minor": "31"}, {"major": "1"}])
async def test_an_odd_version_is_the_clusters_error(server: tuple[Server, TestServer], api: Api, answer: Any) -> None:
    server[0].script = [(200, answer, {})]
    with pytest.raises(ClusterError, match="answered with no Version"):
        await api.version()


async def test_a_clock_that_tells_no_time_is_the_clusters_error(server: tuple[Server, TestServer], api: Api) -> None:
    server[0].script = [(200, {"major": "1", "minor": "31"}, {"Date": "today"})]
    with pytest.raises(ClusterError, match="does not say what time it is"):
        await api.now()


async def test_an_odd_review_allows_nothing(server: tuple[Server, TestServer], tmp_path: Path) -> None:
    script, running = server
    for answer in ({}, {"status": {}}, {"status": {"allowed": "true"}}):
        script.script = [(200, {"major": "1", "minor": "31"}, {}), (201, answer, {})]
        with pytest.raises(ClusterError, match="answered with no Review"):
            await check_access(kubeconfig(tmp_path, str(running.make_url(""))))


async def test_an_api_server_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "OPERATION_SECONDS", 0.4)
    monkeypatch.setattr(api_module, "DISCARD_SECONDS", 0.2)
    connected = []
    hanging = await asyncio.start_server(lambda *ends: connected.append(ends), "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    async with await Api.connect(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as api:
        for work in (api.get(PODS), api.create(PODS, {}), api.delete(PODS), api.stream("pod", "keeper", ["true"])):
            async with asyncio.timeout(5):
                with pytest.raises(ClusterError, match=r"does not answer: nothing came within"):
                    await work
        async with asyncio.timeout(5):
            await api.discard(PODS)
    for _, writer in connected:
        writer.close()
    hanging.close()


async def test_what_is_forbidden_is_named(server: tuple[Server, TestServer], tmp_path: Path) -> None:
    script, running = server
    allowed: Callable[[bool], tuple[int, Any, dict[str, str]]] = lambda may: (201, {"status": {"allowed": may}}, {})  # noqa: E731
    script.script = [(200, {"major": "1", "minor": "31+"}, {}), *[allowed(True)] * 5, allowed(False)]
    with pytest.raises(SandboxError, match=r"forbids to create pods/exec in namespace rollouts.*role\.yaml"):
        await check_access(kubeconfig(tmp_path, str(running.make_url(""))))
    assert script.asked[-1][2]["spec"]["resourceAttributes"] == {
        "namespace": "rollouts", "verb": "create", "group": "", "resource": "pods", "subresource": "exec",
    }  # fmt: skip


async def test_a_cluster_that_is_too_old_is_refused(server: tuple[Server, TestServer], tmp_path: Path) -> None:
    script, running = server
    script.script = [(200, {"major": "1", "minor": "19"}, {})]
    with pytest.raises(SandboxError, match=r"runs Kubernetes 1\.19; use one that runs 1\.20"):
        await check_access(kubeconfig(tmp_path, str(running.make_url(""))))


async def test_a_pod_has_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(certifi.where(), tmp_path / "ca.crt")
    (tmp_path / "token").write_text("from a pod")
    (tmp_path / "namespace").write_text("workers\n")
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.connection.SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr("kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = await connection(KubernetesSettings())
    assert (found.host, found.namespace) == ("https://10.0.0.1:443", "workers")
    assert await found.headers() == {"Authorization": "Bearer from a pod"}


async def test_no_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"there is no kubeconfig .*nowhere"):
        await Api.connect(KubernetesSettings(kubeconfig=tmp_path / "nowhere"))
    (tmp_path / "broken").write_text("contexts: []")
    with pytest.raises(SandboxError, match="kubeconfig cannot be used"):
        await Api.connect(KubernetesSettings(kubeconfig=tmp_path / "broken"))
    settings = kubeconfig(tmp_path, "http://127.0.0.1:1").model_copy(update={"context": "another"})
    with pytest.raises(SandboxError, match="another"):
        await Api.connect(settings)
