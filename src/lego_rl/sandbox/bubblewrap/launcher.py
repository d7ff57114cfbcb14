"""Stand-alone program: build the namespaces and mounts of one sandbox, then become bubblewrap.

Invariant: from the moment bubblewrap starts, nothing in the sandbox's process tree holds an identity that owns files of
the host: as root the tree runs as `uid` of the request (an unused one), as an ordinary user as that user, both inside a
user namespace of their own. All mounts live in a private mount namespace and vanish with it.

Bubblewrap 0.8 (Debian 12) cannot mount overlays, and as root it would keep the host's uid 0, which may write
``/proc/sys`` by file permission alone. So this program comes first: it pins the sources of every mount by descriptor,
enters a user namespace in which it is uid 0 and nobody outside, binds the sources under ``STAGE``, mounts the overlays
there and executes bubblewrap, which nests a second user namespace without any capability.

It is run as ``python -I -S launcher.py REQUEST_FD`` and imports only the standard library, and as little of it as
possible: every sandbox pays for it. The request is marshalled, which one interpreter can have with itself:
``{"owner": pid, "uid": int | null, "cgroups": [path], "binds": [{"source", "name"}], "overlays": [{"name", "lower":
[name], "upper", "work"}], "argv": [bubblewrap and its arguments]}``; ``lower``, ``upper`` and ``work`` name binds (a
path may follow), of the lower ones the first lies on top.
"""

# pathlib, json and signal would be most of the start-up time.
# ruff: noqa: PTH102, PTH112, PTH123

import ctypes
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STAGE = "/tmp"
"""Where the private tmpfs with all mounts is put: a folder that every machine has and every user may enter."""

MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, SIGKILL = 1, 9

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """mount(2); an error names the step, because the host shows it to the user."""
    arguments = [os.fsencode(text) if text else None for text in (source, target, kind)]
    if _libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data) if data else None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"mount {kind or 'bind'} {source} ({data}): {os.strerror(error)}", target)


def enter_namespace_as_user() -> None:
    """Become uid 0 of a new user namespace in which the only user is the caller, with a mount namespace of its own."""
    uid, gid = os.getuid(), os.getgid()
    os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNS)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {uid} 1")
    _write("/proc/self/gid_map", f"0 {gid} 1")


def enter_namespace_as_root(outside: int) -> None:
    """Likewise, where the only user is `outside`, a user and a group.

    The caller keeps its rights until the map is written, by a child that stays outside, so that it needs no permission
    for *unprivileged* user namespaces.
    """
    ready_read, ready_write = os.pipe()
    me = os.getpid()
    mapper = os.fork()
    if mapper == 0:
        os.close(ready_write)
        if os.read(ready_read, 1):
            _write(f"/proc/{me}/uid_map", f"0 {outside} 1")
            _write(f"/proc/{me}/gid_map", f"0 {outside} 1")
        os._exit(0)
    os.close(ready_read)
    os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNS)
    os.write(ready_write, b"1")
    os.close(ready_write)
    _, status = os.waitpid(mapper, 0)
    if status != 0:
        raise OSError("the user namespace's uid map could not be written")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def stage(binds: list[dict[str, str]]) -> None:
    """Bind every source to ``STAGE/name``. The sources are opened first: `STAGE` may hide some of them."""
    pinned = [(os.open(bind["source"], os.O_PATH | os.O_CLOEXEC), bind) for bind in binds]
    is_folder = [os.path.isdir(bind["source"]) for bind in binds]
    mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    for (descriptor, bind), folder in zip(pinned, is_folder, strict=True):
        target = f"{STAGE}/{bind['name']}"
        if folder:
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        mount(f"/proc/self/fd/{descriptor}", target, "", MS_BIND | MS_REC)
        os.close(descriptor)


def mount_overlays(overlays: "list[dict[str, Any]]") -> None:
    """Mount each overlay at ``STAGE/name``, with its marks in ``user.overlay.*`` attributes that the host can read."""
    for overlay in overlays:
        lower = ":".join(f"{STAGE}/{name}" for name in overlay["lower"])
        layers = f"lowerdir={lower},upperdir={STAGE}/{overlay['upper']},workdir={STAGE}/{overlay['work']}"
        target = f"{STAGE}/{overlay['name']}"
        mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, f"{layers},userxattr")


def end_with(owner: int) -> None:
    """Be killed when `owner`, the parent, ends; a change of identity has the kernel forget it (prctl(2))."""
    _libc.prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != owner:
        sys.exit(70)


def main() -> None:
    """Read the request, build, and execute bubblewrap; what fails is one line on standard error and exit status 70."""
    with os.fdopen(int(sys.argv[1]), "rb") as stream:
        request = marshal.load(stream)  # of the host's own
    end_with(request["owner"])
    for path in request["cgroups"]:
        _write(f"{path}/cgroup.procs", str(os.getpid()))
    uid = request["uid"]
    if uid is None:
        enter_namespace_as_user()
    else:
        os.unshare(os.CLONE_NEWNS)
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    stage(request["binds"])
    for overlay in request["overlays"]:
        os.mkdir(f"{STAGE}/{overlay['name']}", 0o755)
    if uid is not None:
        enter_namespace_as_root(uid)
    mount_overlays(request["overlays"])
    end_with(request["owner"])
    os.chdir("/")
    os.execv(request["argv"][0], request["argv"])


def _write(path: str, text: str) -> None:
    with open(path, "w") as stream:
        stream.write(text)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        print(f"launcher: {error}", file=sys.stderr)
        sys.exit(70)
