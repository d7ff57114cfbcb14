"""What a program inside a sandbox can reach: tried from inside, as root and as an ordinary user."""

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest
from sandbox_tools import HIDDEN, python, shell

from lego_rl.errors import SandboxError
from lego_rl.sandbox.hole import Hole, HoleKind
from lego_rl.sandbox.mounts import Mount, read_only
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.seal_request import SealRequest
from lego_rl.sandbox.state import State

CONNECT = """
import json, socket, sys
def attempt(target):
    family, address = (socket.AF_UNIX, target) if isinstance(target, str) else (socket.AF_INET, tuple(target))
    with socket.socket(family) as client:
        client.settimeout(2)
        try:
            client.connect(address)
            return "connected"
        except OSError as error:
            return type(error).__name__
print(json.dumps([attempt(target) for target in json.loads(sys.stdin.read())]))
"""

REFUSED_CALLS = """
import ctypes, errno, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *arguments):
    return errno.errorcode.get(ctypes.get_errno()) if function(*arguments) == -1 else "allowed"
def family(number, kind=socket.SOCK_RAW, protocol=0):
    try:
        socket.socket(number, kind, protocol).close()
        return "allowed"
    except OSError as error:
        return errno.errorcode[error.errno]
numbers = json.loads(os.environ["NUMBERS"])
print(json.dumps({
    "vsock": family(40, socket.SOCK_STREAM), "packet": family(17), "netlink audit": family(16, protocol=9),
    "bluetooth": family(31), "alg": family(38, socket.SOCK_SEQPACKET), "raw": family(2, protocol=1),
    "unshare user": call(libc.unshare, 0x10000000), "unshare mount": call(libc.unshare, 0x20000),
    "mount": call(libc.mount, b"x", b"/tmp", b"tmpfs", 0, None), "chroot": call(libc.chroot, b"/tmp"),
    **{name: call(libc.syscall, number, 0, 0, 0, 0, 0) for name, number in numbers.items()},
}))
"""


TAKE_OVER = """
import ctypes, errno, json, os, resource
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
def call(function, *arguments):
    return errno.errorcode.get(ctypes.get_errno()) if function(*arguments) == -1 else "allowed"
def use(function, *arguments):
    try:
        function(*arguments)
        return "allowed"
    except OSError as error:
        return errno.errorcode[error.errno]
SEIZE, INTERRUPT, GETFD = 0x4206, 0x4207, 438
print(json.dumps({
    "memory": use(os.open, "/proc/1/mem", os.O_RDWR), "descriptors": use(os.listdir, "/proc/1/fd"),
    "a descriptor": call(libc.syscall, GETFD, os.pidfd_open(1), 3, 0),
    "trace": call(libc.ptrace, SEIZE, 1, None, None), "stop": call(libc.ptrace, INTERRUPT, 1, None, None),
    # With a second of processor time, and children that others leave to it, the kernel would soon kill it by SIGKILL.
    "its time": use(resource.prlimit, 1, resource.RLIMIT_CPU, (1, 1)),
    "its files": use(resource.prlimit, 1, resource.RLIMIT_NOFILE, (0, 0)),
    "own files": use(resource.prlimit, os.getpid(), resource.RLIMIT_NOFILE, (64, 64)),
}), flush=True)
"""


async def test_nothing_but_the_listener_can_be_reached(box: Sandbox, tmp_path: Path) -> None:
    listener = await box.listen(8000)
    server = await asyncio.start_server(lambda _, writer: writer.close(), sock=listener)
    abstract = f"\0lego-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as host,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as named,
    ):
        unix.bind(abstract)
        unix.listen()
        named.bind(str(tmp_path / "socket"))
        named.listen()
        targets = [["127.0.0.1", 8000], list(host.getsockname()), ["192.0.2.1", 80], ["169.254.169.254", 80],
                   abstract, str(tmp_path / "socket")]  # fmt: skip
        done = await python(box, CONNECT, stdin=json.dumps(targets))
    server.close()
    assert done.stderr == ""
    assert json.loads(done.stdout) == [
        "connected", "ConnectionRefusedError", "OSError", "OSError", "ConnectionRefusedError", "FileNotFoundError",
    ]  # fmt: skip
    interfaces = await python(box, "import socket; print(socket.if_nameindex())")
    assert interfaces.stdout == "[(1, 'lo')]\n"


async def test_a_port_is_bound_once_and_inside(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        with await box.listen(port), pytest.raises(SandboxError, match="in use"):
            await box.listen(port)


async def test_host_files_are_out_of_reach(box: Sandbox, tmp_path: Path, task_dir: Path, state: State) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o644)
    paths = [secret, task_dir, state.root, os.environ["HOME"], __file__, "/root", "/home/user", "/srv", "/boot",
             "/var/lib", "/var/log", "/etc/shadow", "/etc/ssh", "/tests", "/solution"]  # fmt: skip
    done = await python(
        box,
        "import os, sys; print([p for p in sys.stdin.read().split('\\n') if os.path.lexists(p)])",
        stdin="\n".join(map(str, paths)),
    )
    assert done.stdout == "[]\n"
    assert (await shell(box, "ls -A /sys 2>/dev/null")).stdout == ""
    listing = await shell(box, "ls /")
    assert set(listing.stdout.split()) <= {
        "app", "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "logs", "opt", "proc", "run", "sbin",
        "sys", "tmp", "usr", "var",
    }  # fmt: skip


