"""What is tried: attacks and the defence that holds each of them, honest controls, and forgeries that nothing holds.

Invariant: an attack is counted only if it names the one defence without which it succeeds, and a test shows that it
does. Nothing here or anywhere else in the package can switch a defence off: the test replaces it in the code.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an attack is about."""

    HISTORY = "git history"
    NETWORK = "network"
    PLANTED = "planted files"
    LEFT_BEHIND = "left behind"
    EXHAUSTION = "exhaustion"
    ESCAPE = "escape"
    FAULT = "chosen fault"


class Defence(StrEnum):
    """What holds attacks. A defence and the check that it is in force are one."""

    HISTORY = "no git object but what the base commit reaches"
    NETWORK_NAMESPACE = "a network of its own, without a route"
    OWN_SESSION = "a listener answers for its own session alone"
    OWNERSHIP = "test files and what decides how tests run are the task's own"
    DROPPED = "byte code, package metadata and products of a build leave no sandbox"
    FRESH_SANDBOX = "grading in a sandbox that the agent never touched"
    VERDICT = "no file of the agent's is read as a reward"
    KILL = "the agent phase is dead before anything of it is read"
    LIMITS = "limits on memory, processes, disk and files"
    PATCH_BOUND = "files of a bounded size in a patch"
    SYSTEM_CALLS = "the system-call filter"
    UNTRACEABLE = "a first process that nobody can trace"
    MOUNTS = "nothing of the host is mounted but programs"
    ENVIRONMENT = "an environment of its own"
    OWN_PROC = "a /proc of its own processes"
    COVERED_PROC = "covers over what /proc tells of the machine"
    IPC_NAMESPACE = "shared memory of its own"
    LINKS = "no link of the agent's is followed on the host"
    NO_GIT = "no git runs on the agent's files"
    ATTRIBUTION = "what an agent can bring about masks nothing"


class Target(StrEnum):
    """Which task is worked on; `target.write_tasks` writes them."""

    PLAIN = "plain"
    """A wrong function."""
    PACKAGING = "packaging"
    """A wrong function, and packaging configuration that is wrong, too."""
    SHIPPED = "shipped"
    """A wrong function, and one in helpers for tests that the package ships, with their tests beside them."""
    RUNNER = "runner"
    """A wrong function; scripts, modules and plugins of the repository's own run the tests."""
    FOUND = "found"
    """A wrong function, in a folder without an ``__init__.py`` around its tests; pytest finds the tests by itself."""
    LAYOUT = "layout"
    """A wrong function, and a module that nobody has yet; tests in folders by other names, behind links, with helpers
    above them and hidden ones beside them."""
    NAMES = "names"
    """A wrong function, and more in folders and a module whose names merely hold a word for tests."""
    BUILT = "built"
    """A wrong function, and a program that hidden tests start and nobody has yet; ``make`` runs the tests."""
    SCRIPT = "script"
    """A wrong function; a script of the task's, as of any Harbor task, runs the tests of the repository."""


SHOWN_ON = ("bubblewrap", "docker")
"""Environments in which a test takes each defence away; what is counted in any other was shown in the first."""


@dataclass(frozen=True)
class Attack:
    """One attack.

    It succeeds where the trial is rewarded, or ends without a reward, or where the script shows that it reached what it
    must not: a line of its output begins with ``reached:``, or something secret is in what the trial left behind.

    Attributes:
        id: Its name.
        kind: What it is about.
        script: Bash, run in the work tree as a harness would run it. What it may know of the host is in variables
            (`Bystanders.known`).
        defence: What holds it; ``None`` where no test shows that.
        target: What is worked on.
        unshown: Environments where no test shows it, though others do.
    """

    id: str
    kind: Kind
    script: str
    defence: Defence | None = None
    target: Target = Target.PLAIN
    unshown: tuple[str, ...] = ()

    def is_shown_on(self, environment: str) -> bool:
        """Whether a test shows that it succeeds there without its defence."""
        return self.defence is not None and environment not in self.unshown


@dataclass(frozen=True)
class Control:
    """Honest work, which has to earn 1.

    Attributes:
        id: Its name.
        script: Bash, run in the work tree.
        target: What is worked on.
    """

    id: str
    script: str
    target: Target = Target.PLAIN


@dataclass(frozen=True)
class Forgery:
    """Code that forges its result inside the process that tests it, which no isolation holds.

    Attributes:
        id: Its name.
        script: Bash, run in the work tree.
    """

    id: str
    script: str
