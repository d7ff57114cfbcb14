"""``lego-rl tasks make``: tasks from a source tree that somebody has."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from lego_rl.commands import interrupts
from lego_rl.commands.check import sandbox_settings
from lego_rl.commands.kept_apart import keep_apart
from lego_rl.commands.live_line import LiveLine
from lego_rl.commands.screen import Screen
from lego_rl.errors import ConfigError, TaskError
from lego_rl.owner import owned_folder
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.tree_tests import SandboxedRunner
from lego_rl.tasks.decontaminate.repositories import UNKNOWN_OWNER, canonical
from lego_rl.tasks.make.account import REASONS, Account
from lego_rl.tasks.make.checkout import is_checkout
from lego_rl.tasks.make.making import Wish, make_tasks, report_name
from lego_rl.tasks.staging import remove_leftovers

TREES = ".trees-"
"""How the folder begins that trees are laid out in while their tests are run."""


def make(paths: Sequence[Path], out: Path, wish: Wish, environment: str, overrides: Sequence[str]) -> None:
    """Make tasks and print what was tried and what came of it.

    Args:
        paths: A git checkout, a folder, or source distributions of one package.
        out: Folder for the task directories.
        wish: What is asked for.
        environment: How the sandboxes are isolated that tests run in.
        overrides: ``sandbox.key=value`` strings.

    Raises:
        ConfigError: A key of the sandbox is wrong, what is named is no repository, or tasks would be written into it.
        TaskError: The source cannot be used, or no task was made.
        SandboxError: Tests cannot be run here.
        KeyboardInterrupt: Somebody asked for the end; the same command goes on from there.
    """
    if wish.repository is not None and (canonical(wish.repository) or UNKNOWN_OWNER).startswith(UNKNOWN_OWNER):
        raise ConfigError(f"--repo {wish.repository} is no repository", "write it as OWNER/NAME")
    keep_apart(paths, {"--out": out}, whole=[path for path in paths if not is_checkout(path)])
    settings = sandbox_settings(environment, overrides)
    provider = provider_of(settings)
    provider.check()
    provider.reap()
    out.mkdir(parents=True, exist_ok=True)
    remove_leftovers(out, TREES)
    with owned_folder(out, TREES) as trees, LiveLine() as line:
        runner = SandboxedRunner(provider, trees, sandboxes=settings.fingerprint)
        account = interrupts.run(make_tasks(paths, out, wish, runner, _Watcher(line)))
    screen = Screen()
    for each in lines(account):
        screen.print(each)
    screen.print(table(account))
    if account.repository:
        screen.print(f"they are of the repository {account.repository}")
    else:
        screen.print("nothing says which repository they are of, and decontamination leaves them out: give --repo")
    made = sum(map(len, account.tasks.values()))
    screen.print(f"{made} tasks of {account.package} in {out}; the whole account: {out / report_name(account.package)}")
    if not made:
        raise TaskError(f"no task could be made of {account.package}", "the table says what came of each candidate")


class _Watcher:
    """See `lego_rl.tasks.make.workshop.Watcher`."""

    def __init__(self, line: LiveLine) -> None:
        self._line = line

    def doing(self, what: str) -> None:
        self._line.show(what)

    def made(self, task: str, kind: str) -> None:
        self._line.stay(f"{kind}: {task}")


def lines(account: Account) -> list[str]:
    """How the tests are run, and what of them is left out."""
    suite = account.suite
    if suite is None:
        return []
    said = [f"tests: {len(suite.stable)} that pass every time, in {len(suite.files)} files, {suite.seconds:.1f} s"]
    said += [f"pytest {name}: {what}" for name, what in suite.tried.items()]
    said += [f"left out: {path}: {why}" for path, why in sorted(suite.left_out.items())]
    said += [f"left out, flaky: {test}" for test in suite.flaky]
    said += [f"left out, slow: {test}" for test in suite.slow]
    said += [f"left out, never passes: {len(suite.failing)} tests"] if suite.failing else []
    return said


def table(account: Account) -> Table:
    """Candidates and what came of them."""
    found = Table("candidates", "injected", "mined", box=None, pad_edge=False)
    kinds = ("injected", "mined")
    found.add_row("bugs tried", str(account.tried["injected"]), "")
    found.add_row("steps looked at", "", str(account.tried["mined"]))
    found.add_row("tasks", *(str(len(account.tasks[kind])) for kind in kinds))
    for reason, words in REASONS.items():
        counts = [account.rejected[kind][reason] for kind in kinds]
        if any(counts):
            found.add_row(words, *(str(count or "") for count in counts))
    return found
