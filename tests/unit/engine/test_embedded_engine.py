"""The engine's laws: a call returns what transformers computes, whatever runs beside it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_kit import VOCAB, Reference, tokens, until
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.engine.embedded import EmbeddedEngine, EngineOptions, state_digest
from lego_rl.engine.protocol import EngineError, Sample, Sampling, WeightSpan
from lego_rl.errors import ConfigError

SMALL = EngineOptions(max_running=4, prefill_tokens=64, cache_tokens=512)


@pytest.fixture
async def engine(moe: Reference) -> AsyncIterator[EmbeddedEngine]:
    with EmbeddedEngine(moe.weights(), options=SMALL, seed=7) as made:
        yield made


def sampling(
    seed: int | None = 0, max_tokens: int = 12, temperature: float = 1.0, stop: Sequence[int] = ()
) -> Sampling:
    return Sampling(temperature=temperature, max_tokens=max_tokens, stop_token_ids=tuple(stop), seed=seed)


def assert_true_to(reference: Reference, sample: Sample, temperature: float = 1.0) -> None:
    """Log-probs and routes are those of a one-shot forward of prompt and sampled tokens."""
    expected = reference.logprobs(sample.prompt_ids, sample.token_ids, temperature)
    np.testing.assert_allclose(sample.logprobs, expected, atol=2e-5)
    assert sample.logprobs.dtype == np.float32
    if sample.routes is not None:
        fed = [*sample.prompt_ids, *sample.token_ids[:-1]]
        np.testing.assert_array_equal(sample.routes, reference.routes(fed)[sample.routes_from :])


@pytest.mark.parametrize("temperature", [1.0, 0.3, 0.0])
async def test_logprobs_are_of_the_sampling_distribution(
    moe: Reference, engine: EmbeddedEngine, temperature: float
) -> None:
    sample = await engine.generate(tokens(20), sampling(temperature=temperature))
    assert_true_to(moe, sample, temperature)


async def test_greedy_takes_the_most_probable_token(moe: Reference, engine: EmbeddedEngine) -> None:
    sample = await engine.generate(tokens(20), sampling(temperature=0.0))
    logits = moe.logits([*sample.prompt_ids, *sample.token_ids])[19:-1]
    assert sample.token_ids == tuple(logits.argmax(-1).tolist())


async def test_tokens_are_drawn_in_proportion(moe: Reference) -> None:
    """The frequencies of 4,000 first tokens match their probabilities (chi-squared over tokens expected 5 times)."""
    prompt, draws = tokens(5), 4000
    with EmbeddedEngine(moe.weights(), options=EngineOptions(max_running=64), seed=1) as engine:
        samples = await asyncio.gather(*(engine.generate(prompt, sampling(None, max_tokens=1)) for _ in range(draws)))
    counts = np.bincount([sample.token_ids[0] for sample in samples], minlength=VOCAB)
    expected = torch.softmax(moe.logits(list(prompt))[-1], -1).double().numpy() * draws
    common = expected >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    statistic = float(((observed - expected) ** 2 / expected).sum())
    freedom = len(expected) - 1
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


calls = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 150), st.integers(1, 12), st.sampled_from([0.0, 0.5, 1.0])),
    min_size=1,
    max_size=8,
)


@settings(max_examples=20)
@given(wanted=calls, cache_tokens=st.sampled_from([0, 96, 4096]), prefill_tokens=st.sampled_from([32, 128]))
def test_a_call_does_not_depend_on_its_neighbours(
    moe: Reference, wanted: list[tuple[int, int, int, float]], cache_tokens: int, prefill_tokens: int
) -> None:
    """Prompts that share prefixes, ragged, through a small cache: each equals the one-shot forward, tokens included."""
    options = EngineOptions(max_running=3, prefill_tokens=prefill_tokens, cache_tokens=cache_tokens)

    async def together() -> list[Sample]:
        with EmbeddedEngine(moe.weights(), options=options) as engine:
            return await asyncio.gather(
                *(
                    engine.generate(tokens(150, family)[:length], sampling(number, count, temperature))
                    for number, (family, length, count, temperature) in enumerate(wanted)
                )
            )

    async def alone(number: int) -> Sample:
        family, length, count, temperature = wanted[number]
        with EmbeddedEngine(moe.weights()) as engine:
            return await engine.generate(tokens(150, family)[:length], sampling(number, count, temperature))

    samples = asyncio.run(together())
    for sample, (_, length, count, temperature) in zip(samples, wanted, strict=True):
        assert (len(sample.prompt_ids), len(sample.token_ids)) == (length, count)
        assert_true_to(moe, sample, temperature)
    assert asyncio.run(alone(0)).token_ids == samples[0].token_ids


async def test_a_session_continues_from_the_cache(moe: Reference, engine: EmbeddedEngine) -> None:
    """The next turn computes what is new, and still returns the routes of every position it is asked for."""
    first = await engine.generate(tokens(100), sampling(max_tokens=40))
    prompt = (*first.prompt_ids, *first.token_ids, *tokens(20, seed=9))
    held = engine.stats()
    second = await engine.generate(prompt, sampling())
    assert_true_to(moe, second)
    assert second.routes is not None
    assert second.routes.shape == (len(prompt) + 11, 2, 2)
    stats = engine.stats()
    assert stats.restored_tokens - held.restored_tokens == 128  # of 139 computed positions, in blocks of 32
    assert stats.prefilled_tokens - held.prefilled_tokens == len(prompt) - 128


async def test_sessions_that_start_together_compute_their_prefix_once(moe: Reference, engine: EmbeddedEngine) -> None:
    prefix = tokens(128)
    samples = await asyncio.gather(*(engine.generate((*prefix, number), sampling(number)) for number in range(4)))
    for sample in samples:
        assert_true_to(moe, sample)
    assert engine.stats().prefilled_tokens == 128 + 4


async def test_routes_from_skips_rows_the_caller_holds(engine: EmbeddedEngine) -> None:
    whole = await engine.generate(tokens(50), sampling())
    rest = await engine.generate(tokens(50), sampling(), routes_from=50)
    assert whole.routes is not None
    assert rest.routes is not None
    assert rest.routes_from == 50
    np.testing.assert_array_equal(rest.routes, whole.routes[50:])


async def test_a_dense_policy_has_no_routes(dense: Reference) -> None:
    with EmbeddedEngine(dense.weights(), options=SMALL) as engine:
        sample = await engine.generate(tokens(40), sampling())
    assert sample.routes is None
    assert_true_to(dense, sample)


async def test_sampling_ends_after_a_stop_token(moe: Reference, engine: EmbeddedEngine) -> None:
    free = await engine.generate(tokens(20), sampling(max_tokens=30))
    stop = free.token_ids[7]
    stopped = await engine.generate(tokens(20), sampling(max_tokens=30, stop=[stop]))
    assert stopped.finish_reason == "stop"
    assert stopped.token_ids == free.token_ids[: free.token_ids.index(stop) + 1]
    assert free.finish_reason == "length"
    assert stopped.call_id != free.call_id


async def test_a_forced_beginning_is_said_and_weighed_as_if_it_were_drawn(
    moe: Reference, engine: EmbeddedEngine
) -> None:
    free = await engine.generate(tokens(20), sampling(5))
    forced = tokens(6, seed=1)
    sample = await engine.generate(tokens(20), sampling(5), forced_ids=forced)
    assert sample.token_ids[:6] == forced != free.token_ids[:6]
    assert len(sample.token_ids) == 12
    assert_true_to(moe, sample)
    again = await engine.generate((*tokens(20), *forced), sampling(5), routes_from=20)
    assert_true_to(moe, again)
    whole = await engine.generate(tokens(20), sampling(5), forced_ids=free.token_ids)
    assert whole.token_ids == free.token_ids
    np.testing.assert_array_equal(whole.logprobs, free.logprobs)
    stopped = await engine.generate(tokens(20), sampling(stop=[forced[3]]), forced_ids=forced)
    assert (stopped.token_ids, stopped.finish_reason) == (forced[: forced.index(forced[3]) + 1], "stop")


async def test_a_seed_fixes_the_tokens_and_no_seed_does_not(engine: EmbeddedEngine) -> None:
    seeded = [await engine.generate(tokens(20), sampling(3)) for _ in range(2)]
    free = [await engine.generate(tokens(20), sampling(None)) for _ in range(2)]
    assert seeded[0].token_ids == seeded[1].token_ids
    assert free[0].token_ids != free[1].token_ids


async def test_the_engines_seed_fixes_calls_without_one(moe: Reference) -> None:
    drawn = []
    for _ in range(2):
        with EmbeddedEngine(moe.weights(), seed=11) as engine:
            drawn.append((await engine.generate(tokens(20), sampling(None))).token_ids)
    assert drawn[0] == drawn[1]


async def test_nothing_is_shared_over_versions(moe: Reference, other_moe: Reference, engine: EmbeddedEngine) -> None:
    before = await engine.generate(tokens(100), sampling())
    await engine.load_weights(other_moe.module.state_dict(), 1)
    after = await engine.generate(tokens(100), sampling())
    assert_true_to(moe, before)
    assert_true_to(other_moe, after)
    assert (before.weight_versions, after.weight_versions) == ((WeightSpan(0, 0, 12),), (WeightSpan(1, 0, 12),))
    assert engine.weight_version == 1
    assert engine.stats().restored_tokens == 0


async def test_a_running_call_goes_on_under_new_weights(
    moe: Reference, other_moe: Reference, engine: EmbeddedEngine
) -> None:
    """Partial rollout: spans name the versions, the state stays, and a later call never meets that state."""
    running = asyncio.create_task(engine.generate(tokens(100), sampling(max_tokens=600)))
    await until(engine, lambda stats: stats.sampled_tokens >= 3)
    await engine.load_weights(other_moe.module.state_dict(), 5)
    sample = await running
    old, new = sample.weight_versions
    assert (old.version, new.version, old.start, old.end, new.end) == (0, 5, 0, new.start, 600)
    expected = moe.logprobs(sample.prompt_ids, sample.token_ids[: old.end])
    np.testing.assert_allclose(sample.logprobs[: old.end], expected, atol=2e-5)
    assert sample.routes is not None
    assert len(sample.routes) == 699
    again = await engine.generate((*sample.prompt_ids, *sample.token_ids), sampling())
    assert_true_to(other_moe, again)


async def test_a_prompt_in_prefill_starts_again(moe: Reference, other_moe: Reference) -> None:
    with EmbeddedEngine(moe.weights(), options=EngineOptions(prefill_tokens=32)) as engine:
        call = asyncio.create_task(engine.generate(tokens(1000), sampling()))
        await until(engine, lambda stats: stats.prefilled_tokens > 0)
        await engine.load_weights(other_moe.module.state_dict(), 1)
        sample = await call
    assert sample.weight_versions == (WeightSpan(1, 0, 12),)
    assert_true_to(other_moe, sample)


async def test_loaded_weights_are_a_copy(moe: Reference, other_moe: Reference, engine: EmbeddedEngine) -> None:
    state = {name: weight.clone() for name, weight in other_moe.module.state_dict().items()}
    loading = asyncio.create_task(engine.load_weights(state, 1))
    await asyncio.sleep(0)
    for weight in state.values():
        weight.zero_()
    await loading
    assert_true_to(other_moe, await engine.generate(tokens(30), sampling()))


async def test_the_digest_tells_stale_weights(moe: Reference, other_moe: Reference, engine: EmbeddedEngine) -> None:
    def digest(reference: Reference) -> str:
        return state_digest(reference.module.state_dict(), reference.geometry, torch.float32)

    assert engine.weights_digest() == digest(moe) != digest(other_moe)
    assert engine.digest_of(other_moe.module.state_dict()) == digest(other_moe)
    await engine.load_weights(other_moe.module.state_dict(), 1)
    assert engine.weights_digest() == digest(other_moe)


@pytest.mark.parametrize(
    "name",
    [
        "model.embed_tokens.weight",
        "model.layers.1.self_attn.k_proj.weight",
        "model.layers.0.self_attn.k_norm.weight",
        "model.layers.0.mlp.gate.weight",
        "model.layers.1.mlp.experts.gate_up_proj",
        "model.layers.1.mlp.experts.down_proj",
        "model.norm.weight",
    ],
)
def test_every_weight_counts_in_the_digest(moe: Reference, name: str) -> None:
    state = dict(moe.module.state_dict())
    changed = state[name].clone()
    changed.view(-1)[-1] += 1e-3
    before, after = (state_digest(one, moe.geometry, torch.float32) for one in (state, {**state, name: changed}))
    assert before != after


async def test_wrong_weights_change_nothing(dense: Reference, moe: Reference, engine: EmbeddedEngine) -> None:
    digest = engine.weights_digest()
    with pytest.raises(ConfigError, match=r"has no model\.layers\.0\.mlp"):
        await engine.load_weights(dense.module.state_dict(), 1)
    with pytest.raises(ConfigError, match="does not follow 0"):
        await engine.load_weights(moe.module.state_dict(), 0)
    assert (engine.weight_version, engine.weights_digest()) == (0, digest)


async def test_cancelling_frees_the_place(moe: Reference) -> None:
    """One place: a call that waits behind a cancelled one gets it at once."""
    with EmbeddedEngine(moe.weights(), options=EngineOptions(max_running=1)) as engine:
        endless = asyncio.create_task(engine.generate(tokens(10), sampling(max_tokens=1000)))
        waiting = asyncio.create_task(engine.generate(tokens(10), sampling(max_tokens=1000)))
        after = asyncio.create_task(engine.generate(tokens(10), sampling()))
        await until(engine, lambda stats: stats.sampled_tokens > 0)
        endless.cancel()
        waiting.cancel()
        assert_true_to(moe, await after)
        assert engine.stats().calls_aborted == 2
        assert engine.stats().running == 0
        assert endless.cancelled()


async def test_a_failing_step_fails_every_call_and_stays(moe: Reference, engine: EmbeddedEngine) -> None:
    """Weights that are not numbers: the engine cannot go on, says so, and leaves nobody waiting."""
    broken = {name: torch.full_like(weight, torch.nan) for name, weight in moe.module.state_dict().items()}
    running = [asyncio.create_task(engine.generate(tokens(10), sampling(max_tokens=900))) for _ in range(6)]
    await until(engine, lambda stats: stats.sampled_tokens > 0)
    await engine.load_weights(broken, 1)
    for call in running:
        with pytest.raises(EngineError, match="not finite under weight version 1"):
            await call
    assert not engine.healthy
    with pytest.raises(EngineError, match="not finite"):
        await engine.generate(tokens(10), sampling())


async def test_closing_fails_unfinished_calls(moe: Reference) -> None:
    engine = EmbeddedEngine(moe.weights())
    call = asyncio.create_task(engine.generate(tokens(10), sampling(max_tokens=1000)))
    await asyncio.sleep(0.01)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        await call
    with pytest.raises(EngineError, match="closed"):
        await engine.generate(tokens(10), sampling())


@pytest.mark.parametrize(
    ("prompt", "wanted", "routes_from", "named"),
    [
        ((), sampling(), 0, "at least one id"),
        ((VOCAB,), sampling(), 0, "only ids below 300"),
        ((-1,), sampling(), 0, "only ids below 300"),
        ((1,), sampling(max_tokens=1024), 0, "exceed the context of 1024"),
        ((1,), sampling(max_tokens=0), 0, "cannot sample 0 tokens"),
        ((1,), sampling(temperature=-1.0), 0, "temperature -1.0"),
        ((1,), sampling(temperature=float("nan")), 0, "temperature nan"),
        ((1,), sampling(seed=-1), 0, "seed -1"),
        ((1, 2), sampling(), 3, "routes_from 3"),
    ],
)
async def test_calls_that_cannot_be_answered_are_refused(
    engine: EmbeddedEngine, prompt: tuple[int, ...], wanted: Sampling, routes_from: int, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        await engine.generate(prompt, wanted, routes_from=routes_from)
    assert engine.healthy


@pytest.mark.parametrize("forced", [(VOCAB,), (-1,)])
async def test_what_is_no_token_cannot_be_forced(engine: EmbeddedEngine, forced: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="only ids below 300"):
        await engine.generate(tokens(5), sampling(), forced_ids=forced)
    assert engine.healthy


@pytest.mark.parametrize(
    "options", [EngineOptions(max_running=0), EngineOptions(prefill_tokens=100), EngineOptions(cache_tokens=-1)]
)
def test_impossible_options_are_refused(moe: Reference, options: EngineOptions) -> None:
    with pytest.raises(ConfigError):
        EmbeddedEngine(moe.weights(), options=options)


async def test_timings_and_counters_add_up(engine: EmbeddedEngine) -> None:
    samples = await asyncio.gather(*(engine.generate(tokens(40, seed), sampling(seed)) for seed in range(6)))
    stats = engine.stats()
    assert (stats.calls_finished, stats.sampled_tokens, stats.largest_batch) == (6, 72, 4)
    assert stats.prefilled_tokens == 240
    assert 1.0 <= stats.mean_batch <= 4.0
    assert stats.prefill_seconds > 0
    assert stats.decode_seconds > 0
    assert max(sample.timings.queued for sample in samples) > 0
    assert all(sample.timings.prefill > 0 and sample.timings.decode > 0 for sample in samples)


async def test_the_trainer_gets_its_threads_back(moe: Reference) -> None:
    """torch's number of threads is the process's: the engine's own holds only while it works."""
    before = torch.get_num_threads()
    try:
        with EmbeddedEngine(moe.weights(), options=EngineOptions(threads=1)) as engine:
            torch.set_num_threads(2)
            await engine.generate(tokens(10), sampling())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_other_precisions_are_refused(moe: Reference) -> None:
    with pytest.raises(ConfigError, match="float16"):
        EmbeddedEngine(moe.weights(torch.float16))


@pytest.mark.parametrize("device", ["gpu", "", "meta", "cuda:99", "hpu"])
def test_a_device_that_is_not_here_is_said(device: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"device '{device}' cannot be used"):
        EmbeddedEngine.from_directory(tmp_path, device=device)


@pytest.mark.parametrize("space", [1 << 44, 1 << 62, 1 << 90])
def test_a_prefix_cache_that_fits_no_memory_is_said(moe: Reference, space: int) -> None:
    with pytest.raises(ConfigError, match="no memory for a prefix cache"):
        EmbeddedEngine(moe.weights(), options=EngineOptions(cache_tokens=space))
