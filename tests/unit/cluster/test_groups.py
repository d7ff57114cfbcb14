"""The fault table applied to groups."""

import json

import pytest

from lego_rl.cluster.account import TrialAccount
from lego_rl.cluster.groups import GroupReport, Standing, check_groups, group_figures, standing
from lego_rl.errors import RunError
from lego_rl.rollout.faults import FAULT_TABLE, Ended, Rewarded


def account(reward: int | None, ended: Ended | None = None, **counts: int) -> TrialAccount:
    row = ended or (Ended.ENGINE_FAILED if reward is None else Ended.FINISHED)
    return TrialAccount("trial", row, f"{row} happened", reward, **{"rows": 0 if reward is None else 1} | counts)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1, 0, 1, 0], Standing.CONTRIBUTES),
        ([1, 0, None, None], Standing.CONTRIBUTES),
        ([1, None, None, None], Standing.TOO_SMALL),
        ([None] * 4, Standing.TOO_SMALL),
        ([1, 1, 1, None], Standing.ONE_VERDICT),
        ([0, 0], Standing.ONE_VERDICT),
    ],
)
def test_what_a_group_contributes(rewards: list[int | None], expected: Standing) -> None:
    assert standing([account(reward) for reward in rewards]) is expected
    assert expected.is_replaced is (expected is Standing.TOO_SMALL)


def test_a_group_without_a_token_contributes_nothing() -> None:
    assert standing([account(1, rows=0), account(0, rows=0)]) is Standing.NO_TOKENS
    assert standing([account(1, rows=0), account(0, rows=2)]) is Standing.CONTRIBUTES


@pytest.mark.parametrize("ended", list(Ended))
def test_every_row_of_the_table_counts_as_it_says(ended: Ended) -> None:
    row = FAULT_TABLE[ended]
    reward = None if row.rewarded is Rewarded.NOTHING else 0
    expected = Standing.CONTRIBUTES if row.in_group else Standing.TOO_SMALL
    assert standing([account(reward, ended), account(1)]) is expected


def test_a_report_survives_the_queue() -> None:
    report = GroupReport.of([account(1, roles={"main": 3}), account(None)])
    assert GroupReport.unpack(json.loads(json.dumps(report.packed()))) == report


def test_what_stops_the_run() -> None:
    check_groups([GroupReport.of([account(1), account(None)])])
    with pytest.raises(RunError, match="infrastructure faults took all 2 trials: engine_failed happened"):
        check_groups([GroupReport.of([account(None), account(None)])])
    unknown = GroupReport.of([account(0, Ended.UNATTRIBUTED_AFTER), *[account(1)] * 18])
    with pytest.raises(RunError, match="1 of 19 trials"):
        check_groups([unknown])
    check_groups([unknown, GroupReport.of([account(0)])])


def test_figures() -> None:
    full = account(1, calls=4, sampled=100, trainable=90, route_positions=50, routes_recorded=40, roles={"main": 100})
    figures = group_figures([GroupReport.of([full, account(0)]), GroupReport.of([account(None), account(0)])])
    assert figures["rollout/trials_total"] == 4
    assert figures["rollout/counted_total"] == 3
    assert figures["rollout/solve_rate"] == pytest.approx(1 / 3)
    assert figures["rollout/delivered_fraction"] == 0.9
    assert figures["rollout/route_coverage"] == 0.8
    assert figures["ended/engine_failed_total"] == 1
    assert figures["groups/contributes_total"] == figures["groups/group_too_small_total"] == 1
    assert figures["tokens/main_total"] == 100
    assert group_figures([]) == {}
