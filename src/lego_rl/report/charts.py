"""Charts as geometry: what the page's template draws as inline SVG. Every coordinate is in the chart's own pixels.

Invariant: a value that is missing or that a scale cannot show (0 on a logarithmic one) leaves a gap, never a point.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

WIDTH, HEIGHT = 460, 220
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 14, 36
"""Margins around the plotting area."""

type Values = Sequence[float | None]


@dataclass(frozen=True)
class Series:
    """One line: a name for the legend and a value for each step; `colour` is an index into the page's palette."""

    name: str
    values: Values
    colour: int


@dataclass(frozen=True)
class ErrorBar:
    """A measured rate with its interval, drawn at a step."""

    name: str
    step: float
    value: float
    low: float
    high: float
    colour: int


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: position along it and label."""

    at: float
    label: str


@dataclass(frozen=True)
class Point:
    """A value in its place, with the text that a pointer over it shows."""

    x: float
    y: float
    title: str


@dataclass(frozen=True)
class Line:
    """A series as drawn: unbroken pieces of a polyline (``points`` attributes) and its single points."""

    name: str
    colour: int
    pieces: tuple[str, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Whisker:
    """An error bar as drawn."""

    name: str
    colour: int
    point: Point
    top: float
    bottom: float


@dataclass(frozen=True)
class Bar:
    """One rectangle of a stacked bar."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    title: str


@dataclass(frozen=True)
class Chart:
    """A chart as drawn. A dashed `rule` marks a limit."""

    title: str
    note: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    legend: tuple[tuple[str, int], ...]
    lines: tuple[Line, ...] = ()
    whiskers: tuple[Whisker, ...] = ()
    bars: tuple[Bar, ...] = ()
    rule: Tick | None = None

    width = WIDTH
    height = HEIGHT
    left = LEFT
    right = WIDTH - RIGHT
    bottom = HEIGHT - BOTTOM


class Scale(Protocol):
    """Maps values to heights on the page."""

    def at(self, value: float) -> float | None:
        """Vertical position; ``None`` where the scale cannot show the value."""
        ...

    def ticks(self) -> tuple[Tick, ...]:
        """Marks at round values."""
        ...


@dataclass(frozen=True)
class Linear:
    """From `low` to `high`, evenly."""

    low: float
    high: float

    @classmethod
    def over(cls, *series: Series, least: float = 0.0) -> "Linear":
        """From 0 to the largest value, or to `least` where that is more."""
        values = [value for each in series for value in each.values if value is not None]
        return cls(0.0, max([least, *values]) * 1.05 or 1.0)

    def at(self, value: float) -> float | None:
        """See `Scale.at`."""
        return round(HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * (HEIGHT - BOTTOM - TOP), 1)

    def ticks(self) -> tuple[Tick, ...]:
        """See `Scale.ticks`."""
        step = _round_step((self.high - self.low) / 5)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return tuple(Tick(self.at(n * step) or 0.0, f"{n * step:.6g}") for n in range(first, last + 1))


@dataclass(frozen=True)
class Logarithmic:
    """Powers of ten from ``10**low`` to ``10**high``."""

    low: int
    high: int

    @classmethod
    def over(cls, *series: Series, also: float) -> "Logarithmic":
        """As many powers of ten as hold every positive value, and `also`."""
        values = [value for each in series for value in each.values if value is not None and value > 0]
        logs = [math.log10(value) for value in (*values, also)]
        low, high = math.floor(min(logs)), math.ceil(max(logs))
        return cls(low, max(high, low + 1))

    def at(self, value: float) -> float | None:
        """See `Scale.at`."""
        if value <= 0:
            return None
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)

    def ticks(self) -> tuple[Tick, ...]:
        """See `Scale.ticks`."""
        every = max(1, math.ceil((self.high - self.low) / 5))
        return tuple(Tick(self.at(10.0**n) or 0.0, f"1e{n}") for n in range(self.low, self.high + 1, every))


