"""Routing replay and the forward pass that it happens in."""

import numpy as np
import pytest
import torch
from tiny_moe import EXPERTS, LAYERS, TOP_K, moe, prompts, recording, rollout, routes_of, segment, trials
from transformers import Qwen3Config, Qwen3ForCausalLM

from lego_rl.errors import CaptureError, ConfigError
from lego_rl.gateway.trajectory import Segment
from lego_rl.train.batch import MicroBatch, Row, plan
from lego_rl.train.forward import logprobs
from lego_rl.train.replay import check_routes, replay, routers

CPU = torch.device("cpu")


def rows(policy: object, count: int = 4) -> list[Row]:
    made = [rollout(policy, prompt, seed) for seed, prompt in enumerate(prompts(count))]  # type: ignore[arg-type]
    return [Row(f"t{i}", 0, s, 1.0, 1.0) for i, s in enumerate(made)]


def alone(policy: object, row: Row, temperature: float = 1.0, routing: str = "own") -> torch.Tensor:
    """Log-probs of one segment's trained tokens, by the plainest forward pass there is."""
    s = row.segment
    logits = policy(input_ids=torch.tensor(s.token_ids[None, :-1].astype(np.int64))).logits[0].float()  # type: ignore[operator]
    logp = (logits / temperature).log_softmax(-1)
    return torch.stack([logp[i - 1, int(s.token_ids[i])] for i in np.flatnonzero(s.loss_mask)])


def test_replaying_a_routers_own_choice_changes_nothing() -> None:
    policy = moe()
    ids = torch.randint(0, 64, (3, 11), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), recording(policy) as chosen:
        plain = policy(input_ids=ids).logits
    with torch.no_grad(), replay(policy, chosen(), torch.ones(33, dtype=torch.bool)) as seen:
        replayed = policy(input_ids=ids).logits
    assert torch.equal(plain, replayed)
    assert seen.matched_N.tolist() == [LAYERS * TOP_K] * 33


