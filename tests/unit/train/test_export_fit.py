"""Every tensor of a folder has one origin among the trained ones, whatever either side calls it."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from lego_rl.errors import RunError
from lego_rl.train.export.fit import fit

E, INNER, HIDDEN = 3, 4, 2
LAYER = "model.layers.0.mlp.experts"
GATE, UP = torch.randn(E, INNER, HIDDEN), torch.randn(E, INNER, HIDDEN)
DOWN = torch.randn(E, HIDDEN, INNER)
REST = {"model.embed_tokens.weight": torch.randn(5, HIDDEN), "model.norm.weight": torch.randn(HIDDEN)}
HEAD = {"lm_head.weight": torch.randn(5, HIDDEN)}
FUSED = {f"{LAYER}.gate_up_proj": torch.cat([GATE, UP], 1), f"{LAYER}.down_proj": DOWN}
STACKED = {f"{LAYER}.gate_proj": GATE, f"{LAYER}.up_proj": UP, f"{LAYER}.down_proj": DOWN}
SPLIT = {
    f"{LAYER}.{number}.{part}_proj.weight": weights[number]
    for number in range(E)
    for part, weights in (("gate", GATE), ("up", UP), ("down", DOWN))
}
VISION = {"model.visual.blocks.0.weight": torch.randn(2), "model.visual.blocks.1.weight": torch.randn(2)}


def shapes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def wrapped(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.replace("model.", "model.language_model.", 1): weight for name, weight in weights.items()}


@pytest.mark.parametrize("trained", [FUSED, STACKED, SPLIT], ids=["fused", "stacked", "split"])
@pytest.mark.parametrize("base", [FUSED, STACKED, SPLIT], ids=["fused", "stacked", "split"])
def test_experts_are_found_however_they_are_stacked(base: dict[str, Tensor], trained: dict[str, Tensor]) -> None:
    base, trained = base | REST | HEAD, wrapped(trained | REST) | HEAD
    found = fit(shapes(base), shapes(trained), tied=False)
    assert not found.untouched
    for name, weight in base.items():
        assert torch.equal(found.trained[name].build(trained.__getitem__), weight), name


def test_a_tower_that_the_trainer_never_held_is_untouched() -> None:
    extra = {"mtp.fc.weight": torch.randn(2)}
    found = fit(shapes(wrapped(REST) | HEAD | VISION | extra), shapes(REST | HEAD), tied=False)
    assert found.untouched == VISION.keys() | extra.keys()
    held = fit(shapes(wrapped(REST) | HEAD | VISION), shapes(wrapped(REST) | HEAD | VISION), tied=False)
    assert not held.untouched


def test_a_part_of_a_tower_is_no_checkpoint() -> None:
    some = dict([next(iter(VISION.items()))])
    with pytest.raises(RunError, match=r"only a part of model.visual: model.visual.blocks.1.weight"):
        fit(shapes(REST | HEAD | VISION), shapes(REST | HEAD | some), tied=False)


def test_nothing_of_the_language_model_may_be_missing() -> None:
    for name in REST | HEAD | FUSED:
        trained = {other: weight for other, weight in (REST | HEAD | FUSED).items() if other != name}
        with pytest.raises(RunError, match=f"lacks {name}"):
            fit(shapes(REST | HEAD | FUSED), shapes(trained), tied=False)


def test_an_expert_that_is_missing_is_noticed() -> None:
    trained = {name: weight for name, weight in SPLIT.items() if ".1.up_proj" not in name}
    with pytest.raises(RunError, match="lacks"):
        fit(shapes(REST | HEAD | FUSED), shapes(REST | HEAD | trained), tied=False)
    fewer = {name: weight[:2] for name, weight in FUSED.items()}
    with pytest.raises(RunError, match=r"experts.2.gate_proj.weight was trained with shape \[\]"):
        fit(shapes(REST | HEAD | SPLIT), shapes(REST | HEAD | fewer), tied=False)


def test_a_tied_head_is_the_embedding() -> None:
    alone = fit(shapes(REST), shapes(REST | HEAD), tied=True)
    assert alone.tied_head == "lm_head.weight"
    both = fit(shapes(REST | HEAD), shapes(REST), tied=True)
    assert both.trained["lm_head.weight"].names() == {"model.embed_tokens.weight"}


@pytest.mark.parametrize(
    ("name", "advice"),
    [("model.layers.0.q_proj.lora_A.weight", "merge the adapters"), ("model.layers.9.norm.weight", "--base DIR")],
)
def test_a_trained_weight_without_a_place_is_refused(name: str, advice: str) -> None:
    with pytest.raises(RunError, match=f"1 trained weights have no place .* {name}; .*{advice}"):
        fit(shapes(REST | HEAD), shapes(REST | HEAD | {name: torch.zeros(1)}), tied=False)


def test_shapes_must_be_those_of_the_base() -> None:
    other = REST | {"model.embed_tokens.weight": torch.zeros(6, HIDDEN)}
    with pytest.raises(RunError, match=r"trained with shape \[6, 2\], the policy that is exported to has \[5, 2\]"):
        fit(shapes(REST | HEAD), shapes(other | HEAD), tied=False)


def test_one_weight_under_two_names_is_refused() -> None:
    with pytest.raises(RunError, match="holds one weight twice"):
        fit(shapes(REST), shapes(REST | wrapped(REST)), tied=True)
