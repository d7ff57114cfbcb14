"""The tables of behaviour as text: the same ones in the terminal, in Markdown and on the page."""

from collections.abc import Sequence

from lego_rl.analysis.behaviour import Behaviour, Line, Side
from lego_rl.analysis.estimates import Estimate
from lego_rl.analysis.measures import Unit
from lego_rl.evaluate.intervals import Interval
from lego_rl.plain_text import plain_line
from lego_rl.report.evaluation.tables import NOTHING, TextTable


def behaviour_table(found: Behaviour) -> TextTable:
    """A table of behaviour."""
    names = tuple(plain_line(side.name) for side in found.sides)
    columns = ("measure", *(column for name in names for column in (name, "n")))
    further = ("difference",) if len(names) == 2 else ()
    rows = tuple(_row(line, bool(further)) for line in found.lines)
    return TextTable(f"behaviour: {' and '.join(names)}", _note(found), (*columns, *further), rows)


def definitions(found: Behaviour) -> list[str]:
    """What each measure is, in a line."""
    return [f"{line.measure.name}: {line.measure.numerator} ÷ {line.measure.denominator}" for line in found.lines]


def markdown(tables: Sequence[Behaviour]) -> str:
    """All tables, and what the measures are."""
    parts: list[str] = []
    for each in tables:
        table = behaviour_table(each)
        rows = [table.columns, tuple("---" for _ in table.columns), *table.rows]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        parts += [f"## {table.title}", table.note, "\n".join(lines)]
    if tables:
        parts += ["## what is measured", "\n".join(f"* {line}" for line in definitions(tables[0]))]
    return "\n\n".join(parts) + "\n"


def _row(line: Line, compared: bool) -> tuple[str, ...]:
    cells = [cell for value in line.values for cell in (_value(value, line.measure.unit), _count(value))]
    return (line.measure.name, *cells, *([_difference(line)] if compared else []))


def _value(value: Estimate, unit: Unit) -> str:
    if value.value is None:
        return NOTHING
    return f"{_number(value.value, unit)}{_interval(value.interval, unit)}"


def _count(value: Estimate) -> str:
    return f"{value.numerator:g}/{value.denominator:g}" if value.denominator else NOTHING


def _difference(line: Line) -> str:
    found, unit = line.difference, line.measure.unit
    if found is None:
        return NOTHING
    mark = " *" if found.distinguishable else ""
    return f"{_number(found.value, unit, '+')}{_interval(found.interval, unit, '+')}{mark}"


def _interval(interval: Interval | None, unit: Unit, sign: str = "") -> str:
    if interval is None:
        return ""
    return f" [{_number(interval.low, unit, sign)}, {_number(interval.high, unit, sign)}]"


def _number(value: float, unit: Unit, sign: str = "") -> str:
    return f"{value:{sign}.2f}" if unit is Unit.MEAN else f"{value:{sign}.3f}"


def _note(found: Behaviour) -> str:
    parts = [f"{plain_line(side.name)}: {_left(side)}" for side in found.sides]
    if len(found.sides) == 2:
        same = (
            "the same attempts at the same tasks" if found.cohort else "not the same tasks: differences may be theirs"
        )
        parts.append(f"{same}; * where 0 is outside the 95 % interval of the difference")
    return ". ".join(parts) + "."


def _left(side: Side) -> str:
    parts = [f"{side.trials} trials of {side.tasks} tasks"]
    parts += [f"{side.masked} that count for nothing are left out"] if side.masked else []
    parts += [f"{side.outside} without a counterpart are left out"] if side.outside else []
    return ", ".join(parts)
