"""The capture laws of `lego_rl.conformance`, where a test knows exactly what was delivered; and reading what was
written."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from lego_rl.conformance.laws import Books, broken_laws
from lego_rl.engine.protocol import Sample
from lego_rl.gateway.settings import DEFAULT_CAPTURE
from lego_rl.gateway.store import load_segments, read_trajectory, write_trajectory
from lego_rl.gateway.trajectory import CallRole, Segment, Trajectory


def check_laws(
    trajectory: Trajectory,
    samples: Sequence[Sample],
    delivered: set[str],
    *,
    train_roles: Collection[CallRole] = DEFAULT_CAPTURE.train_roles,
    blind: Collection[str] = (),
    cut: Mapping[str, int] | None = None,
) -> None:
    """Laws 1 to 4 and full routes.

    Args:
        trajectory: What the gateway captured.
        samples: Every answer of the engine, in the order of the calls' start.
        delivered: Calls whose answer was delivered.
        train_roles: Which of them have to be trained.
        blind: Those that have not, for their prompts held what a text model cannot see.
        cut: Of the calls of which a prefix was delivered: its tokens.
    """
    assert [each.call_id for each in trajectory.generations] == [sample.call_id for sample in samples]
    assert {each.call_id for each in trajectory.generations if each.fate == "delivered"} == delivered
    arrived = {sample.call_id: range(1) for sample in samples if sample.call_id not in delivered}
    arrived |= {call: range(count, count + 1) for call, count in (cut or {}).items()}
    assert broken_laws(trajectory, Books(samples, arrived, train_roles, blind)) == {}


def check_trained(trajectory: Trajectory, due: Mapping[str, int]) -> None:
    """As many tokens of every call are trained as are `due`, whatever the gateway takes the call for."""
    trained: Counter[str] = Counter()
    for segment in trajectory.segments:
        trained.update(segment.calls[index] for index in segment.call_ids[segment.loss_mask == 1])
    assert trained == due


def check_round_trip(trajectory: Trajectory) -> None:
    """What is read from disk is what was written."""
    with TemporaryDirectory() as folder:
        write_trajectory(trajectory, Path(folder), harness="h", version="1", session_id="t")
        again = read_trajectory(Path(folder))
        assert_same_segments(load_segments(Path(folder)), trajectory.segments)
    assert_same_segments(again.segments, trajectory.segments)
    assert again.conversations == trajectory.conversations
    assert again.tools == trajectory.tools
    assert again.accounting == trajectory.accounting


def assert_same_segments(one: Sequence[Segment], two: Sequence[Segment]) -> None:
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        for name, value in vars(b).items():
            other = getattr(a, name)
            if isinstance(value, np.ndarray):
                assert other.dtype == value.dtype
                assert np.array_equal(other, value)
            else:
                assert other == value
