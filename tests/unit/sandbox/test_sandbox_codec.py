"""Patches, verdicts and file records come back as they were."""

import base64
import json
import os
import zlib
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import RunError, SandboxError
from lego_rl.sandbox import records
from lego_rl.sandbox.codec import patch_from_json, patch_to_json, verdict_from_json, verdict_to_json
from lego_rl.sandbox.records import Record, is_plain
from lego_rl.sandbox.verdict import Change, GradingEnd, Patch, Verdict

names = st.binary(min_size=1, max_size=12).map(os.fsdecode).filter(lambda name: is_plain(name) and "\0" not in name)
paths = st.lists(names, min_size=1, max_size=4).map("/".join).filter(is_plain)
changes = st.builds(
    Change,
    path=paths,
    kind=st.sampled_from(["file", "symlink", "deleted"]),
    content=st.binary(),
    executable=st.booleans(),
)
statuses = st.sampled_from(["passed", "failed", "error", "skipped", "missing"])


@given(
    st.builds(
        Patch,
        changes=st.lists(changes).map(tuple),
        dropped=st.dictionaries(paths, st.text()),
        more_dropped=st.dictionaries(st.text(), st.integers(min_value=1)),
        too_large=st.booleans(),
    )
)
def test_patch_round_trip(patch: Patch) -> None:
    assert patch_from_json(patch_to_json(patch)) == patch


@given(
    st.builds(
        Verdict,
        reward=st.sampled_from([0, 1]),
        tests=st.dictionaries(st.text(), statuses),
        rolled_back=st.dictionaries(paths, st.text()),
        log=st.text(),
        seconds=st.floats(0, 1e6),
        ended=st.sampled_from(get_args(GradingEnd.__value__)),
        report=st.binary(),
        exit_status=st.none() | st.integers(0, 255),
    )
)
def test_verdict_round_trip(verdict: Verdict) -> None:
    assert verdict_from_json(verdict_to_json(verdict)) == verdict


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "", ".", "a/"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    change = {"path": path, "kind": "deleted", "content": "", "executable": False}
    text = json.dumps({"changes": [change], "dropped": {}, "more_dropped": {}, "too_large": False})
    with pytest.raises(RunError, match="not a patch"):
        patch_from_json(text)


@pytest.mark.parametrize("reward", [2, 0.5, True, "1", None, 1e308, float("nan"), -1, [1]])
def test_only_zero_and_one_are_rewards(reward: object) -> None:
    raw = json.loads(verdict_to_json(Verdict(1)))
    assert verdict_from_json(json.dumps(raw)).reward == 1
    with pytest.raises(RunError, match="not a verdict"):
        verdict_from_json(json.dumps(raw | {"reward": reward}))


@pytest.mark.parametrize("packed", [zlib.compress(bytes(33 << 20)), zlib.compress(b"report")[:-3], b"no zlib"])
def test_a_report_that_is_no_report_is_refused(packed: bytes) -> None:
    raw = json.loads(verdict_to_json(Verdict(1, report=b"kept")))
    assert verdict_from_json(json.dumps(raw)).report == b"kept"
    with pytest.raises(RunError, match="not a verdict"):
        verdict_from_json(json.dumps(raw | {"report": base64.b64encode(packed).decode()}))


record_lists = st.lists(
    st.builds(
        Record,
        path=paths,
        kind=st.sampled_from(["file", "symlink", "directory", "deleted"]),
        content=st.binary(max_size=50),
        mode=st.integers(0, 0o777),
    )
)


@given(record_lists)
def test_record_round_trip(tree: list[Record]) -> None:
    assert list(records.decode(records.encode(tree))) == tree


@given(record_lists.filter(bool), st.data())
def test_a_stream_cut_short_is_noticed(tree: list[Record], data: st.DataObject) -> None:
    stream = records.encode(tree)
    cut = data.draw(st.integers(1, len(records.encode(tree[-1:])) - 1))
    with pytest.raises(SandboxError, match="cut short"):
        list(records.decode(stream[:-cut]))
