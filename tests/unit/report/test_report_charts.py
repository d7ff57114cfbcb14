"""Charts: what is drawn is where it should be, and what is missing is not drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.report.charts import (
    BOTTOM,
    HEIGHT,
    TOP,
    Linear,
    Logarithmic,
    Series,
    Steps,
    line_chart,
    stacked_bars,
)

values = st.lists(st.one_of(st.none(), st.floats(1e-12, 1e12)), min_size=1, max_size=30)


@given(values)
def test_a_linear_scale_holds_its_values_in_order(given_values: list[float | None]) -> None:
    scale = Linear.over(Series("s", given_values, 0))
    present = sorted(value for value in given_values if value is not None)
    heights = [scale.at(value) for value in present]
    assert all(height is not None and TOP <= height <= HEIGHT - BOTTOM for height in heights)
    assert heights == sorted(heights, key=lambda height: -(height or 0.0))
    assert all(TOP - 0.1 <= tick.at <= HEIGHT - BOTTOM + 0.1 for tick in scale.ticks())
    assert 3 <= len(scale.ticks()) <= 6


@given(values)
def test_a_logarithmic_scale_holds_its_values_and_the_limit(given_values: list[float | None]) -> None:
    scale = Logarithmic.over(Series("s", given_values, 0), also=1e-3)
    for value in (1e-3, *(value for value in given_values if value is not None)):
        height = scale.at(value)
        assert height is not None
        assert TOP - 0.1 <= height <= HEIGHT - BOTTOM + 0.1
    assert 2 <= len(scale.ticks()) <= 7


def test_zero_has_no_place_on_a_logarithmic_scale() -> None:
    chart = line_chart("t", "n", [Series("s", [1e-3, 0.0, 1e-4], 0)], Logarithmic(-5, 0))
    assert len(chart.lines[0].points) == 2
    assert chart.lines[0].pieces == ()


def test_a_missing_value_breaks_the_line() -> None:
    chart = line_chart("t", "n", [Series("s", [1.0, 2.0, None, 3.0, 4.0, 5.0], 0)], Linear(0, 5))
    assert [len(piece.split()) for piece in chart.lines[0].pieces] == [2, 3]
    assert [point.title for point in chart.lines[0].points][2] == "step 4: s 3"


def test_steps_are_numbered_from_one_with_the_start_before_them() -> None:
    steps = Steps(12)
    assert [tick.label for tick in steps.ticks()] == ["0", "2", "4", "6", "8", "10", "12"]
    assert steps.at(0) < steps.at(1) < steps.at(12)


def test_stacked_bars_add_up() -> None:
    chart = stacked_bars("t", "n", [Series("a", [1.0, 2.0], 0), Series("b", [3.0, None], 1)])
    first, second = [bar for bar in chart.bars if bar.x == chart.bars[0].x]
    assert second.y + second.height == pytest.approx(first.y, abs=0.2)
    assert second.height == pytest.approx(3 * first.height, rel=0.02)
    assert len(chart.bars) == 4


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_that_has_hardly_begun_can_be_drawn(count: int) -> None:
    series = [Series("s", [0.0] * count, 0)]
    assert line_chart("t", "n", series, Linear.over(*series)).x_ticks
    assert stacked_bars("t", "n", series).x_ticks
