"""Whether a trial that earned its reward is one to learn from, by what its policy did.

Invariant: a rule is a bound of one figure of the trial (`analysis.figures`), so whatever is left out can be looked up
in the figures. What can be told without its conversations, `rollout.selection` tells first.
"""

import json
from pathlib import Path

from pydantic import Field

from lego_rl.analysis.document import read_document
from lego_rl.analysis.figures import TrialFigures, figures_of
from lego_rl.analysis.tables import tool_table
from lego_rl.analysis.view import View, view_of
from lego_rl.evaluate.trials import EvaluatedTrial
from lego_rl.gateway.atif import to_atif
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.selection import Judge, SelectionSettings


class QualitySettings(SelectionSettings):
    """What a trial has to be, its conversations included. `well_formed` asks, too, that every call named a tool that
    was offered and gave it what it must be given."""

    max_repeats: int = Field(default=2, ge=1)
    """Most times that one call is made in a row."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens that the policy sampled."""
    min_test_runs: int | None = Field(default=None, ge=1)
    """Fewest times that tests were run."""
    max_test_edits: int | None = Field(default=None, ge=0)
    """Most test files, and files that say how tests are run, that were edited; 0 where new tests are not wanted."""
    min_inspected: int | None = Field(default=None, ge=1)
    """Fewest different files that were read before the first edit."""


def judge_by(settings: QualitySettings) -> Judge:
    """Who names the first rule that a trial breaks."""

    def judge(record: TrialRecord) -> str | None:
        figures = figures_of_record(record)
        return next((name for name, broken in _rules(figures, settings) if broken), None)

    return judge


def _rules(figures: TrialFigures, settings: QualitySettings) -> list[tuple[str, bool]]:
    """Every rule, and whether it is broken."""
    return [
        ("malformed", settings.well_formed and figures.malformed > 0),
        ("loops", _above(figures.longest_repeat, settings.max_repeats)),
        ("too_many_tokens", _above(figures.trial.sampled, settings.max_tokens)),
        ("tests_not_run", _below(figures.test_runs, settings.min_test_runs)),
        ("edits_tests", _above(figures.test_edits, settings.max_test_edits)),
        ("too_little_read", _below(figures.inspected, settings.min_inspected)),
    ]


def _above(figure: int, most: int | None) -> bool:
    return most is not None and figure > most


def _below(figure: int, fewest: int | None) -> bool:
    return fewest is not None and figure < fewest


def figures_of_record(record: TrialRecord) -> TrialFigures:
    """The figures of a trial that has been read whole; see `analysis.read` for those that need not be.

    Raises:
        ConfigError: Its harness is unknown.
    """
    spec, accounting = record.spec, record.accounting
    trial = EvaluatedTrial(
        id=spec.id,
        label=spec.label,
        task=spec.task.name,
        group=spec.family,
        attempt=spec.attempt,
        reward=record.outcome.counted_reward,
        ended=record.outcome.ended,
        detail=record.outcome.detail,
        turns=accounting.calls,
        sampled=accounting.sampled_tokens,
        seconds=record.seconds.total,
    )
    patched = [change.path for change in record.patch.changes] if record.patch is not None else []
    return figures_of(trial, _view(record), accounting.tool_parse_faults, patched)


def _view(record: TrialRecord) -> View:
    captured, harness = record.trajectory or record.transcript, record.spec.harness.name
    if captured is None:
        return View("", (), 0, 0)
    document = to_atif(captured, harness=harness, version=record.harness_version, session_id=record.spec.id)
    return view_of(read_document(Path(record.spec.id), json.dumps(document.to_json_dict())), tool_table(harness))
