"""Writes ``report.json``, ``report.md`` and ``report.html`` of an evaluation, each at once or not at all."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from lego_rl.durable import write_text
from lego_rl.evaluate.results import Cell, CellResult, Evaluation, result_of
from lego_rl.report.evaluation.tables import tables_of, without_excluded

_FORMAT = 1
_WIDTH, _LEFT, _ROW = 640, 260, 26


def write_evaluation(evaluation: Evaluation, folder: Path) -> tuple[Path, Path, Path]:
    """Write the three files into a folder; their paths.

    Raises:
        OSError: The disk does not take them.
    """
    texts = {
        "report.json": json.dumps(as_plain(evaluation), indent=1) + "\n",
        "report.md": markdown(evaluation),
        "report.html": page(evaluation),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    written = [folder / name for name in texts]
    return written[0], written[1], written[2]


def as_plain(evaluation: Evaluation) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "format": _FORMAT,
        "name": evaluation.name,
        "protocol": dict(evaluation.protocol),
        "attempts": evaluation.attempts,
        "cells": [_cell(cell, result_of(cell, evaluation.ks)) for cell in evaluation.cells],
        "cells_without_excluded": [
            _cell(cell, result_of(cell, evaluation.ks))
            for cell in (without_excluded(evaluation) if evaluation.excluded else ())
        ],
        "excluded": dict(evaluation.excluded),
        "unvalidated": evaluation.unvalidated,
        "regraded": {name: asdict(found) for name, found in evaluation.regraded.items()},
    }


def _cell(cell: Cell, result: CellResult) -> dict[str, Any]:
    named = {"model": cell.model, "harness": cell.harness, "pass@1": result.score.rate, "coverage": result.coverage}
    return named | asdict(result)


def markdown(evaluation: Evaluation) -> str:
    """The report as Markdown."""
    parts = [f"# {evaluation.name}\n\n{_subtitle(evaluation)}\n"]
    for table in tables_of(evaluation):
        head = " | ".join(_escaped(name) or " " for name in table.columns)
        rule = " | ".join(["---", *["---:"] * (len(table.columns) - 1)])
        rows = "\n".join(f"| {' | '.join(map(_escaped, row))} |" for row in table.rows)
        parts.append(f"## {table.title}\n\n{table.note}\n\n| {head} |\n| {rule} |\n{rows}\n")
    return "\n".join(parts)


def page(evaluation: Evaluation) -> str:
    """The report as one self-contained page."""
    environment = Environment(
        loader=PackageLoader("lego_rl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("evaluation.html.jinja").render(
        title=evaluation.name,
        subtitle=_subtitle(evaluation),
        whiskers=_whiskers(evaluation),
        ticks=[(_x(n / 5), f"{n / 5:.1f}") for n in range(6)],
        width=_WIDTH,
        height=_ROW * len(evaluation.cells) + 34,
        tables=tables_of(evaluation),
    )


@dataclass(frozen=True)
class _Whisker:
    """A cell's rate and interval, as places on the page."""

    name: str
    title: str
    y: int
    low: float
    high: float
    at: float | None


def _whiskers(evaluation: Evaluation) -> Sequence[_Whisker]:
    found = []
    for number, cell in enumerate(evaluation.cells):
        result = result_of(cell, (1,))
        rate = result.score.rate
        title = f"{cell.name}: " + ("no score" if rate is None else f"{rate:.3f}")
        low, high = _x(result.interval.low), _x(result.interval.high)
        found.append(_Whisker(cell.name, title, _ROW * number + 16, low, high, None if rate is None else _x(rate)))
    return found


def _x(share: float) -> float:
    return round(_LEFT + share * (_WIDTH - _LEFT - 20), 1)


def _subtitle(evaluation: Evaluation) -> str:
    said = [f"{key} {value}" for key, value in evaluation.protocol.items()]
    said.append(f"{evaluation.attempts} attempts a task")
    if evaluation.unvalidated:
        said.append(f"{evaluation.unvalidated} tasks whose own solution nobody has tried here")
    return " · ".join(said)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
