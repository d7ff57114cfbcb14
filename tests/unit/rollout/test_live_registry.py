"""The registry of live objects: a key works for exactly as long as its trial."""

import pytest

from lego_rl.rollout.live_registry import published, reach


def test_a_key_reaches_its_object_until_the_trial_ends() -> None:
    trial = ["a", "trial"]
    with published(trial) as key:
        assert reach(key, list) is trial
    with pytest.raises(LookupError):
        reach(key, list)


def test_a_key_that_was_never_given_out_or_is_for_another_kind_is_refused() -> None:
    with published("text") as key:
        with pytest.raises(LookupError):
            reach("guess", str)
        with pytest.raises(LookupError):
            reach(key, list)


def test_a_trial_that_fails_takes_its_key_with_it() -> None:
    keys: list[str] = []

    def fail() -> None:
        with published(1) as key:
            keys.append(key)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(LookupError):
        reach(keys[0], int)


def test_keys_are_long_and_never_repeat() -> None:
    with published(1) as one, published(1) as two:
        assert one != two
        assert len(one) >= 32
