"""A sandbox on a real cluster: what its pod is, what can be done in it, and what is left when it is gone."""

import asyncio
import subprocess
from functools import partial
from pathlib import Path

import pytest
from kube_cluster import Cluster
from kube_policies import PolicyAgent
from kube_tools import LIMITS, POLICIES, until
from sandbox_tools import FIXED

from lego_rl.commands import check
from lego_rl.errors import SandboxError
from lego_rl.sandbox.grading import grade
from lego_rl.sandbox.kubernetes.image import KubernetesImage
from lego_rl.sandbox.kubernetes.plan import Egress
from lego_rl.sandbox.kubernetes.pod import PodSandbox
from lego_rl.sandbox.kubernetes.provider import KubernetesProvider
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.transfer import TransferError
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.history import History
from lego_rl.tasks.task import Task

STATUS = "cat /proc/self/status | grep -E 'Cap|NoNewPrivs|Seccomp:'"


async def shell(box: PodSandbox, script: str, **options: float) -> str:
    done = await box.exec(["bash", "-c", script], **options)  # type: ignore[arg-type]
    return done.stdout + done.stderr


def git(repo: Path, *words: str) -> None:
    """Run git for an author that needs no configuration."""
    author = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(repo), *author, *words], check=True, capture_output=True)


async def test_an_agent_has_no_rights_and_no_token(box: PodSandbox, cluster: Cluster) -> None:
    said = await shell(box, f"id; {STATUS}; cat /etc/resolv.conf; ls /var/run/secrets; touch /usr/x; env")
    assert "No space left on device" in await shell(box, "head -c 17M /dev/zero > /tmp/large")
    assert "uid=1000 gid=1000" in said
    assert [line.split()[1] for line in said.splitlines() if line.startswith("Cap")] == ["0" * 16] * 5
    assert "NoNewPrivs:\t1" in said and "Seccomp:\t2" in said
    assert "nameserver 127.0.0.1" in said and "KUBERNETES" not in said
    assert "cannot access '/var/run/secrets'" in said and "touch: cannot touch '/usr/x'" in said
    assert "COLOUR=blue" in said and "HOME=/home/agent" in said
    (pod,) = [each for each in cluster.objects("pods") if each["metadata"]["name"] == box.name]
    assert pod["status"]["qosClass"] == "Guaranteed"
    assert pod["spec"]["automountServiceAccountToken"] is False


async def test_the_seal_holds_and_the_gateway_is_reached(box: PodSandbox, task: Task) -> None:
    await verify_seal(box, task)
    listener = await box.listen(8100)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.read())
        writer.close()

    async with await asyncio.start_server(answer, sock=listener):
        code = "import socket; s = socket.create_connection(('127.0.0.1', 8100)); s.send(b'me'); s.shutdown(1); "
        assert "heard me" in await shell(box, f'python3 -c "{code}print(s.recv(99))"')


async def test_files_go_in_and_out(box: PodSandbox) -> None:
    content = bytes(range(256)) * 20_000
    await box.put("/app/new", [Record("deep/data", "file", content, 0o755), Record("link", "symlink", b"/etc")])
    assert [each.content for each in await box.get("/app/new/deep/data")] == [content]
    with pytest.raises(TransferError, match="No such file"):
        await box.get("/app/nowhere")
    assert (await box.exec(["cat"], stdin="from the host")).stdout == "from the host"


async def test_output_is_bounded_and_time_is_up(box: PodSandbox) -> None:
    flood = await box.exec(["bash", "-c", "yes | head -c 30000000"])
    assert flood.returncode == 0 and len(flood.stdout) < 1_100_000 and "bytes left out" in flood.stdout
    late = await box.exec(["bash", "-c", "setsid sleep 300 & sleep 300"], timeout_sec=0.5)
    assert late.timed_out and late.returncode == 137
    assert (await shell(box, "grep -l sleep /proc/[0-9]*/comm")).strip() == ""


async def test_the_agent_can_neither_reach_nor_stop_what_serves_the_host(box: PodSandbox) -> None:
    kill = "import os, signal\nfor n in (9, 15, 19): os.kill(1, n)\nos.kill(-1, 0)"
    await box.exec(["python3", "-c", kill])
    said = await shell(box, "cat /proc/1/environ; ls /proc/1/fd; ls /proc | grep -c '^[0-9]'; ls /run/lego")
    assert "Permission denied" in said
    assert "tree" not in said and "spool" not in said  # the keeper's, which has no file of its own here
    assert (await box.exec(["true"])).returncode == 0


