"""A real Kubernetes on this machine: API server, controllers, scheduler, kubelet and container runtime of its own.

It runs in namespaces of its own and ends with them, and those end with this process. Network policies are enforced by
`kube_policies.PolicyAgent`, for no plug-in that does so is among Debian's packages.
"""

import contextlib
import json
import os
import random
import shutil
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from lego_rl.cache import cache_folder

PROGRAMS = cache_folder("kubernetes-1.20.2")
HERE = Path(__file__).parent
CGROUPS = Path("/sys/fs/cgroup")
START_SECONDS = 120.0
IMAGE = "lego-test/base:1"
DEBIAN = (
    "base-files", "bash", "coreutils", "dash", "findutils", "git", "grep", "libacl1", "libattr1", "libbz2-1.0",
    "libc-bin", "libc6", "libcrypt1", "libdb5.3", "libexpat1", "libffi8", "libgcc-s1", "libgmp10", "liblzma5",
    "libncursesw6", "libpcre2-8-0", "libpython3.11-minimal", "libpython3.11-stdlib", "libreadline8", "libselinux1",
    "libsqlite3-0", "libssl3", "libtinfo6", "libuuid1", "python3.11", "python3.11-minimal", "sed", "zlib1g",
)  # fmt: skip
"""Packages of this machine that the image is made of."""


