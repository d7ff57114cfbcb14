"""Programs that an installation runs on the host.

Invariant: one that is missing or does not end is a `HarnessError` that names it, never a wait without bounds.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lego_rl.errors import HarnessError


def run(
    command: Sequence[str | Path],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: str = "",
    slow: str = "run the command again while the machine is less busy",
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its exit status is.

    Args:
        command: Program and arguments.
        timeout: Seconds.
        env: Its whole environment; this process's if unset.
        cwd: Its working directory; this process's if unset.
        stdin: Text for its standard input.
        slow: What to do where it does not end in time.

    Raises:
        HarnessError: It cannot be started, or did not end in time.
    """
    name = Path(command[0]).name
    try:
        return subprocess.run(
            command,
            env=env,
            cwd=cwd,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        raise HarnessError(f"cannot start {name}: {error}", f"install a {name} that runs on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"{name} did not end within {timeout:.0f} s", slow) from error
