"""All tests of bubblewrap again as a user without any privilege, and Docker, where the suite itself runs as root."""

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
NOBODY = 65534

# What the tests need may lie where only root can go, so it is shown below the test's own folder, in mounts of its own.
ROOM = """
set -e
for name in python site repository; do mkdir "$ROOM/$name"; done
mount --bind "$PYTHON" "$ROOM/python"
mount --bind "$SITE" "$ROOM/site"
mount --bind "$REPOSITORY" "$ROOM/repository"
cd "$ROOM/repository"
as_nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
        env -i HOME="$ROOM/home" TMPDIR="$ROOM/home" PATH=/usr/bin:/bin LANG=C.UTF-8 OMP_NUM_THREADS=1 \
        LD_LIBRARY_PATH="$ROOM/python/lib" PYTHONPATH="$ROOM/repository/src:$ROOM/site" PYTHONDONTWRITEBYTECODE=1 \
        "$@"
}
"""
BUBBLEWRAP = """
as_nobody "$ROOM/python/bin/$BINARY" -m pytest -q -p no:cacheprovider -m 'not docker' \
    --ignore "$SELF" tests/integration/sandbox
"""
DOCKER = """
scripts/dockerd.sh start "$ROOM/d"
trap 'scripts/dockerd.sh stop "$ROOM/d"' EXIT
chmod 666 "$ROOM/d/docker.sock"
as_nobody DOCKER_HOST="unix://$ROOM/d/docker.sock" "$ROOM/python/bin/$BINARY" \
    -c 'from lego_rl.cli import main; main()' check sandbox --environment docker
find "$ROOM/home/.cache/lego-rl/sandbox/runs" -mindepth 1
"""

if os.geteuid() == 0:

    @pytest.fixture
    def room() -> Iterator[Path]:
        # pytest's own temporary folders are root's alone.
        with tempfile.TemporaryDirectory(prefix="lego-nobody-") as folder:
            Path(folder).chmod(0o755)
            yield Path(folder)

    def run(script: str, room: Path) -> subprocess.CompletedProcess[str]:
        home = room / "home"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        environment = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "ROOM": str(room),
            "PYTHON": sys.base_prefix,
            "BINARY": f"python{sys.version_info.major}.{sys.version_info.minor}",
            "SITE": sysconfig.get_path("purelib"),
            "REPOSITORY": str(REPOSITORY),
            "SELF": f"tests/integration/sandbox/{Path(__file__).name}",
        }
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "bash", "-c", ROOM + script],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @pytest.mark.timeout(400)
    def test_the_same_without_privileges(room: Path) -> None:
        done = run(BUBBLEWRAP, room)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " passed" in done.stdout
        assert "skipped" not in done.stdout

    @pytest.mark.docker
    def test_a_user_of_docker_without_privileges(room: Path) -> None:
        done = run(DOCKER, room)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = done.stdout.splitlines()
        assert lines[1] == "sandbox: one was started, sealed, used and removed here"
        assert len(lines) == 3, "something is left in the runs folder"
