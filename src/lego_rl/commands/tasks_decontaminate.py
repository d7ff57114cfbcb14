"""``lego-rl tasks decontaminate``: what of an index is, or comes from, what a model is evaluated on."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from lego_rl.commands.kept_apart import keep_apart
from lego_rl.commands.live_line import counting
from lego_rl.commands.screen import Screen
from lego_rl.errors import TaskError
from lego_rl.plain_text import plain_line
from lego_rl.tasks.decontaminate.reference import read_reference
from lego_rl.tasks.decontaminate.report import Decontaminated, decontaminate, rules_named
from lego_rl.tasks.decontaminate.rule import RuleName
from lego_rl.tasks.index.file import Index, write_table

TEXTS = (RuleName.ISSUE_TEXT, RuleName.PATCH)
"""Rules that compare what a list of names does not have."""


def run(path: Path, against: str, relax: Sequence[str], out: Path | None, report: Path | None, *, check: bool) -> None:
    """Compare an index with a reference and print every hit.

    Args:
        path: The index.
        against: A file of ids or rows, an index, or the name of a reference that is shipped.
        relax: Rules whose hits stay in.
        out: Where the index of what is clean is written.
        report: Where the hits are written, as Parquet.
        check: Whether it is an error that something is left.

    Raises:
        LegoError: The index or the reference cannot be read, or would be written over; a rule has another name; or,
            where `check`, a task is hit by a rule that is not relaxed, or no row of the reference names a repository.
    """
    relaxed = rules_named(relax)
    keep_apart([path, Path(against)], {"--out": out, "--report": report})
    index, reference = Index.read(path), read_reference(against)
    with counting("comparing") as progress:
        found = decontaminate(index, reference, relaxed, progress)
    screen = Screen()
    _print(found, screen)
    if report is not None:
        write_table(found.table(), report)
    contaminated = int(found.contaminated.sum())
    screen.print(f"{contaminated} of {len(index)} tasks are contaminated")
    if out is not None:
        clean = index.take(~found.contaminated)
        clean.write(out)
        screen.print(f"{len(clean)} tasks in {out}")
    if not any(rule.reference for rule in found.rules if rule.rule in TEXTS):
        screen.print(f"issue texts and patches were not compared: {against} has none", soft_wrap=True)
    if found.unseen:
        screen.print(
            f"{found.unseen} of {len(index)} task directories are not there: of those, the index was taken at its word",
            soft_wrap=True,
        )
    names = next(rule for rule in found.rules if rule.rule is RuleName.REPOSITORY)
    if check and not names.reference and not names.relaxed:
        raise TaskError(
            f"no row of {against} names a repository, so that a task of one of its repositories cannot be told",
            "give rows with repo or an id that names it, or say that you know: --relax repository",
        )
    if check and contaminated:
        raise TaskError(
            f"{path} has {contaminated} tasks that are, or may be, of {against}",
            f"leave them out: lego-rl tasks decontaminate {path} --against {against} --out CLEAN",
        )


def _print(found: Decontaminated, screen: Screen) -> None:
    ids = found.index.ids
    for hit in found.hits:
        mark = " (relaxed)" if hit.rule in found.relaxed else ""
        screen.print(f"{plain_line(ids[hit.task])}: {hit.rule}{mark}: {plain_line(hit.reason)}", soft_wrap=True)
    table = Table("rule", "tasks hit", "not comparable", "reference", box=None, pad_edge=False)
    for rule in found.rules:
        lacking = f"{rule.not_comparable} without {rule.needs}" if rule.not_comparable else ""
        with_it = str(rule.reference) if rule.reference else "nothing to compare with"
        if 0 < rule.reference < found.compared_with:
            with_it = f"{rule.reference} of {found.compared_with}"
        table.add_row(f"{rule.rule}{' (relaxed)' if rule.relaxed else ''}", str(rule.tasks), lacking, with_it)
    screen.print(table)