class Cluster:
    """A running cluster; made by `start`.

    Attributes:
        folder: Its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cgroup = f"lego-kube-{os.getpid()}"
        number = random.randrange(1 << 12)
        self.outside = f"10.77.{number >> 6 << 2 & 255}.{(number & 63) * 4 + 1}"
        self.inside = f"10.77.{number >> 6 << 2 & 255}.{(number & 63) * 4 + 2}"
        self._link = f"lego-k{number}"
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        _remove_cgroups()
        for controller in _controllers():
            (controller / self.cgroup).mkdir()
        cpuset = CGROUPS / "cpuset"
        for name in ("cpuset.cpus", "cpuset.mems"):
            (cpuset / self.cgroup / name).write_text((cpuset / name).read_text())
        arguments = [str(folder), str(PROGRAMS / "bin"), self.cgroup, self.outside, self.inside]
        with (folder / "cluster.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
                 "--propagation", "private", "bash", str(HERE / "cluster.sh"), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    @classmethod
    def start(cls, folder: Path) -> "Cluster":
        """Start a cluster with its files in a folder, and wait until its node is ready."""
        if not (PROGRAMS / "done").exists() or os.geteuid() != 0:
            raise RuntimeError("there is no Kubernetes to test with; as root, run: scripts/setup_kubernetes.sh")
        base_image(folder / "base.tar")
        cluster = cls(folder)
        try:
            cluster._connect()
            cluster._until_ready()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def stop(self) -> None:
        """End every process of it."""
        self._process.kill()
        self._process.wait()
        for _ in range(100):
            if not _remove_cgroups(self.cgroup):
                break
            time.sleep(0.1)
        shutil.rmtree(self.folder / "docker", ignore_errors=True)

    def kubeconfig(self, user: str = "admin") -> Path:
        """How a user reaches it: ``admin``, ``runner`` or ``stranger``, who may do nothing."""
        return self.folder / "pki" / f"{user}.kubeconfig"

    def run(self, *argv: str, text: str = "") -> str:
        """Run a program in its namespaces."""
        done = subprocess.run(
            ["nsenter", "--target", str(self._init), "--net", "--mount", "--pid", *argv],
            input=text, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{argv}: {done.stderr}")
        return done.stdout

    def docker(self, *argv: str) -> str:
        """Ask the node's container runtime."""
        return self.run("docker", "--host", "unix:///run/docker.sock", *argv)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """Ask the API server, as its administrator."""
        request = urllib.request.Request(
            f"https://{self.inside}:6443{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": "Bearer admin-token", "Content-Type": "application/json", **headers},
        )
        with urllib.request.urlopen(request, context=self._tls, timeout=20) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def objects(self, kind: str, group: str = "api/v1") -> list[dict[str, Any]]:
        """Objects of a kind in the default namespace."""
        items: list[dict[str, Any]] = self.ask("GET", f"/{group}/namespaces/default/{kind}")["items"]
        return items

    def signal(self, program: str, number: int) -> None:
        """Send a signal to one of its programs."""
        self.run("bash", "-c", f"kill -{number} $(pidof {PROGRAMS / 'bin' / program})")

    @property
    def _init(self) -> int:
        """Process 1 of its process namespace."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])

    def _connect(self) -> None:
        """Lay the one wire into its network namespace."""
        for _ in range(100):
            with contextlib.suppress(IndexError, FileNotFoundError):
                init = self._init
                break
            time.sleep(0.05)
        else:
            raise RuntimeError((self.folder / "cluster.log").read_text())
        subprocess.run(
            ["ip", "link", "add", self._link, "type", "veth", "peer", "name", "up0", "netns", str(init)], check=True
        )
        subprocess.run(["ip", "addr", "add", f"{self.outside}/30", "dev", self._link], check=True)
        subprocess.run(["ip", "link", "set", self._link, "up"], check=True)

    def _until_ready(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise RuntimeError(f"the cluster ended: {(self.folder / 'cluster.log').read_text()[-2000:]}")
            with contextlib.suppress(OSError):
                conditions = [each for node in self.ask("GET", "/api/v1/nodes")["items"] for each in _ready(node)]
                if conditions == ["True"] and self.ask("GET", "/api/v1/namespaces/default/serviceaccounts")["items"]:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"the cluster is not ready; look at {self.folder / 'log'}")


def _ready(node: dict[str, Any]) -> list[str]:
    taints = node["spec"].get("taints", [])
    return [each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready" and not taints]


def _controllers() -> list[Path]:
    found = [path for path in CGROUPS.iterdir() if path.is_dir() and path.name != "unified" and not path.is_symlink()]
    if not (CGROUPS / "cpuset").is_dir():
        raise RuntimeError("this kubelet needs control groups of version 1")
    return found


def _remove_cgroups(name: str = "") -> bool:
    """Remove the control groups of a cluster, or of all whose process is gone; whether any is left."""
    left = False
    for controller in (*_controllers(), CGROUPS / "unified"):
        for group in controller.glob(name or "lego-kube-*"):
            if not name and Path("/proc", group.name.rpartition("-")[2]).exists():
                continue
            for path in sorted((group, *group.rglob("*/")), key=lambda path: -len(path.parts)):
                try:
                    path.rmdir()
                except OSError:
                    left = True
    return left


def base_image(target: Path) -> None:
    """Pack a root file system: a shell, git, Python and pytest, from this machine's own files."""
    names = subprocess.run(["dpkg", "-L", *DEBIAN], capture_output=True, text=True, check=True).stdout.splitlines()
    with tarfile.open(target, "w") as tar:
        made: set[str] = set()

        def add(path: str, source: str | None = None) -> None:
            if path not in made:
                made.add(path)
                tar.add(source or path, arcname=path.lstrip("/"), recursive=False)

        for folder in (
            "/bin",
            "/lib",
            "/lib64",
            "/sbin",
            "/dev",
            "/etc",
            "/proc",
            "/sys",
            "/run",
            "/tmp",
            "/usr",
            "/var",
        ):
            add(folder)
        for name in sorted(set(names)):
            parent, base = os.path.split(name)
            path = f"{os.path.realpath(parent).rstrip('/')}/{base}"
            if os.path.lexists(path) and "/share/doc" not in path and "/share/man" not in path and path != "/":
                add(path)
        for alias, program in (("sh", "dash"), ("python3", "python3.11"), ("python", "python3.11")):
            link = tarfile.TarInfo(f"usr/bin/{alias}")
            link.type, link.linkname = tarfile.SYMTYPE, program
            if f"/{link.name}" not in made:
                tar.addfile(link)
        site = Path(sys.prefix, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
        for package in ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"):
            for path_ in (*sorted((site / package).rglob("*.py")), *site.glob(f"{package}.py")):
                tar.add(path_, arcname=f"usr/lib/python3/dist-packages/{path_.relative_to(site)}", recursive=False)
