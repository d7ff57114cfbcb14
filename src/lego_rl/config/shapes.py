"""The shape of a policy: what its sizes say of memory, and of how it can be spread over GPUs.

A policy's ``config.json`` gives it. Where a recipe is checked and its policy is not there, the table of published
models below does, by the last part of the policy's path. Its numbers are those of the models' cards and of
transformers' configurations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lego_rl.documents import read_json
from lego_rl.errors import ConfigError

_BILLION = 10**9


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a causal language model, of its text part where it has others.

    Attributes:
        model_type: transformers' name of the architecture.
        layers: All layers.
        attention_layers: Those of full attention, whose cache grows with the context.
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key-value heads.
        head_dim: Width of a head.
        vocabulary: Rows of the embedding.
        tied: Whether the output projection is the embedding.
        context: Most positions.
        intermediate: Width of a dense layer's MLP; 0 where every layer has experts.
        experts: Experts of a layer; 0 for a dense model.
        top_k: Experts that a token is routed to.
        expert_intermediate: Width of one expert.
        shared_intermediate: Width of the expert that all tokens take; 0 for none.
        linear_key_heads: Key heads of a gated delta-net layer; 0 for none.
        linear_value_heads: Value heads of one.
        linear_head_dim: Width of its heads.
        gated_attention: Whether query heads have a gate, as wide as they are.
        vision: Parameters of a vision tower.
        tool_parser: The format in which its own chat template writes tool calls, where that is known.
    """

    model_type: str
    layers: int
    attention_layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    context: int
    intermediate: int = 0
    experts: int = 0
    top_k: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    linear_key_heads: int = 0
    linear_value_heads: int = 0
    linear_head_dim: int = 0
    gated_attention: bool = False
    vision: int = 0
    tool_parser: str | None = None

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers are gated delta-nets."""
        return self.attention_layers < self.layers

    @property
    def attention_parameters(self) -> int:
        """Of one layer of full attention."""
        queries = self.heads * self.head_dim * (2 if self.gated_attention else 1)
        return self.hidden * (queries + 2 * self.kv_heads * self.head_dim + self.heads * self.head_dim)

    @property
    def linear_parameters(self) -> int:
        """Of one gated delta-net layer: queries, keys, values, output gate, its two scalars a head, output."""
        keys, values = self.linear_key_heads * self.linear_head_dim, self.linear_value_heads * self.linear_head_dim
        return self.hidden * (2 * keys + 2 * values + 2 * self.linear_value_heads + values)

    @property
    def mlp_parameters(self) -> int:
        """Of one layer's experts and router, or of its MLP."""
        if not self.experts:
            return 3 * self.hidden * self.intermediate
        widths = self.experts * self.expert_intermediate + self.shared_intermediate
        return 3 * self.hidden * widths + self.hidden * self.experts

    @property
    def layer_parameters(self) -> int:
        """Of the largest layer."""
        linear = self.linear_parameters if self.is_hybrid else 0
        return max(self.attention_parameters, linear) + self.mlp_parameters

    @property
    def parameters(self) -> int:
        """All of them, norms and biases left out."""
        attention = self.attention_layers * self.attention_parameters
        linear = (self.layers - self.attention_layers) * self.linear_parameters
        embedding = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return attention + linear + self.layers * self.mlp_parameters + embedding + self.vision

    @property
    def cache_bytes(self) -> int:
        """Key-value cache of one token, in bfloat16."""
        return 2 * 2 * self.attention_layers * self.kv_heads * self.head_dim

    @classmethod
    def of_config(cls, raw: Mapping[str, Any]) -> Self:
        """From the content of a ``config.json``.

        Raises:
            ConfigError: A size is missing.
        """
        text = raw.get("text_config", raw)
        try:
            return cls._of_text(raw, text)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"config.json of the policy does not say its sizes: {error}", "save the policy again"
            ) from error

    @classmethod
    def _of_text(cls, raw: Mapping[str, Any], text: Mapping[str, Any]) -> Self:
        layers, heads = int(text["num_hidden_layers"]), int(text["num_attention_heads"])
        experts = int(text.get("num_experts") or text.get("num_local_experts") or 0)
        return cls(
            model_type=str(raw.get("model_type", "")),
            layers=layers,
            attention_layers=_attention_layers(text, layers),
            hidden=int(text["hidden_size"]),
            heads=heads,
            kv_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=int(text.get("head_dim") or int(text["hidden_size"]) // heads),
            vocabulary=int(text["vocab_size"]),
            tied=bool(raw.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
            context=int(text["max_position_embeddings"]),
            intermediate=0 if experts else int(text["intermediate_size"]),
            experts=experts,
            top_k=int(text.get("num_experts_per_tok") or 0) if experts else 0,
            expert_intermediate=int(text["moe_intermediate_size"]) if experts else 0,
            shared_intermediate=int(text.get("shared_expert_intermediate_size") or 0) if experts else 0,
            linear_key_heads=int(text.get("linear_num_key_heads") or 0),
            linear_value_heads=int(text.get("linear_num_value_heads") or 0),
            linear_head_dim=int(text.get("linear_value_head_dim") or 0),
            gated_attention=bool(text.get("linear_num_value_heads")),
        )


def _attention_layers(text: Mapping[str, Any], layers: int) -> int:
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        return sum(kind != "linear_attention" for kind in kinds)
    interval = int(text.get("full_attention_interval") or 1)
    return layers // interval if text.get("linear_num_value_heads") else layers


def shape_of(policy: str) -> ModelShape | None:
    """The shape of a policy as a recipe names it; ``None`` where nothing here knows it.

    Args:
        policy: A directory or a hub name.

    Raises:
        ConfigError: The directory's ``config.json`` is damaged.
    """
    config = Path(policy) / "config.json"
    if config.is_file():
        try:
            return ModelShape.of_config(read_json(config.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{config} cannot be read: {error}", "save the policy again") from error
    return PUBLISHED.get(Path(policy).name)


_QWEN3 = {"vocabulary": 151_936, "head_dim": 128, "tool_parser": "hermes"}
_QWEN35 = {
    "model_type": "qwen3_5_moe",
    "heads": 16,
    "kv_heads": 2,
    "head_dim": 256,
    "vocabulary": 248_320,
    "tied": False,
    "context": 262_144,
    "linear_key_heads": 16,
    "linear_head_dim": 128,
    "gated_attention": True,
    "tool_parser": "qwen3_coder",
}


def _published(**sizes: Any) -> ModelShape:
    return ModelShape(**sizes)


_QWEN35_35B = _published(
    **_QWEN35,
    layers=40,
    attention_layers=10,
    hidden=2048,
    experts=256,
    top_k=8,
    expert_intermediate=512,
    shared_intermediate=512,
    linear_value_heads=32,
    vision=int(0.45 * _BILLION),
)
_QWEN3_30B = _published(
    **_QWEN3,
    model_type="qwen3_moe",
    layers=48,
    attention_layers=48,
    hidden=2048,
    heads=32,
    kv_heads=4,
    tied=False,
    context=262_144,
    experts=128,
    top_k=8,
    expert_intermediate=768,
)

PUBLISHED: Mapping[str, ModelShape] = {
    "Qwen3.5-35B-A3B": _QWEN35_35B,
    "Qwen3.6-35B-A3B": _QWEN35_35B,
    "Qwen3-30B-A3B-Instruct-2507": _QWEN3_30B,
    "Qwen3-Coder-30B-A3B-Instruct": _published(**{**vars(_QWEN3_30B), "tool_parser": "qwen3_coder"}),
    "Qwen3-0.6B": _published(
        **_QWEN3,
        model_type="qwen3",
        layers=28,
        attention_layers=28,
        hidden=1024,
        heads=16,
        kv_heads=8,
        tied=True,
        context=40_960,
        intermediate=3072,
    ),
    "Qwen3-1.7B": _published(
        **_QWEN3,
        model_type="qwen3",
        layers=28,
        attention_layers=28,
        hidden=2048,
        heads=16,
        kv_heads=8,
        tied=True,
        context=40_960,
        intermediate=6144,
    ),
}
"""Published models, by the name of their repository."""
