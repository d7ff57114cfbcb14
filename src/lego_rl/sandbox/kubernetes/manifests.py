"""The objects that are created on a cluster, as the API takes them.

Invariant: whatever settings, task and phase are, a pod runs as uid 1000 with no capability, no way to gain one, a
seccomp filter, no token, no service links, a read-only root, and bounded memory, processor time, disk and life.
"""

import base64
from pathlib import Path

from lego_rl.messages import Json
from lego_rl.sandbox import seccomp
from lego_rl.sandbox.controlled import INSIDE, INSIDE_MODULES
from lego_rl.sandbox.kubernetes.api import Manifest
from lego_rl.sandbox.kubernetes.labels import ROLE, SANDBOX, Identity
from lego_rl.sandbox.kubernetes.plan import SLACK, Egress, PodPlan
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.report import REPORT_FOLDER
from lego_rl.sandbox.system import SCRATCH
from lego_rl.sandbox.user import UID

WORK, KEEPER, STAGE = "work", "keeper", "stage"
PROGRAM_FILES = (
    INSIDE,
    *INSIDE_MODULES,
    *(Path(__file__).with_name(name) for name in ("bridge.py", "frames.py", "keeper.py", "first.py")),
)
PROGRAMS = "/run/lego/programs"
TOP = "/run/lego"
CONTROL_FOLDER = "/run/lego/control"
CONTROL = f"{CONTROL_FOLDER}/socket"
FILTER = "filter.bpf"
KEEPER_MEMORY_MB = 256
SPOOL_MB = 1024
"""For what is on its way into a sandbox."""
LOGS_MB = 32
SENTINEL_PORT = 8080
PRISTINE = "pristine"
"""The role of a pod that shows an image, beside those of phases."""

STAGE_PROGRAM = f"""
import os, shutil, stat, sys
source, target = sys.argv[1], "{TOP}/tree/work"
os.mkdir(target, 0o755)
if os.path.isdir(source):
    skip = shutil.ignore_patterns(".git")
    for entry in os.scandir(source):
        path = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
            shutil.copytree(entry.path, path, symlinks=True, ignore=skip)
        elif entry.name != ".git":
            shutil.copy2(entry.path, path, follow_symlinks=False)
for folder, folders, files in os.walk(target):
    for name in folders + files:
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        if not stat.S_ISLNK(mode):
            os.chmod(path, 0o755 if stat.S_ISDIR(mode) or mode & 0o100 else 0o644)
"""
"""Copies the image's work tree to the volume that the work container has in its place, without git directories: those
of the phase come from the host. The folder is its own, for git trusts no other's."""
SENTINEL_PROGRAM = f"""
import socket
with socket.create_server(("0.0.0.0", {SENTINEL_PORT}), backlog=128) as server:
    while True:
        server.accept()[0].close()
"""
"""Takes connections: the neighbour that an agent must not reach."""


def programs(identity: Identity) -> Manifest:
    """The stand-alone programs that run in pods, and the seccomp filter of everything that an agent starts."""
    files = {path.name: path.read_bytes() for path in PROGRAM_FILES} | {FILTER: seccomp.compiled()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": identity.metadata(identity.run),
        "immutable": True,
        "binaryData": {name: base64.b64encode(content).decode() for name, content in files.items()},
    }


def sandbox_pod(identity: Identity, plan: PodPlan, settings: KubernetesSettings, *, user_namespaces: bool) -> Manifest:
    """The pod of one sandbox.

    Args:
        identity: The run's.
        plan: The sandbox's.
        settings: The cluster's.
        user_namespaces: Whether the cluster can give it one.
    """
    spec = _pod_spec(settings, user_namespaces=user_namespaces) | {"volumes": _volumes(identity, plan)}
    if plan.phase is None:
        spec |= {"initContainers": [], "containers": [_keeper(plan, settings)]}
    else:
        # Processes are counted per user namespace: without one they would be those of every pod on the node.
        processes = plan.limits.processes if user_namespaces else 0
        containers = [_work(plan, settings, processes), _keeper(plan, settings)]
        spec |= {"initContainers": [_stage(plan, settings)], "containers": containers}
    if plan.egress is Egress.OPEN:
        del spec["dnsPolicy"], spec["dnsConfig"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": identity.metadata(plan.name, {SANDBOX: plan.name, ROLE: plan.phase or PRISTINE}),
        "spec": spec,
    }


def _work(plan: PodPlan, settings: KubernetesSettings, processes: int) -> Manifest:
    """Where the agent is; `processes` is what its first process holds it to, 0 for nothing."""
    limits, disk = plan.limits, 2 * _disk_of(plan)
    return _container(WORK, plan.image, settings, memory_mb=limits.memory_mb, cpus=settings.cpus, disk_mb=disk) | {
        "command": [
            *_python(settings), f"{PROGRAMS}/first.py", CONTROL, f"{PROGRAMS}/inside.py",
            str(processes), "0", str(limits.disk_mb << 20), f"{PROGRAMS}/{FILTER}",
        ],
        "workingDir": plan.workdir,
        "volumeMounts": [
            _mount("programs", PROGRAMS, read_only=True),
            _mount("tree", plan.workdir) | {"subPath": "work"},
            _mount("report", REPORT_FOLDER),
            _mount("control", CONTROL_FOLDER),
            *(_mount(f"scratch-{number}", path) for number, (path, _) in enumerate(SCRATCH)),
            *(
                _mount("mounts", target, read_only=True) | {"subPath": str(number)}
                for number, target in enumerate(plan.mounts)
            ),
        ],
    }  # fmt: skip


