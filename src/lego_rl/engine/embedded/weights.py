"""The weights as the lean forward wants them: the projections that read the same input are one matrix.

Invariant: fusing is copying. Every number is the state dict's own, cast once to the engine's dtype, so `digest` of what
an engine holds equals `state_digest` of the state dict it was loaded from, and differs after any change to either.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lego_rl.engine.embedded.geometry import Geometry
from lego_rl.errors import ConfigError


@dataclass(frozen=True)
class DenseMlp:
    """A gated MLP: ``gate_up [2 I, hidden]`` (gate rows first) and ``down [hidden, I]``."""

    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class ExpertMlp:
    """A mixture of experts.

    Attributes:
        router: ``[E, hidden]``.
        gate_up: ``[E, 2 I, hidden]``, gate rows first.
        down: ``[E, I, hidden]``: transposed, so that all experts together are one ``[E I, hidden]`` matrix.
    """

    router: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer.

    Attributes:
        input_norm: ``[hidden]``.
        qkv: ``[(heads + 2 kv_heads) head_dim, hidden]``: queries, keys, values.
        qk_norm: ``[heads + kv_heads, head_dim]``: the query norm's weight for each query head, then the key norm's.
        out: ``[hidden, heads head_dim]``.
        post_norm: ``[hidden]``.
        mlp: Dense or routed.
    """

    input_norm: Tensor
    qkv: Tensor
    qk_norm: Tensor
    out: Tensor
    post_norm: Tensor
    mlp: DenseMlp | ExpertMlp


