"""``lego-rl harness``: install, list, verify and try the harness bundles."""

import asyncio
from collections.abc import Iterable, Sequence

from rich.table import Table

from lego_rl.commands.screen import Screen
from lego_rl.config.load import plain
from lego_rl.conformance.situations import SITUATIONS, Situation
from lego_rl.conformance.trial import LAWS, Bench, Report, try_all
from lego_rl.errors import ConfigError, HarnessError
from lego_rl.harness import registry
from lego_rl.settings import nearest


def install(name: str) -> None:
    """Install a harness and say what came of it.

    Raises:
        ConfigError: The name is unknown.
        HarnessError: It cannot be installed.
    """
    console = Screen()
    with console.status(f"installing {name} (once; a few hundred megabytes)"):
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
    bundles = registry.installed()
    table = Table("harness", "version", "size", "sha256", "licence", "state", box=None, pad_edge=False)
    for name in registry.REGISTRY:
        wanted = registry.make(name).spec
        own = {bundle.path.parent.name: bundle for bundle in bundles if bundle.name == name}
        if wanted.folder not in own:
            table.add_row(name, wanted.version, "", "", "", "missing")
        for folder, bundle in own.items():
            state = "installed" if folder == wanted.folder else "superseded"
            table.add_row(name, bundle.version, _megabytes(bundle.size_bytes), bundle.hash[:8], bundle.licence, state)
    Screen().print(table)


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
    """
    console = Screen()
    chosen = _situations(only)
    bench = Bench.prepare(name, plain(overrides))
    with console.status(f"{name} {bench.bundle.version}: {len(chosen)} situations"):
        reports = asyncio.run(try_all(bench, chosen, at_once=at_once))
    console.print(f"{name} {bench.bundle.version} · sha256 {bench.bundle.hash[:12]}")
    console.print(_laws(reports))
    broken = [report for report in reports if not report.held]
    for report in broken:
        for law, wrong in report.broken.items():
            console.print(f"{report.situation.name}: {law}: {wrong}")
    if broken:
        names = ", ".join(report.situation.name for report in broken)
        raise HarnessError(
            f"{name} broke a law in {len(broken)} of {len(reports)} situations: {names}",
            "docs/harnesses.md says what each law means; do not train on this harness before it holds",
        )


def _situations(only: Sequence[str]) -> list[Situation]:
    known = {situation.name: situation for situation in SITUATIONS}
    for name in only:
        if name not in known:
            raise ConfigError(f"there is no situation {name!r}", nearest(name, known))
    return [known[name] for name in only or known]


def _laws(reports: Iterable[Report]) -> Table:
    table = Table("situation", *LAWS, "calls", "segments", "seconds", box=None, pad_edge=False)
    for report in reports:
        marks = ["no" if law in report.broken else "yes" for law in LAWS]
        calls = ", ".join(f"{count} {role}" for role, count in report.roles.items())
        if report.missing:
            marks[LAWS.index("outcome")] = "-"
            calls = f"has no {report.missing}"
        table.add_row(report.situation.name, *marks, calls, str(report.segments), f"{report.seconds:.1f}")
    return table


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
