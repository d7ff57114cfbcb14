"""The auditor passes what the engine returned, bit for bit, and nothing else; its books survive a crash."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lego_rl.engine.audit import AuditedEngine, reconcile
from lego_rl.engine.audit_log import AuditLog, FileAuditLog, MemoryAuditLog
from lego_rl.engine.protocol import Sample, Sampling, WeightSpan
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.errors import RunError


@dataclass(frozen=True)
class Batch:
    call_ids: tuple[str, ...]
    positions: NDArray[np.int64]
    token_ids: NDArray[np.int64]
    logprobs: NDArray[np.float32]

    @classmethod
    def of(cls, *samples: Sample) -> "Batch":
        return cls(
            tuple(sample.call_id for sample in samples for _ in sample.token_ids),
            np.concatenate([np.arange(len(sample.token_ids)) for sample in samples]),
            np.concatenate([np.array(sample.token_ids) for sample in samples]),
            np.concatenate([sample.logprobs for sample in samples]),
        )

    def picked(self, rows: list[int]) -> "Batch":
        return Batch(
            tuple(self.call_ids[row] for row in rows), self.positions[rows], self.token_ids[rows], self.logprobs[rows]
        )


def sample(call_id: str, count: int, *versions: int) -> Sample:
    generator = np.random.default_rng(len(call_id) + count)
    return Sample(
        call_id=call_id,
        prompt_ids=(1,),
        token_ids=tuple(generator.integers(0, 100, count).tolist()),
        logprobs=-generator.random(count).astype(np.float32),
        finish_reason="length",
        weight_versions=tuple(WeightSpan(version, at, at + 1) for at, version in enumerate(versions))
        or (WeightSpan(0, 0, count),),
    )


@pytest.fixture(params=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AuditLog]:
    if request.param == "memory":
        yield MemoryAuditLog()
    else:
        with FileAuditLog(tmp_path / "audit.bin") as made:
            yield made


@contextmanager
def book(*samples: Sample) -> Iterator[AuditLog]:
    made = MemoryAuditLog()
    for one in samples:
        made.record(one)
    yield made


async def test_what_was_returned_reconciles_in_any_order(log: AuditLog) -> None:
    engine = AuditedEngine(ScriptedEngine(lambda prompt, _sampling: Reply(prompt)), log)
    sampling = Sampling(1.0, 10, ())
    samples = [await engine.generate(prompt, sampling) for prompt in ([1, 2, 3], [4, 5], [6])]
    batch = Batch.of(*samples)
    found = engine.reconcile(batch.picked([5, 0, 4, 2]))
    assert (found.exact, found.tokens, found.calls, found.reason) == (True, 4, 3, "")
    assert engine.weight_version == 0


Corruption = Callable[[Batch, int], Batch]


def changed(field: str, change: Callable[[np.generic], object]) -> Corruption:
    def corrupt(batch: Batch, row: int) -> Batch:
        values = getattr(batch, field).copy()
        values[row] = change(values[row])
        return replace(batch, **{field: values})

    return corrupt


CORRUPTIONS: dict[str, Corruption] = {
    "wrong_ids": changed("token_ids", lambda value: int(value) + 1),
    "wrong_logprobs": changed("logprobs", lambda value: np.nextafter(value, np.float32(0))),
    "misplaced": changed("positions", lambda value: int(value) + 1000),
    "unknown_calls": lambda batch, row: replace(
        batch, call_ids=(*batch.call_ids[:row], "other", *batch.call_ids[row + 1 :])
    ),
    "repeated": lambda batch, row: batch.picked([*range(len(batch.call_ids)), row]),
}


@pytest.mark.parametrize("kind", CORRUPTIONS)
@settings(max_examples=20)
@given(data=st.data(), lengths=st.lists(st.integers(1, 8), min_size=1, max_size=4))
def test_any_one_corruption_is_found(kind: str, data: st.DataObject, lengths: list[int]) -> None:
    samples = [sample("c" * (number + 1), length) for number, length in enumerate(lengths)]
    batch = Batch.of(*samples)
    row = data.draw(st.integers(0, len(batch.call_ids) - 1))
    with book(*samples) as log:
        assert reconcile(batch, log).exact
        found = reconcile(CORRUPTIONS[kind](batch, row), log)
    assert not found.exact
    assert getattr(found, kind) == 1
    assert found.unknown_calls + found.misplaced + found.wrong_ids + found.wrong_logprobs + found.repeated == 1
    assert "\n" not in found.reason
    assert ("other" if kind == "unknown_calls" else batch.call_ids[row]) in found.reason


def test_a_settled_call_cannot_be_trained_again(log: AuditLog) -> None:
    first, second = sample("a", 3), sample("bb", 2)
    log.record(first)
    assert len(log) == 1
    log.clear()
    assert len(log) == 0
    log.record(second)
    assert reconcile(Batch.of(second), log).exact
    found = reconcile(Batch.of(first, second), log)
    assert (found.unknown_calls, found.tokens) == (1, 5)
    assert "already settled" in found.reason


def test_arrays_of_different_length_are_a_bug() -> None:
    batch = Batch.of(sample("a", 3))
    with book() as log, pytest.raises(ValueError, match="one entry a token"):
        reconcile(replace(batch, token_ids=batch.token_ids[:2]), log)


def test_the_file_survives_a_restart_and_a_torn_record(tmp_path: Path) -> None:
    path = tmp_path / "audit.bin"
    kept, settled, torn = sample("kept", 5), sample("settled", 3), sample("torn", 4)
    with FileAuditLog(path) as log:
        log.record(settled)
        log.clear()
        log.record(kept)
        whole = path.stat().st_size
        log.record(torn)
    content = path.read_bytes()
    for end in range(whole, len(content)):
        path.write_bytes(content[:end])
        with FileAuditLog(path) as log:
            assert reconcile(Batch.of(kept), log).exact
            assert log.lookup("settled") is None
            assert log.lookup("torn") is None
            log.record(torn)
            assert reconcile(Batch.of(kept, torn), log).exact


def test_a_file_without_calls_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "audit.bin"
    with FileAuditLog(path) as log:
        log.record(sample("a", 3))
        log.clear()
        assert path.stat().st_size == 0
        log.record(sample("b", 2))
        assert reconcile(Batch.of(sample("b", 2)), log).exact


def test_an_audit_log_that_cannot_be_opened_names_the_fix(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="make its folder writable"):
        FileAuditLog(tmp_path / "missing" / "audit.bin")


def test_calls_of_older_versions_are_settled_and_those_that_reach_into_newer_ones_stay(log: AuditLog) -> None:
    old, both, new = sample("old", 2, 0, 0), sample("both", 2, 0, 1), sample("new", 2, 2, 2)
    for each in (old, both, new):
        log.record(each)
    log.settle_before(1)
    assert [log.lookup(each.call_id) is None for each in (old, both, new)] == [True, False, False]
    assert reconcile(Batch.of(both, new), log).exact
    assert reconcile(Batch.of(old), log).unknown_calls == 1
    log.settle_before(3)
    assert len(log) == 0


def test_a_file_that_is_mostly_of_settled_calls_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.bin"
    kept = sample("kept", 3, 1, 1, 1)
    with FileAuditLog(path) as log:
        log.record(kept)
        for number in range(40):
            log.record(sample(f"old-{number}", 5_000))
        large = path.stat().st_size
        log.settle_before(1)
        later = sample("later", 4, 1, 1, 1, 1)
        log.record(later)
        assert reconcile(Batch.of(kept, later), log).exact
    assert path.stat().st_size < large / 100
    assert [each.name for each in tmp_path.iterdir()] == ["audit.bin"]
    with FileAuditLog(path) as log:
        assert reconcile(Batch.of(kept, later), log).exact
        assert log.lookup("old-1") is None
