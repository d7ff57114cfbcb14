"""What a digest proves: tensors that were only handed over are no proof of those that an engine computes with."""

import pytest

from lego_rl.train.fidelity import DigestCovers, EngineClaim


@pytest.mark.parametrize(("covers", "verified"), [("in_use", True), ("handed_over", False)])
def test_agreeing_digests_verify_only_what_they_cover(covers: DigestCovers, verified: bool) -> None:
    claim = EngineClaim(1, "a", covers, "a")
    assert claim.weights_verified is verified
    assert not claim.contradicted


@pytest.mark.parametrize("covers", ["in_use", "handed_over"])
def test_different_digests_contradict_whatever_they_cover(covers: DigestCovers) -> None:
    claim = EngineClaim(1, "a", covers, "b")
    assert claim.contradicted
    assert not claim.weights_verified


def test_an_engine_that_cannot_tell_is_neither_verified_nor_contradicted() -> None:
    claim = EngineClaim(1)
    assert not claim.weights_verified
    assert not claim.contradicted
