"""Who everything in a sandbox runs as, in every environment."""

from collections.abc import Mapping

USER = "agent"
UID = 1000
HOME = "/home/agent"
VARIABLES = {"HOME": HOME, "USER": USER, "LANG": "C.UTF-8", "TERM": "dumb"}
"""What every command has in its environment, unless the image says otherwise."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def environment(own: Mapping[str, str], *, first: str = "", last: str = "") -> dict[str, str]:
    """The variables of every command, in every environment.

    Args:
        own: What the task's image says; of ``PATH``, too.
        first: A folder that comes before the image's own on ``PATH``: Lego-RL's Python, where programs are the host's.
        last: One that comes after them: Lego-RL's Python, where an image brings its own.
    """
    path = ":".join(part for part in (first, own.get("PATH", SYSTEM_PATH), last) if part)
    return {**VARIABLES, **own, "PATH": path}
