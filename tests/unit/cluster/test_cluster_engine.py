"""Whole answers out of pieces: every token with the version and the log-prob of its own piece."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from cluster_kit import ROUTES, STOP, Said, Servers, piece
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.cluster.engine import ClusterEngine
from lego_rl.engine.protocol import EngineError, Sampling, WeightSpan
from lego_rl.engine.scripted import synthetic_routes
from lego_rl.engine.token_ids import TokenIds
from lego_rl.errors import CaptureError
from lego_rl.gateway.recording import record
from lego_rl.gateway.spool import TEMPORARY, RouteSpool

PROMPT = TokenIds(np.arange(20, 30, dtype=np.int32))


def sampling(most: int = 8) -> Sampling:
    return Sampling(temperature=1.0, max_tokens=most, stop_token_ids=(STOP,), seed=3)


def pieces(*told: tuple[Sequence[int], int]) -> Servers:
    """Each piece but the last is aborted."""
    return Servers(lambda prompt, at: piece(prompt, told[at][0], told[at][1], aborted=at < len(told) - 1))


async def test_an_answer_in_one_piece_is_passed_on_as_it_is() -> None:
    servers = pieces(([1, 2, STOP], 4))
    engine = ClusterEngine(servers)
    sample = await engine.generate(PROMPT, sampling())
    assert sample.prompt_ids is PROMPT
    assert sample.token_ids == (1, 2, STOP)
    assert sample.finish_reason == "stop"
    assert sample.weight_versions == (WeightSpan(4, 0, 3),)
    assert np.array_equal(sample.logprobs, np.float32([-5 - at / 1024 for at in (10, 11, 12)]))
    assert engine.weight_version == 4
    assert servers.asked[0].params == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "repetition_penalty": 1.0,
        "logprobs": True,
        "ignore_eos": True,
        "max_tokens": 8,
        "stop_token_ids": [STOP],
    }


async def test_each_piece_has_its_own_weight_version_and_log_probs() -> None:
    servers = pieces(([1, 2], 4), ([3], 5), ([4, STOP], 7))
    sample = await ClusterEngine(servers).generate(PROMPT, sampling())
    assert sample.token_ids == (1, 2, 3, 4, STOP)
    assert sample.weight_versions == (WeightSpan(4, 0, 2), WeightSpan(5, 2, 3), WeightSpan(7, 3, 5))
    expected = [-(version + 1) - (10 + at) / 1024 for at, version in enumerate([4, 4, 5, 7, 7])]
    assert np.array_equal(sample.logprobs, np.float32(expected))
    assert [asked.prompt_ids[10:] for asked in servers.asked] == [[], [1, 2], [1, 2, 3]]
    assert [asked.params["max_tokens"] for asked in servers.asked] == [8, 6, 5]
    assert len({asked.session for asked in servers.asked}) == 1
    assert sample.routes is not None
    assert np.array_equal(sample.routes, synthetic_routes([*PROMPT, 1, 2, 3, 4], ROUTES))
    record(sample, PROMPT, RouteSpool(TEMPORARY))  # the gateway's own checks


async def test_the_limit_ends_an_answer_whatever_the_server_calls_it() -> None:
    sample = await ClusterEngine(pieces(([1, 2], 0), ([3], 0))).generate(PROMPT, sampling(3))
    assert sample.finish_reason == "length"
    assert sample.weight_versions == (WeightSpan(0, 0, 3),)  # the same weights: one span


async def test_an_abort_before_the_first_token_is_asked_again() -> None:
    servers = Servers(
        lambda prompt, at: Said([], None, None, "aborted", {"global_steps": 1}) if at < 2 else piece(prompt, [STOP], 2)
    )
    sample = await ClusterEngine(servers, pause_sec=0).generate(PROMPT, sampling())
    assert sample.weight_versions == (WeightSpan(2, 0, 1),)


async def test_servers_that_abort_for_ever_are_unhealthy() -> None:
    servers = Servers(lambda prompt, at: Said([], None, None, "aborted", {"global_steps": 1}))
    with pytest.raises(EngineError, match="aborted a call 6 times in a row"):
        await ClusterEngine(servers, pause_sec=0, most_empty=5).generate(PROMPT, sampling())


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.integers(0, 10))
def test_however_an_answer_is_cut_its_rows_are_those_of_its_tokens(counts: list[int], known: int) -> None:
    ids = iter([*range(100, 100 + sum(counts) - 1), STOP])
    told = [([next(ids) for _ in range(count)], version) for version, count in enumerate(counts)]
    sample = asyncio.run(ClusterEngine(pieces(*told)).generate(PROMPT, sampling(99), routes_from=known))
    whole = synthetic_routes([*PROMPT, *sample.token_ids[:-1]], ROUTES)
    assert sample.routes is not None and np.array_equal(sample.routes, whole[known:])
    assert sample.routes_from == known
    assert [span.version for span in sample.weight_versions] == list(range(len(counts)))
    record(sample, PROMPT, RouteSpool(TEMPORARY))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda said: replace(said, log_probs=said.log_probs[:-1]), "2 log-probs for 3 tokens"),
        (lambda said: replace(said, log_probs=None), "0 log-probs for 3 tokens"),
        (lambda said: replace(said, extra_fields={}), "does not say which weights"),
        (lambda said: replace(said, routed_experts=said.routed_experts[:-1]), "for 12 tokens that were fed"),
        (lambda said: replace(said, routed_experts=said.routed_experts + 250), "a route is a byte"),
        (lambda said: replace(said, token_ids=[1, 2, 3]), "on no stop token"),
    ],
)
async def test_a_piece_that_contradicts_itself_is_refused(wrong: object, says: str) -> None:
    servers = Servers(lambda prompt, at: wrong(piece(prompt, [1, 2, STOP], 0)))
    with pytest.raises(CaptureError, match=says):
        await ClusterEngine(servers).generate(PROMPT, sampling())


async def test_an_answer_whose_last_piece_has_no_routes_is_refused() -> None:
    servers = Servers(lambda prompt, at: piece(prompt, [1] if at == 0 else [STOP], at, aborted=at == 0, routed=at == 0))
    with pytest.raises(CaptureError, match="expert routes of 10 of the 11 tokens"):
        await ClusterEngine(servers).generate(PROMPT, sampling())


async def test_routes_that_an_aborted_piece_lacks_come_with_the_next() -> None:
    servers = Servers(lambda prompt, at: piece(prompt, [1] if at == 0 else [STOP], at, aborted=at == 0, routed=at == 1))
    sample = await ClusterEngine(servers).generate(PROMPT, sampling())
    assert sample.routes is not None
    assert np.array_equal(sample.routes, synthetic_routes([*PROMPT, 1], ROUTES))
    record(sample, PROMPT, RouteSpool(TEMPORARY))


async def test_conversations_stay_where_they_are_and_trials_that_begin_alike_do_not() -> None:
    servers = Servers(lambda prompt, at: piece(prompt, [at, STOP], 0))
    engine = ClusterEngine(servers)
    first, second = [await engine.generate(PROMPT, sampling()) for _ in range(2)]
    for sample in (second, first):
        await engine.generate([*PROMPT, *sample.token_ids, 77], sampling())
    sessions = [asked.session for asked in servers.asked]
    assert sessions == [sessions[0], sessions[1], sessions[1], sessions[0]]
    assert sessions[0] != sessions[1]


async def test_an_idle_engine_does_not_hang_and_any_sign_of_a_server_is_one() -> None:
    servers = pieces(([STOP], 0))
    engine = ClusterEngine(servers)
    await engine.progressed()
    servers.say = lambda prompt, at: piece(prompt, [1], 0, aborted=True)
    call = asyncio.create_task(engine.generate(PROMPT, sampling(10_000)))
    await asyncio.sleep(0)
    await engine.progressed()  # a piece came back
    call.cancel()

    class Silent(Servers):
        async def piece(self, *_: object) -> Said:
            await asyncio.Event().wait()
            raise AssertionError

    silent = Silent(servers.say)
    engine = ClusterEngine(silent)
    call = asyncio.create_task(engine.generate(PROMPT, sampling()))
    await asyncio.sleep(0)
    sign = asyncio.create_task(engine.progressed())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not sign.done()
    silent.hang.set()
    await sign
    call.cancel()
