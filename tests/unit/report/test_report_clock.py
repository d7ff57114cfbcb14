"""Time at work: overlapping trials count once, pauses and the gap after a kill do not count."""

from lego_rl.report.clock import active_seconds
from lego_rl.rollout.journal import Entry

A, B, OTHER = "train.step-0000--a--000--1", "train.step-0000--b--000--2", "heldout.before--a--000--3"


def journal(*events: tuple[float, str, str]) -> list[Entry]:
    return [Entry(number, at, kind, {"id": trial}) for number, (at, kind, trial) in enumerate(events)]


def test_overlapping_trials_count_once() -> None:
    entries = journal(
        (0, "trial-started", A), (1, "trial-started", B), (5, "trial-scored", A), (9, "trial-scored", B)
    )  # fmt: skip
    assert active_seconds(entries, "train/") == 9


def test_time_between_trials_does_not_count() -> None:
    entries = journal(
        (0, "trial-started", A), (3, "trial-scored", A), (103, "trial-started", B), (104, "trial-scored", B)
    )
    assert active_seconds(entries, "train/") == 4


def test_a_cancelled_trial_ends_the_time_until_it_is_started_again() -> None:
    entries = journal(
        (0, "trial-started", A), (3, "trial-cancelled", A), (1_000, "trial-started", A), (1_002, "trial-scored", A)
    )
    assert active_seconds(entries, "train/") == 5


def test_the_gap_after_a_kill_does_not_count() -> None:
    entries = journal(
        (0, "trial-started", A),
        (4, "trial-started", B),
        (1_000, "trial-started", A),
        (1_001, "trial-started", B),
        (1_003, "trial-scored", A),
        (1_006, "trial-faulted", B),
    )
    assert active_seconds(entries, "train/") == 4 + 6


def test_labels_are_kept_apart() -> None:
    entries = journal(
        (0, "trial-started", OTHER), (2, "trial-scored", OTHER), (2, "trial-started", A), (9, "trial-scored", A)
    )
    assert active_seconds(entries, "heldout/before") == 2
    assert active_seconds(entries, "train/") == 7
    assert active_seconds(entries, "heldout/after") == 0