async def test_a_change_is_taken_and_graded(image: KubernetesImage, box: PodSandbox, task: Task) -> None:
    await box.put("/app", [Record("calc/core.py", "file", FIXED.encode())])
    left = (
        "rm calc/data.txt; ln -s /etc/passwd l; chmod 755 setup.cfg; mkdir -p x/.git; touch x/.git/y; mkfifo p; mkdir e"
    )
    await shell(box, f"{left}; head -c 17000000 /dev/zero > large; echo 1 > s; chmod 000 s; setsid sleep 300 & true")
    with pytest.raises(SandboxError, match="may still change"):
        await box.snapshot()
    await box.kill()
    patch = (await box.snapshot()).diff(image.pristine)
    assert patch.changes == (
        Change("calc/core.py", "file", FIXED.encode()),
        Change("calc/data.txt", "deleted"),
        Change("l", "symlink", b"/etc/passwd"),
        Change("setup.cfg", "file", (image.pristine / "setup.cfg").read_bytes(), executable=True),
    )
    assert patch.dropped == {
        "large": "larger than 16 MiB", "p": "special file", "s": "not readable", "x/.git": "git directory",
    }  # fmt: skip
    assert (await grade(task, patch, image, limits=LIMITS)).reward == 1
    wrong = await grade(task, Patch(), image, limits=LIMITS)
    assert wrong.reward == 0 and wrong.tests["tests/test_hidden.py::TestAdd::test_sum"] == "failed"


async def test_an_agent_has_the_history_of_its_base_commit_only(
    provider: KubernetesProvider, tmp_path: Path, policies: PolicyAgent
) -> None:
    repo = tmp_path / "task" / "environment" / "repo"
    repo.mkdir(parents=True)
    for step in ("one", "two", "the fix"):
        (repo / "file").write_text(f"{step}\n")
        git(repo, "init", "-q") if step == "one" else None
        git(repo, "add", "file")
        git(repo, "commit", "-qm", step)
    git(repo, "tag", "fixed")
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    prepare = partial(provider.prepare, repo.parent, workdir="/app", history=History(grading="full"))
    image = await asyncio.to_thread(prepare)
    look = "cat file; git log --all --format=%s; git status --short; git tag"
    box = await image.start(Phase.AGENT, limits=LIMITS)
    try:
        await verify_seal(box, None)
        assert (await shell(box, look)).split() == ["two", "two", "one"]
        await box.put("/app/.git/objects/12", [Record("3" * 38, "file", b"not its own")])
        with pytest.raises(SandboxError, match="not sealed"):
            await verify_seal(box, None)
    finally:
        await box.close()
    fresh = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        assert "fixed" in await shell(fresh, look)
    finally:
        await fresh.close()


async def test_a_mount_is_read_only(image: KubernetesImage, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
    (tmp_path / "bin" / "tool").chmod(0o755)
    (tmp_path / "large").write_bytes(b"x" * (40 << 20))
    box = await image.start(Phase.AGENT, mounts=[Mount(tmp_path, "/opt/harness")], limits=LIMITS)
    try:
        said = await shell(box, "/opt/harness/bin/tool; stat -c %s /opt/harness/large; rm /opt/harness/bin/tool")
        assert said.startswith(f"tool\n{40 << 20}\n") and "Read-only file system" in said
    finally:
        await box.close()


async def test_a_grading_sandbox_has_no_way_out(image: KubernetesImage, cluster: Cluster) -> None:
    box = await image.start(Phase.GRADING, limits=LIMITS)
    try:
        code = f"import socket; socket.create_connection(('{cluster.inside}', 6443), 2)"
        assert "timed out" in await shell(box, f'python3 -c "{code}"')
        with pytest.raises(SandboxError, match="has no gateway"):
            await box.listen(8100)
        await shell(box, "ln -s /etc/passwd /run/report/report")
        await box.kill()
        assert await box.report() == b""
    finally:
        await box.close()


async def test_a_grading_sandbox_has_the_network_that_is_asked_for(image: KubernetesImage, cluster: Cluster) -> None:
    box = await PodSandbox.start(image, Phase.GRADING, egress=Egress.OPEN, limits=LIMITS)
    try:
        code = f"import socket; socket.create_connection(('{cluster.inside}', 6443), 20); print('reached')"
        said = await shell(box, f'python3 -c "{code}"; cat /etc/resolv.conf')
        assert "reached" in said and f"nameserver {cluster.inside}" in said
    finally:
        await box.close()


async def test_nothing_is_left_of_a_sandbox(image: KubernetesImage, cluster: Cluster) -> None:
    box = await image.start(Phase.AGENT, limits=LIMITS)
    await box.close()
    await box.close()
    await until(lambda: box.name not in str(cluster.objects("pods")))
    assert box.name not in str(cluster.objects("networkpolicies", POLICIES))


def test_the_probe_uses_a_pod_as_a_trial_does(
    settings: SandboxSettings, policies: PolicyAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = settings.kubernetes.model_dump(exclude_defaults=True, mode="json")
    given = [f"sandbox.kubernetes.{key}={value}" for key, value in keys.items()]
    check.sandbox("kubernetes", [*given, f"sandbox.state={settings.state}", "sandbox.processes=256"])
    assert "memory is held by pod, processes by pod" in capsys.readouterr().out
