"""The shape of a policy, read once from its `transformers` config.

Invariant: a `Geometry` describes exactly what `forward` computes. A config that asks for anything else (a sliding
window, another activation, a scaled rotary embedding) is refused here, so no policy is ever sampled with other maths
than its own.
"""

from dataclasses import dataclass

from transformers import PretrainedConfig

from lego_rl.errors import ConfigError

MAX_ROUTED_EXPERTS = 256
"""Routes are recorded as uint8."""


@dataclass(frozen=True)
class Geometry:
    """Sizes and constants of a Qwen3 or Qwen3-MoE decoder.

    Attributes:
        vocab: Rows of the embedding.
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key and value heads; each serves ``heads / kv_heads`` query heads.
        head_dim: Width of one head.
        context: Most positions of one sequence.
        eps: Epsilon of every RMS norm.
        rope_theta: Base of the rotary embedding.
        routed: For each layer, whether its MLP is a mixture of experts.
        experts: Experts of a routed layer; 0 for a dense model.
        top_k: Experts a token uses; 0 for a dense model.
        normalise_top_k: Whether the chosen experts' probabilities are divided by their sum.
        tied: Whether the output projection is the embedding.
    """

    vocab: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    eps: float
    rope_theta: float
    routed: tuple[bool, ...]
    experts: int
    top_k: int
    normalise_top_k: bool
    tied: bool

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.routed)

    @property
    def routed_layers(self) -> int:
        """Layers with a router: the ``layers`` axis of recorded routes."""
        return sum(self.routed)

    @classmethod
    def from_config(cls, config: PretrainedConfig) -> "Geometry":
        """Read the sizes of a policy.

        Args:
            config: A ``qwen3`` or ``qwen3_moe`` config of `transformers`.

        Raises:
            ConfigError: The config asks for something this engine does not compute.
        """
        _refuse_unsupported(config)
        moe = config.model_type == "qwen3_moe"
        return cls(
            vocab=config.vocab_size,
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim or config.hidden_size // config.num_attention_heads,
            context=config.max_position_embeddings,
            eps=config.rms_norm_eps,
            rope_theta=float(config.rope_parameters["rope_theta"]),
            routed=tuple(moe and _is_routed(config, layer) for layer in range(config.num_hidden_layers)),
            experts=config.num_experts if moe else 0,
            top_k=config.num_experts_per_tok if moe else 0,
            normalise_top_k=bool(moe and config.norm_topk_prob),
            tied=bool(config.tie_word_embeddings),
        )


def _is_routed(config: PretrainedConfig, layer: int) -> bool:
    return (
        layer not in config.mlp_only_layers and config.num_experts > 0 and (layer + 1) % config.decoder_sparse_step == 0
    )


def _refuse_unsupported(config: PretrainedConfig) -> None:
    if config.model_type not in ("qwen3", "qwen3_moe"):
        raise ConfigError(
            f"the embedded engine samples from qwen3 and qwen3_moe policies, not {config.model_type}",
            "serve other architectures with vLLM",
        )
    rope_type = config.rope_parameters["rope_type"]
    wanted = {
        "hidden_act": (config.hidden_act, "silu"),
        "attention_bias": (config.attention_bias, False),
        "use_sliding_window": (config.use_sliding_window, False),
        "rope_parameters.rope_type": (rope_type, "default"),
    }
    for name, (found, supported) in wanted.items():
        if found != supported:
            raise ConfigError(
                f"the policy's config has {name} = {found!r}, the embedded engine computes {supported!r} only",
                "change the policy, or serve it with vLLM",
            )
    if config.model_type != "qwen3_moe":
        return
    if not 1 <= config.num_experts_per_tok <= config.num_experts:
        raise ConfigError(
            f"a token cannot use {config.num_experts_per_tok} of {config.num_experts} experts",
            "mend num_experts_per_tok in the policy's config.json",
        )
    if config.num_experts > MAX_ROUTED_EXPERTS:
        raise ConfigError(
            f"{config.num_experts} experts do not fit recorded routes of one byte ({MAX_ROUTED_EXPERTS} at most)",
            "use a policy with fewer experts",
        )
