"""The set-up script, with programs in place of Python and uv that need no network. It ends where it would install."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup.sh"
PIN = re.findall(r"^uv_version=(.+)$", SCRIPT.read_text(), re.MULTILINE)[0]

PYTHON = r"""#!/bin/sh
if [ "$1" = -c ]; then echo "$0"; exit; fi
for folder; do :; done
rm -rf "$folder"; mkdir -p "$folder/bin"
cat >"$folder/bin/pip" <<'END'
#!/bin/sh
for package; do :; done
printf '#!/bin/sh\n[ "$1" = --version ] || exit 3\necho uv %s\n' "${package#uv==}" >"$(dirname "$0")/uv"
chmod +x "$(dirname "$0")/uv"
END
chmod +x "$folder/bin/pip"
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("installed", "again"), [(None, True), ("0.0.1", True), (PIN, False)])
def test_uv_is_the_one_that_is_pinned(installed: str | None, again: bool, tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "setup.sh"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    for name in ("bwrap", "git"):
        program(tmp_path / "bin" / name, "#!/bin/sh\n")
    python = program(tmp_path / "bin" / "python", PYTHON)
    uv = tmp_path / ".cache" / "uv" / "bin" / "uv"
    if installed is not None:
        program(uv, f'#!/bin/sh\n[ "$1" = --version ] || exit 3\necho "uv {installed} (x86_64)"\n')
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHON": str(python), "HOME": str(tmp_path)}
    done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert ("installing uv" in done.stdout) is again
    version = subprocess.run([uv, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.split()[1] == PIN
