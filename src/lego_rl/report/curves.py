"""Which curves a page shows, from the metrics of a run."""

from collections.abc import Sequence

from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import wilson
from lego_rl.report.charts import Chart, ErrorBar, Linear, Logarithmic, Series, line_chart, stacked_bars
from lego_rl.report.summary import Summary
from lego_rl.rollout.metrics_file import Row

_BLUE, _ORANGE, _GREEN, _PINK, _GREY = range(5)


def charts(rows: Sequence[Row], summary: Summary, pearson_gate: float | None) -> list[Chart]:
    """The charts of a run, in the order of the page.

    Args:
        rows: Metrics of the finished steps.
        summary: What the run came to.
        pearson_gate: Correlation of log-probs below which the run's fidelity gate stops it, where that is known.
    """
    return [
        _reward(rows, summary),
        _agreement(rows, pearson_gate),
        _difference(rows),
        _drift(rows),
        _entropy(rows),
        _clipping(rows),
        _capture(rows),
        _trial_seconds(rows),
        _step_seconds(rows),
    ]


def _series(rows: Sequence[Row], figure: str, name: str, colour: int) -> Series:
    values = [row.get(figure) for row in rows]
    return Series(name, [float(value) if isinstance(value, int | float) else None for value in values], colour)


def _reward(rows: Sequence[Row], summary: Summary) -> Chart:
    bars = [
        *_error_bar("held-out before", summary.heldout_before, 0, _GREY),
        *_error_bar("held-out after", summary.heldout_after, max(1, len(rows)), _GREEN),
    ]
    return line_chart(
        "Solve rate",
        "Training trials of each step; held-out trials with 95 % Wilson intervals, for these tasks.",
        [_series(rows, "rollout/solve_rate", "training trials", _BLUE)],
        Linear(0.0, 1.0),
        error_bars=bars,
    )


def _error_bar(name: str, score: Score, step: float, colour: int) -> list[ErrorBar]:
    if score.rate is None:
        return []
    interval = wilson(score)
    return [ErrorBar(name, step, score.rate, interval.low, interval.high, colour)]


def _agreement(rows: Sequence[Row], gate: float | None) -> Chart:
    logprobs = _series(rows, "fidelity/pearson_logprobs", "log-probs", _BLUE)
    probs = _series(rows, "fidelity/pearson_probs", "probabilities", _ORANGE)
    series = [
        Series(each.name, [None if v is None else 1 - v for v in each.values], each.colour)
        for each in (logprobs, probs)
    ]
    return line_chart(
        "Engine against trainer: 1 − Pearson",
        "Of the sampled tokens' log-probs and probabilities; lower is better. A perfect 0 leaves a gap.",
        series,
        Logarithmic.over(*series, also=1e-3 if gate is None else 1 - gate),
        rule=None if gate is None else (1 - gate, f"gate {gate}"),
    )


def _difference(rows: Sequence[Row]) -> Chart:
    series = [
        _series(rows, "fidelity/mean_abs", "mean |Δ log-prob|", _BLUE),
        _series(rows, "fidelity/max_abs", "largest", _GREY),
        _series(rows, "fidelity/k3", "k3 estimate of KL", _ORANGE),
    ]
    scale = Logarithmic.over(*series, also=1e-6)
    return line_chart("Engine against trainer: differences", "In nats, over the sampled tokens.", series, scale)


def _drift(rows: Sequence[Row]) -> Chart:
    series = [_series(rows, "loss/kl", "KL to the reference", _BLUE)]
    note = "Low-variance estimate, mean over trained tokens, in nats."
    return line_chart("Distance from the start", note, series, Linear.over(*series, least=1e-4))


def _entropy(rows: Sequence[Row]) -> Chart:
    series = [_series(rows, "loss/entropy", "entropy", _BLUE)]
    note = "Of the distribution sampled from, mean over trained tokens, in nats."
    return line_chart("Entropy", note, series, Linear.over(*series, least=1e-3))


def _clipping(rows: Sequence[Row]) -> Chart:
    series = [
        _series(rows, "loss/clip_fraction_low", "clipped below", _BLUE),
        _series(rows, "loss/clip_fraction_high", "clipped above", _ORANGE),
    ]
    note = "Share of segments whose sequence ratio is outside the clip."
    return line_chart("Clipping", note, series, Linear.over(*series, least=0.01))


def _capture(rows: Sequence[Row]) -> Chart:
    series = [
        _series(rows, "rollout/delivered_fraction", "delivered", _BLUE),
        _series(rows, "fidelity/route_coverage", "routes replayed", _GREEN),
    ]
    note = "Trainable ÷ sampled tokens, and recorded ÷ needed rows of expert routes."
    return line_chart("Capture", note, series, Linear(0.0, 1.05))


def _trial_seconds(rows: Sequence[Row]) -> Chart:
    phases = (("setup", "set-up", _GREY), ("harness", "harness", _BLUE), ("engine", "engine", _ORANGE))
    series = [_series(rows, f"seconds/{key}", name, colour) for key, name, colour in phases]
    series.append(_series(rows, "seconds/grading", "grading", _GREEN))
    return stacked_bars("Seconds of a trial", "Mean over the step's trials, which run side by side.", series)


def _step_seconds(rows: Sequence[Row]) -> Chart:
    series = [
        _series(rows, "seconds/rollout", "rollouts", _BLUE),
        _series(rows, "seconds/training", "training", _PINK),
    ]
    return stacked_bars("Seconds of a step", "Wall-clock time.", series)