@dataclass(frozen=True)
class Weights:
    """All weights of a policy, in the engine's dtype and on its device.

    Attributes:
        geometry: The shape they have.
        embedding: ``[vocab, hidden]``.
        layers: The decoder layers in order.
        norm: ``[hidden]``, the last norm.
        head: ``[vocab, hidden]``; the same tensor as `embedding` where the two are tied.
    """

    geometry: Geometry
    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor

    @classmethod
    def from_state_dict(
        cls, state: Mapping[str, Tensor], geometry: Geometry, dtype: torch.dtype, device: torch.device
    ) -> "Weights":
        """Copy and fuse the state dict of a ``Qwen3ForCausalLM`` or ``Qwen3MoeForCausalLM`` module.

        Args:
            state: ``module.state_dict()``; of any dtype and device, left untouched.
            geometry: The shape of the policy.
            dtype: What the engine computes in.
            device: Where.

        Raises:
            ConfigError: A tensor is missing or has another shape than the policy.
        """
        reader = _Reader(state, dtype, device)
        g = geometry
        embedding = reader("model.embed_tokens.weight", g.vocab, g.hidden)
        return cls(
            geometry=g,
            embedding=embedding,
            layers=tuple(_read_layer(reader, g, layer) for layer in range(g.layers)),
            norm=reader("model.norm.weight", g.hidden),
            head=embedding if g.tied else reader("lm_head.weight", g.vocab, g.hidden),
        )

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of every weight."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """Device of every weight."""
        return self.embedding.device

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """The weights under their names in the state dict, as views of the fused tensors, in a fixed order."""
        g = self.geometry
        yield "model.embed_tokens.weight", self.embedding
        for number, layer in enumerate(self.layers):
            prefix = f"model.layers.{number}"
            keys, values = g.heads * g.head_dim, (g.heads + g.kv_heads) * g.head_dim
            q, k, v = layer.qkv.tensor_split([keys, values])
            yield f"{prefix}.input_layernorm.weight", layer.input_norm
            yield f"{prefix}.self_attn.q_proj.weight", q
            yield f"{prefix}.self_attn.k_proj.weight", k
            yield f"{prefix}.self_attn.v_proj.weight", v
            yield f"{prefix}.self_attn.q_norm.weight", layer.qk_norm[0]
            yield f"{prefix}.self_attn.k_norm.weight", layer.qk_norm[g.heads]
            yield f"{prefix}.self_attn.o_proj.weight", layer.out
            yield f"{prefix}.post_attention_layernorm.weight", layer.post_norm
            yield from _named_mlp(prefix, layer.mlp)
        yield "model.norm.weight", self.norm
        if not g.tied:
            yield "lm_head.weight", self.head

    def digest(self) -> str:
        """BLAKE2b-128 of every name, shape and byte: two engines sample from equal weights iff their digests agree."""
        hashed = hashlib.blake2b(digest_size=16)
        for name, weight in self.named():
            hashed.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
            hashed.update(weight.contiguous().reshape(-1).view(torch.uint8).cpu().numpy())
        return hashed.hexdigest()


def state_digest(state: Mapping[str, Tensor], geometry: Geometry, dtype: torch.dtype) -> str:
    """The digest that an engine of `dtype` reports after loading `state`.

    A trainer compares it with `EmbeddedEngine.weights_digest` to prove that the engine samples from its weights.

    Args:
        state: ``module.state_dict()`` of the trainer.
        geometry: The shape of the policy.
        dtype: The engine's dtype, not the trainer's.
    """
    return Weights.from_state_dict(state, geometry, dtype, torch.device("cpu")).digest()


class _Reader:
    """Takes tensors out of a state dict: checked, cast and copied."""

    def __init__(self, state: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device) -> None:
        self._state = state
        self._dtype = dtype
        self._device = device

    def __call__(self, name: str, *shape: int) -> Tensor:
        weight = self._state.get(name)
        if weight is None:
            raise ConfigError(
                f"the state dict has no {name}", "pass module.state_dict() of the policy that the engine was built for"
            )
        if -1 not in shape and tuple(weight.shape) != shape:
            raise ConfigError(
                f"{name} has shape {tuple(weight.shape)}, the policy needs {shape}",
                "load weights of the architecture that the engine was built for",
            )
        return weight.detach().to(self._device, self._dtype, copy=True)


def _read_layer(read: _Reader, g: Geometry, number: int) -> LayerWeights:
    prefix = f"model.layers.{number}"
    attention = f"{prefix}.self_attn"
    query_rows, kv_rows = g.heads * g.head_dim, g.kv_heads * g.head_dim
    q_norm = read(f"{attention}.q_norm.weight", g.head_dim).expand(g.heads, -1)
    k_norm = read(f"{attention}.k_norm.weight", g.head_dim).expand(g.kv_heads, -1)
    return LayerWeights(
        input_norm=read(f"{prefix}.input_layernorm.weight", g.hidden),
        qkv=torch.cat(
            [
                read(f"{attention}.q_proj.weight", query_rows, g.hidden),
                read(f"{attention}.k_proj.weight", kv_rows, g.hidden),
                read(f"{attention}.v_proj.weight", kv_rows, g.hidden),
            ]
        ),
        qk_norm=torch.cat([q_norm, k_norm]),
        out=read(f"{attention}.o_proj.weight", g.hidden, query_rows),
        post_norm=read(f"{prefix}.post_attention_layernorm.weight", g.hidden),
        mlp=_read_experts(read, g, prefix) if g.routed[number] else _read_dense(read, prefix),
    )


def _read_dense(read: _Reader, prefix: str) -> DenseMlp:
    gate = read(f"{prefix}.mlp.gate_proj.weight", -1)
    up = read(f"{prefix}.mlp.up_proj.weight", *gate.shape)
    return DenseMlp(torch.cat([gate, up]), read(f"{prefix}.mlp.down_proj.weight", gate.shape[1], gate.shape[0]))


def _read_experts(read: _Reader, g: Geometry, prefix: str) -> ExpertMlp:
    down = read(f"{prefix}.mlp.experts.down_proj", -1)
    inner = down.shape[-1]
    return ExpertMlp(
        router=read(f"{prefix}.mlp.gate.weight", g.experts, g.hidden),
        gate_up=read(f"{prefix}.mlp.experts.gate_up_proj", g.experts, 2 * inner, g.hidden),
        down=down.transpose(1, 2).contiguous(),
    )


def _named_mlp(prefix: str, mlp: DenseMlp | ExpertMlp) -> Iterator[tuple[str, Tensor]]:
    if isinstance(mlp, DenseMlp):
        gate, up = mlp.gate_up.chunk(2)
        yield f"{prefix}.mlp.gate_proj.weight", gate
        yield f"{prefix}.mlp.up_proj.weight", up
        yield f"{prefix}.mlp.down_proj.weight", mlp.down
    else:
        yield f"{prefix}.mlp.gate.weight", mlp.router
        yield f"{prefix}.mlp.experts.gate_up_proj", mlp.gate_up
        yield f"{prefix}.mlp.experts.down_proj", mlp.down.transpose(1, 2)