@pytest.mark.parametrize("experts", ["grouped_mm", "eager", "batched_mm"])
def test_replaying_other_routes_reproduces_the_policy_that_chose_them(experts: str) -> None:
    """A policy with perturbed routers chose experts A. Replaying A in the unperturbed policy is the pass in which every
    layer is told A by hand and weighs it by its own router."""
    policy = moe(experts=experts)
    ids = torch.randint(0, 64, (2, 9), generator=torch.Generator().manual_seed(1))
    perturbed = moe(experts=experts)
    with torch.no_grad():
        for gate in routers(perturbed):
            gate.weight += torch.randn(gate.weight.shape, generator=torch.Generator().manual_seed(2))
        with recording(perturbed) as chosen:
            perturbed(input_ids=ids)
    experts_NEK = chosen()
    with torch.no_grad(), replay(policy, experts_NEK, torch.ones(18, dtype=torch.bool)) as seen:
        replayed = policy(input_ids=ids).logits
    assert 0 < int(seen.matched_N.sum()) < 18 * LAYERS * TOP_K

    def forced(layer: int) -> object:
        def forward(hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            logits = hidden @ routers(policy)[layer].weight.T
            chosen_logits = torch.stack([logits[n, experts_NEK[n, layer]] for n in range(len(logits))])
            return logits, chosen_logits.softmax(-1), experts_NEK[:, layer]

        return forward

    for layer, gate in enumerate(routers(policy)):
        gate.forward = forced(layer)  # type: ignore[method-assign,assignment]
    with torch.no_grad():
        by_hand = policy(input_ids=ids).logits
    torch.testing.assert_close(replayed, by_hand, rtol=1e-5, atol=1e-5)


def test_weights_are_left_as_probabilities_where_the_model_does_not_renormalise() -> None:
    policy = moe()
    policy.config.norm_topk_prob = False
    for gate in routers(policy):
        gate.norm_topk_prob = False
    seen: list[torch.Tensor] = []
    experts_NEK = torch.zeros(5, LAYERS, TOP_K, dtype=torch.long)
    experts_NEK[..., 1] = 3
    with torch.no_grad(), replay(policy, experts_NEK, torch.ones(5, dtype=torch.bool)):
        handle = routers(policy)[0].register_forward_hook(lambda _m, _a, out: seen.extend(out))
        policy(input_ids=torch.arange(5)[None])
        handle.remove()
    logits, weights, experts = seen
    assert torch.equal(experts, experts_NEK[:, 0])
    torch.testing.assert_close(weights, logits.softmax(-1)[:, [0, 3]])


def test_gradient_reaches_the_router_through_replayed_experts() -> None:
    policy = moe()
    batch = MicroBatch.of(rows(policy), routing="replay", device=CPU)
    logprobs(policy, batch, 1.0).logp_BT.sum().backward()
    for gate in routers(policy):
        assert gate.weight.grad is not None
        assert gate.weight.grad.abs().sum() > 0


def test_positions_without_a_record_use_their_own_router() -> None:
    policy = moe()
    ids = torch.randint(0, 64, (1, 8), generator=torch.Generator().manual_seed(3))
    wrong = torch.zeros(8, LAYERS, TOP_K, dtype=torch.long)
    wrong[..., 1] = 1
    with torch.no_grad():
        plain = policy(input_ids=ids).logits
        with replay(policy, wrong, torch.zeros(8, dtype=torch.bool)) as seen:
            unforced = policy(input_ids=ids).logits
        only_last = torch.arange(8) == 7
        with replay(policy, wrong, only_last):
            last_forced = policy(input_ids=ids).logits
    torch.testing.assert_close(unforced, plain, rtol=1e-6, atol=1e-6)
    assert not seen.matched_N.any()
    torch.testing.assert_close(last_forced[:, :-1], plain[:, :-1], rtol=1e-5, atol=1e-5)


def test_a_pass_of_another_size_is_refused() -> None:
    policy = moe()
    routes = torch.zeros(5, LAYERS, TOP_K, dtype=torch.long)
    with pytest.raises(CaptureError, match="5 positions for a pass over 6"), replay(policy, routes, torch.ones(5) > 0):
        policy(input_ids=torch.zeros(1, 6, dtype=torch.long))
    with pytest.raises(CaptureError, match="1 layers"), replay(policy, routes[:, :1], torch.ones(5) > 0):
        pass


def whole(routes: np.ndarray | None, recorded: int | None = None) -> Segment:
    return segment([1, 2, 3, 4], [0, 0, 1, 1], [-1.0] * 4, routes, recorded=recorded)


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        (whole(None), "no routes"),
        (whole(np.zeros((4, LAYERS, TOP_K), np.uint8)), "of shape"),
        (whole(np.zeros((3, LAYERS + 1, TOP_K), np.uint8)), "of shape"),
        (whole(np.zeros((3, LAYERS, TOP_K), np.uint8), recorded=2), "cover only 0.6667"),
        (whole(np.full((3, LAYERS, TOP_K), EXPERTS, np.uint8)), "names expert 4 of 4"),
    ],
)
def test_routes_that_cannot_be_replayed_are_refused(segment: Segment, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        check_routes([segment], moe())


def test_a_dense_policy_has_nothing_to_replay() -> None:
    dense = Qwen3ForCausalLM(
        Qwen3Config(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    )
    with pytest.raises(ConfigError, match="no router"):
        routers(dense)


@pytest.mark.parametrize("routing", ["replay", "own"])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("budget", [1, 90, 100_000])
def test_log_probs_are_those_of_each_segment_alone(routing: str, temperature: float, budget: int) -> None:
    policy = moe()
    made = rows(policy)
    batches = plan(made, budget, routing=routing, device=CPU)  # type: ignore[arg-type]
    assert (budget == 1) == (len(batches) == len(made))
    assert (budget == 100_000) == (len(batches) == 1)
    for batch in batches:
        assert batch.shared == (24 if len(batch.rows) > 1 else 0)
        with torch.no_grad():
            out = logprobs(policy, batch, temperature)
            expected = [alone(policy, row, temperature) for row in batch.rows]
        torch.testing.assert_close(out.logp_BT[batch.mask_BT], torch.cat(expected), rtol=1e-5, atol=2e-5)
        assert not out.logp_BT[~batch.mask_BT].any()
        own = LAYERS * TOP_K if routing == "replay" else 0
        assert torch.equal(out.matched_BT, batch.computed_BT * own)
        assert (out.entropy_N > 0).all()


def test_gradients_are_those_of_each_segment_alone() -> None:
    """To the precision of the RMS norms, which `transformers` computes in float32 even in a float64 model."""
    policy = moe(experts="eager").double()
    made = rows(policy)
    (batch,) = plan(made, 100_000, routing="replay", device=CPU)
    assert batch.shared == 24
    weight = torch.randn(batch.mask_BT.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (logprobs(policy, batch, 1.0).logp_BT * weight).sum().backward()
    together = {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}
    policy.zero_grad()
    for b, row in enumerate(batch.rows):
        one = MicroBatch.of([row], routing="replay", device=CPU)
        (logprobs(policy, one, 1.0).logp_BT * weight[b : b + 1, : one.mask_BT.shape[1]]).sum().backward()
    apart = {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}
    assert together.keys() == apart.keys()
    for name, gradient in together.items():
        torch.testing.assert_close(gradient, apart[name], rtol=1e-3, atol=1e-5)


def test_recorded_routes_of_a_rollout_are_the_routers_own() -> None:
    policy = moe()
    for trial in trials(policy, groups=1, size=2):
        (one,) = trial.segments
        assert one.routes is not None
        assert (one.routes == routes_of(policy, one.token_ids.tolist())).all()
        assert one.route_coverage == 1.0