def _keeper(plan: PodPlan, settings: KubernetesSettings) -> Manifest:
    """What reads for the host what the agent leaves."""
    disk = SPOOL_MB + plan.mounts_mb
    return _container(KEEPER, plan.image, settings, memory_mb=KEEPER_MEMORY_MB, cpus=0.1, disk_mb=disk) | {
        "command": [*_python(settings), "-c", "import signal; signal.pause()"],
        "volumeMounts": [
            _mount("programs", PROGRAMS, read_only=True),
            _mount("tree", f"{TOP}/tree", read_only=True) | {"subPath": "work"},
            _mount("report", f"{TOP}/report", read_only=True),
            _mount("control", CONTROL_FOLDER, read_only=True),
            _mount("spool", f"{TOP}/spool"),
            _mount("mounts", f"{TOP}/mounts"),
        ],
    }


def _stage(plan: PodPlan, settings: KubernetesSettings) -> Manifest:
    """What copies the image's work tree before the others begin."""
    disk = _disk_of(plan)
    return _container(STAGE, plan.image, settings, memory_mb=KEEPER_MEMORY_MB, cpus=0.1, disk_mb=disk) | {
        "command": [*_python(settings), "-c", STAGE_PROGRAM, plan.workdir],
        "volumeMounts": [_mount("tree", f"{TOP}/tree")],
    }


def _volumes(identity: Identity, plan: PodPlan) -> list[Manifest]:
    memory: Json = {"medium": "Memory", "sizeLimit": f"{plan.limits.scratch_mb}Mi"}
    return [
        {"name": "programs", "configMap": {"name": identity.run}},
        _disk("tree", _disk_of(plan)),
        _disk("report", _disk_of(plan)),
        _disk("control", 1),
        _disk("spool", SPOOL_MB),
        _disk("mounts", plan.mounts_mb),
        *({"name": f"scratch-{number}", "emptyDir": memory} for number, _ in enumerate(SCRATCH)),
    ]


def _disk_of(plan: PodPlan) -> int:
    """MiB at which the cluster ends a pod whose keeper does not."""
    return int(plan.limits.disk_mb * SLACK)


def _python(settings: KubernetesSettings) -> list[str]:
    return [settings.python, "-I", "-S"]


def sentinel_pod(identity: Identity, image: str, settings: KubernetesSettings, *, user_namespaces: bool) -> Manifest:
    """The neighbour that no agent may reach. It has the cluster's own name servers, and can tell which they are."""
    container = _container("sentinel", image, settings, memory_mb=64, cpus=0.05, disk_mb=16) | {
        "command": [settings.python, "-I", "-S", "-c", SENTINEL_PROGRAM],
        "readinessProbe": {"tcpSocket": {"port": SENTINEL_PORT}, "periodSeconds": 1},
        "volumeMounts": [_mount("programs", PROGRAMS, read_only=True), _mount("spool", f"{TOP}/spool")],
    }
    spec = _pod_spec(settings, user_namespaces=user_namespaces) | {
        "containers": [container],
        "volumes": [{"name": "programs", "configMap": {"name": identity.run}}, _disk("spool", 16)],
    }
    del spec["dnsPolicy"], spec["dnsConfig"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": identity.metadata(f"{identity.run}-sentinel", {ROLE: "sentinel"}),
        "spec": spec,
    }


def _pod_spec(settings: KubernetesSettings, *, user_namespaces: bool) -> Manifest:
    seccomp: Json = {"type": "RuntimeDefault"}
    if settings.seccomp_profile is not None:
        seccomp = {"type": "Localhost", "localhostProfile": settings.seccomp_profile}
    spec: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": int(settings.pod_sec),
        "automountServiceAccountToken": False,
        "shareProcessNamespace": False,
        "enableServiceLinks": False,
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "hostname": "sandbox",
        "securityContext": {
            "runAsUser": UID,
            "runAsGroup": UID,
            "runAsNonRoot": True,
            "fsGroup": UID,
            "seccompProfile": seccomp,
        },
        "nodeSelector": dict(settings.node_selector),
        "tolerations": [each.model_dump(exclude_none=True) for each in settings.tolerations],
    }
    if user_namespaces:
        spec["hostUsers"] = False
    if settings.runtime_class is not None:
        spec["runtimeClassName"] = settings.runtime_class
    if settings.pull_secret is not None:
        spec["imagePullSecrets"] = [{"name": settings.pull_secret}]
    return spec


def _container(
    name: str, image: str, settings: KubernetesSettings, *, memory_mb: int, cpus: float, disk_mb: int
) -> Manifest:
    # What is asked for is what is allowed: nobody on the node can be pushed aside by it, nor push it aside.
    bounds: Json = {
        "memory": f"{memory_mb}Mi",
        "cpu": f"{int(cpus * 1000)}m",
        "ephemeral-storage": f"{disk_mb + LOGS_MB}Mi",
    }
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": settings.pull_policy,
        "resources": {"limits": bounds, "requests": bounds},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": "/dev/null",
    }


def _mount(volume: str, path: str, *, read_only: bool = False) -> Manifest:
    return {"name": volume, "mountPath": path, "readOnly": read_only}


def _disk(name: str, megabytes: int) -> Manifest:
    return {"name": name, "emptyDir": {"sizeLimit": f"{megabytes}Mi"}}
