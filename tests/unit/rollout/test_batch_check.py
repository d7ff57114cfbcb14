"""What stops a run: faults that nobody can explain, and an infrastructure that takes everything."""

import pytest

from lego_rl.errors import RunError
from lego_rl.rollout.batch_check import check_batch, too_many_unattributed
from lego_rl.rollout.faults import Ended


def batch(**counts: int) -> list[tuple[Ended, str]]:
    return [(Ended(name), f"because of {name}") for name, count in counts.items() for _ in range(count)]


@pytest.mark.parametrize("trials", [1, 2, 8, 19, 20, 21, 32, 39, 40, 41, 60, 64, 140, 512, 580, 1000])
def test_one_in_twenty_may_be_unattributed_and_one_more_stops_the_run(trials: int) -> None:
    most = trials // 20  # none of fewer than twenty
    check_batch(batch(finished=trials - most, unattributed_after=most))
    with pytest.raises(RunError, match=rf"{most + 1} of {trials} trials .* because of unattributed_after"):
        check_batch(batch(finished=trials - most - 1, unattributed_after=most + 1))


def test_the_border_is_exact_for_every_size() -> None:
    for trials in range(1, 20_000):
        assert not too_many_unattributed(trials // 20, trials), trials
        assert too_many_unattributed(trials // 20 + 1, trials), trials


def test_what_counts_for_nothing_is_part_of_the_step_too() -> None:
    check_batch(batch(engine_failed=19, unattributed_before=1))
    with pytest.raises(RunError, match="1 of 19"):
        check_batch(batch(engine_failed=18, unattributed_before=1))


def test_unattributed_counts_before_and_after_together() -> None:
    with pytest.raises(RunError, match="2 of 32"):
        check_batch(batch(finished=30, unattributed_after=1, unattributed_before=1))


def test_a_batch_that_infrastructure_took_whole_stops_the_run_and_names_the_commonest_reason() -> None:
    with pytest.raises(RunError, match="all 5 trials: because of sandbox_start"):
        check_batch(batch(engine_failed=2, sandbox_start=3))


def test_infrastructure_faults_with_anything_measured_do_not_stop_the_run() -> None:
    check_batch(batch(engine_failed=31, finished=1))
    check_batch([])
