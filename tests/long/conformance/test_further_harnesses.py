"""The harnesses that the integration tests leave out, in every situation that capture has to survive."""

import asyncio

import pytest

from lego_rl.conformance.trial import Bench, try_all


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["mini-swe-agent", "qwen-code"])
def test_every_law_holds_in_every_situation(name: str) -> None:
    reports = asyncio.run(try_all(Bench.prepare(name)))
    assert {report.situation.name: report.broken for report in reports if not report.held} == {}
