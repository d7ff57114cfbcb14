"""``lego-rl harness``: install, list, verify and try the harness bundles."""

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from lego_rl.commands import interrupts
from lego_rl.commands.live_line import LiveLine
from lego_rl.commands.screen import Screen
from lego_rl.config.load import plain
from lego_rl.conformance.laws import Law
from lego_rl.conformance.situations import SITUATIONS, Situation
from lego_rl.conformance.trial import Bench, Report, try_all
from lego_rl.errors import ConfigError, HarnessError
from lego_rl.harness import registry
from lego_rl.harness.base import HarnessBundle
from lego_rl.settings import nearest

_LAST_LINES = 5
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def install(name: str) -> None:
    """Install a harness and say what came of it.

    Raises:
        ConfigError: The name is unknown.
        HarnessError: It cannot be installed.
    """
    console = Screen()
    with LiveLine(f"installing {name} (once; a few hundred megabytes, minutes)"):
        bundle = registry.install(name)
    size = _megabytes(bundle.size_bytes)
    console.print(f"{bundle.name} {bundle.version} · {size} · sha256 {bundle.hash[:12]} · {bundle.licence}")


def verify(name: str) -> None:
    """Hash every file of an installed bundle and compare with what was installed.

    Raises:
        ConfigError: The name is unknown.
        HarnessError: It is not installed, or a file was altered.
    """
    bundle = registry.verify(name)
    Screen().print(f"{bundle.name} {bundle.version} · unaltered · sha256 {bundle.hash}")


def show() -> None:
    """Print every known harness: installed, missing, or superseded by another version or build."""
    found = registry.installed()
    bundles = [bundle for bundle in found if isinstance(bundle, HarnessBundle)]
    table = Table("harness", "version", "size", "sha256", "licence", "state", box=None, pad_edge=False)
    for name in registry.REGISTRY:
        wanted = registry.make(name).spec
        own = {bundle.path.parent.name: bundle for bundle in bundles if bundle.name == name}
        if wanted.folder not in own:
            table.add_row(name, wanted.version, "", "", "", "missing")
        for folder, bundle in own.items():
            state = "installed" if folder == wanted.folder else "superseded"
            table.add_row(name, bundle.version, _megabytes(bundle.size_bytes), bundle.hash[:8], bundle.licence, state)
    console = Screen()
    console.print(table)
    for damaged in found:
        if isinstance(damaged, HarnessError):
            console.print(str(damaged))


def test(name: str, only: Sequence[str], overrides: Iterable[str], at_once: int) -> None:
    """Put an installed harness through every situation and say which laws held.

    Args:
        name: Registry name.
        only: Names of situations; all of them if empty.
        overrides: ``option=value`` strings, as ``[harness.options]`` of a recipe would have them.
        at_once: Situations at a time.

    Raises:
        ConfigError: A name or an option is unknown.
        HarnessError: The harness is not installed, or a law did not hold.
        SandboxError: This machine cannot isolate a harness.
        KeyboardInterrupt: Somebody asked for the end; nothing is left behind.
    """
    console = Screen()
    chosen = _situations(only)
    bench = Bench.prepare(name, plain(overrides))
    with console.status(f"{name} {bench.bundle.version}: {len(chosen)} situations"):
        reports = interrupts.run(try_all(bench, chosen, at_once=at_once))
    console.print(f"{name} {bench.bundle.version} · sha256 {bench.bundle.hash[:12]}")
    console.print(law_table(reports))
    broken = [report for report in reports if not report.held]
    for report in broken:
        for line in told(report):
            console.print(line)
    if broken:
        names = ", ".join(report.situation.name for report in broken)
        idle = any(not report.requests for report in broken)
        raise HarnessError(
            f"{name} broke a law in {len(broken)} of {len(reports)} situations: {names}",
            f"it never called the model; its files may be damaged: lego-rl harness verify {name}"
            if idle
            else "docs/harnesses.md says what each law means; do not train on this harness before it holds",
        )


def law_table(reports: Iterable[Report]) -> Table:
    """Which laws held in each situation, ``-`` where one could not be checked. It fits 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("situation", *Law):
        table.add_column(heading, no_wrap=True)
    table.add_column("calls", min_width=len("1×compaction"))
    for heading in ("seg", "sec"):
        table.add_column(heading, no_wrap=True, justify="right")
    for report in reports:
        calls = ", ".join(f"{count}×{role}" for role, count in report.roles.items())
        if report.missing:
            calls = f"has no {report.missing}"
        marks = [_mark(report, law) for law in Law]
        table.add_row(report.situation.name, *marks, calls, str(report.segments), f"{report.seconds:.0f}")
    return table


def _mark(report: Report, law: Law) -> str:
    """Whether a law held; nothing is claimed of one that was not checked."""
    if law not in report.laws:
        return "-"
    return "no" if report.laws[law] else "yes"


def told(report: Report) -> Iterator[str]:
    """What broke the laws in a situation, and how the harness ended."""
    for law, wrong in report.broken.items():
        yield f"{report.situation.name}: {law}: {wrong}"
    completed = report.completed
    output = _COLOUR.sub("", completed.stderr or completed.stdout)
    words = [line for line in output.splitlines() if line.strip()]
    said = "; its last words:" if words else ", without a word"
    yield f"{report.situation.name}: exit code {completed.returncode}{said}"
    for line in words[-_LAST_LINES:]:
        yield f"    {line}"


def _situations(only: Sequence[str]) -> list[Situation]:
    known = {situation.name: situation for situation in SITUATIONS}
    for name in only:
        if name not in known:
            raise ConfigError(f"there is no situation {name!r}", nearest(name, known))
    return [known[name] for name in dict.fromkeys(only) or known]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