async def test_hidden_tests_are_nowhere(box: Sandbox) -> None:
    found = await shell(box, "find / -xdev -name 'test_hidden*' -not -path '/proc/*' 2>/dev/null; ls /app/tests")
    assert found.stdout == "test_visible.py\n"
    needle = HIDDEN["tests/test_hidden.py"].splitlines()[-1].strip()
    grep = await shell(box, f"grep -rlF '{needle}' /app /home /tmp /run /etc /logs /opt/toolchain/bin 2>/dev/null")
    assert grep.stdout == ""


async def test_no_environment_of_the_host_is_readable(image: TaskImage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGO_TEST_SECRET", "hunter2")
    box = await image.start(Phase.AGENT)
    try:
        done = await shell(box, "cat /proc/*/environ | tr '\\0' '\\n' | sort -u")
        assert "hunter2" not in done.stdout
        names = {line.partition("=")[0] for line in done.stdout.splitlines()[:-1]}
        assert names <= {
            "PATH",
            "HOME",
            "USER",
            "LANG",
            "TERM",
            "COLOUR",
            "PWD",
            "SHLVL",
            "_",
            "LD_LIBRARY_PATH",
            "OLDPWD",
        }
        assert (await shell(box, "echo $COLOUR")).stdout == "blue\n"
    finally:
        await box.close()


async def test_kernel_switches_cannot_be_written(box: Sandbox) -> None:
    done = await shell(
        box,
        "find /proc/sys /proc/irq /proc/bus /proc/fs /proc/acpi /proc/sysrq-trigger -type f -writable 2>/dev/null;"
        "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/net/ipv4/ip_forward"
        " /proc/sysrq-trigger /proc/sys/user/max_user_namespaces; do (echo 1 > $f) 2>/dev/null && echo wrote $f; done;"
        "ls /sys/fs/cgroup 2>/dev/null",
    )
    assert done.stdout == ""


async def test_refused_system_calls(box: Sandbox) -> None:
    from lego_rl.sandbox.seccomp import ARCHITECTURES

    machine = ARCHITECTURES[os.uname().machine]
    numbers = {**machine.refused, **machine.absent}
    for name in ("mount", "chroot", "reboot", "vhangup", "swapoff", "acct"):
        del numbers[name]  # called with sensible arguments above, or best not called at all
    done = await python(box, REFUSED_CALLS, env={"NUMBERS": json.dumps(numbers)})
    answers = json.loads(done.stdout)
    assert {answers.pop(name) for name in ("vsock", "packet", "netlink audit", "bluetooth", "alg")} == {"EAFNOSUPPORT"}
    assert {answers.pop(name) for name in machine.absent} == {"ENOSYS"}
    assert set(answers.values()) == {"EPERM"}


async def test_the_first_process_cannot_be_taken_over(box: Sandbox) -> None:
    async with asyncio.timeout(20):  # a first process that is stopped answers nothing, not even that the time is up
        done = await python(box, TAKE_OVER, timeout_sec=10)
    refused = {"memory": "EACCES", "descriptors": "EACCES", "a descriptor": "EPERM", "trace": "EPERM", "stop": "ESRCH"}
    limits = {"its time": "EPERM", "its files": "EPERM", "own files": "allowed"}
    assert json.loads(done.stdout) == refused | limits


async def test_identity_and_privileges(box: Sandbox, uid: int) -> None:
    done = await shell(
        box, "id -un; id -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; cat /proc/self/uid_map"
    )
    lines = done.stdout.split("\n")
    assert lines[:2] == ["agent", str(uid)]
    assert [line.split()[1] for line in lines[2:7]] == ["0" * 16] * 5
    assert [line.split()[1] for line in lines[7:9]] == ["1", "2"]
    assert len(lines[9].split()) == 3
    if os.geteuid() == 0:
        status = (box.run_folder.path / "upper").stat()
        assert status.st_uid not in (0, 65534)


async def test_what_is_mounted_read_only_stays_so(image: TaskImage, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "bin").mkdir(parents=True)
    (bundle / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
    (bundle / "bin" / "tool").chmod(0o755)
    for path in (tmp_path, bundle, bundle / "bin"):
        path.chmod(0o755)
    box = await image.start(Phase.AGENT, mounts=read_only({"/opt/harness": str(bundle)}))
    try:
        done = await shell(
            box,
            "/opt/harness/bin/tool; for d in / /usr /etc /opt /opt/harness /opt/toolchain /opt/python /run /dev /var;"
            " do (touch $d/new) 2>/dev/null && echo wrote $d; done;"
            " touch /app/n /tmp/n /var/tmp/n $HOME/n /dev/shm/n /logs/n",
        )
        assert (done.stdout, done.stderr) == ("tool\n", "")
    finally:
        await box.close()


async def test_two_sandboxes_do_not_see_each_other(box: Sandbox, image: TaskImage) -> None:
    other = await image.start(Phase.AGENT)
    try:
        await shell(other, "echo mine > /tmp/mine; echo mine > /app/mine; sleep 1000 >/dev/null 2>&1 &")
        done = await shell(box, "ls /tmp /app; cat /proc/[0-9]*/comm")
        assert "mine" not in done.stdout
        assert "sleep" not in done.stdout
    finally:
        await other.close()


async def test_a_mount_over_the_work_tree_is_refused(image: TaskImage, state: State) -> None:
    before = set(state.runs.glob("*"))
    with pytest.raises(SandboxError, match="would cover the work tree"):
        await image.start(Phase.AGENT, mounts=[Mount(state.root, "/app")])
    assert set(state.runs.glob("*")) == before


async def test_a_hole_is_found_from_inside(box: Sandbox) -> None:
    assert await box.holes(SealRequest(("/tests", "/app/tests/test_hidden.py"))) == []
    assert await box.holes(SealRequest(("/app/calc/core.py",))) == [
        Hole(HoleKind.HIDDEN, "/app/calc/core.py is visible")
    ]