@dataclass(frozen=True)
class Steps:
    """The horizontal axis: steps from 1 to `count`, with room for what was measured before the first."""

    count: int

    def at(self, step: float) -> float:
        """Horizontal position."""
        return round(LEFT + step / max(1, self.count) * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self) -> tuple[Tick, ...]:
        """Marks at whole steps."""
        every = max(1, int(_round_step(self.count / 6)))
        return tuple(Tick(self.at(step), str(step)) for step in range(0, self.count + 1, every))


def line_chart(
    title: str,
    note: str,
    series: Sequence[Series],
    scale: Scale,
    *,
    error_bars: Sequence[ErrorBar] = (),
    rule: tuple[float, str] | None = None,
) -> Chart:
    """Lines over the steps of a run; value ``i`` of a series is of step ``i + 1``."""
    steps = Steps(max([1, *(len(each.values) for each in series)]))
    height = scale.at(rule[0]) if rule else None
    return Chart(
        title=title,
        note=note,
        x_ticks=steps.ticks(),
        y_ticks=scale.ticks(),
        legend=(
            *((each.name, each.colour) for each in series),
            *((each.name, each.colour) for each in error_bars),
        ),
        lines=tuple(_line(each, steps, scale) for each in series),
        whiskers=tuple(_whisker(each, steps, scale) for each in error_bars),
        rule=Tick(height, rule[1]) if rule and height is not None else None,
    )


def stacked_bars(title: str, note: str, series: Sequence[Series]) -> Chart:
    """One bar a step, cut into the parts that the series name, the first at the bottom."""
    parts = [[value or 0.0 for value in values] for values in zip(*(each.values for each in series), strict=True)]
    scale = Linear(0.0, max(map(sum, parts), default=0.0) * 1.05 or 1.0)
    count = max(1, len(parts))
    steps = Steps(count)
    width = round(min(28.0, 0.7 * (steps.at(1) - steps.at(0))), 1)
    bars: list[Bar] = []
    for step, values in enumerate(parts):
        below = 0.0
        for each, value in zip(series, values, strict=True):
            top, bottom = scale.at(below + value) or 0.0, scale.at(below) or 0.0
            left = round(steps.at(step + 0.5) - width / 2, 1)
            text = f"step {step + 1}: {each.name} {value:.1f} s"
            bars.append(Bar(left, top, width, round(bottom - top, 1), each.colour, text))
            below += value
    ticks = tuple(Tick(steps.at(tick - 0.5), str(tick)) for tick in range(1, count + 1, max(1, round(count / 8))))
    return Chart(
        title=title,
        note=note,
        x_ticks=ticks,
        y_ticks=scale.ticks(),
        legend=tuple((each.name, each.colour) for each in series),
        bars=tuple(bars),
    )


def _line(series: Series, steps: Steps, scale: Scale) -> Line:
    pieces: list[list[Point]] = [[]]
    for index, value in enumerate(series.values):
        height = None if value is None else scale.at(value)
        if height is None:
            pieces.append([])
        else:
            pieces[-1].append(Point(steps.at(index + 1), height, f"step {index + 1}: {series.name} {value:.6g}"))
    return Line(
        name=series.name,
        colour=series.colour,
        pieces=tuple(" ".join(f"{point.x},{point.y}" for point in piece) for piece in pieces if len(piece) > 1),
        points=tuple(point for piece in pieces for point in piece),
    )


def _whisker(bar: ErrorBar, steps: Steps, scale: Scale) -> Whisker:
    title = f"{bar.name}: {bar.value:.3f} [{bar.low:.3f}, {bar.high:.3f}]"
    point = Point(steps.at(bar.step), scale.at(bar.value) or 0.0, title)
    return Whisker(bar.name, bar.colour, point, top=scale.at(bar.high) or 0.0, bottom=scale.at(bar.low) or 0.0)


def _round_step(rough: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
