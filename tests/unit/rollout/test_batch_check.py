"""What stops a run: faults that nobody can explain, and an infrastructure that takes everything."""

import pytest

from lego_rl.errors import RunError
from lego_rl.rollout.batch_check import check_batch
from lego_rl.rollout.faults import Ended


def batch(**counts: int) -> list[tuple[Ended, str]]:
    return [(Ended(name), f"because of {name}") for name, count in counts.items() for _ in range(count)]


def test_a_batch_may_have_one_in_twenty_unattributed() -> None:
    check_batch(batch(finished=19, unattributed_after=1))


def test_more_than_one_in_twenty_unattributed_stops_the_run() -> None:
    with pytest.raises(RunError, match=r"2 of 32 trials .* because of unattributed_after"):
        check_batch(batch(finished=30, unattributed_after=2))


def test_unattributed_counts_before_and_after_together() -> None:
    with pytest.raises(RunError, match="2 of 32"):
        check_batch(batch(finished=30, unattributed_after=1, unattributed_before=1))


def test_a_batch_that_infrastructure_took_whole_stops_the_run_and_names_the_commonest_reason() -> None:
    with pytest.raises(RunError, match="all 5 trials: because of sandbox_start"):
        check_batch(batch(engine_failed=2, sandbox_start=3))


def test_infrastructure_faults_with_anything_measured_do_not_stop_the_run() -> None:
    check_batch(batch(engine_failed=31, finished=1))
    check_batch([])
