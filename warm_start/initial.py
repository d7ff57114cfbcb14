"""A policy that knows nothing yet, but whose attention is built to copy.

Invariant: no weight depends on any text. What is built in is a circuit, not knowledge: the *induction* circuit that
every trained language model grows (Olsson et al. 2022, "In-context learning and induction heads"), at its place from
the start, in the manner of mimetic initialisation (Trockman and Kolter 2023, arXiv 2305.09828). A policy of two million
parameters finds it by itself only after thousands of updates; built in, copying is learned within a hundred.

The circuit, with two random rotations of the residual stream, ``R1`` and ``R2``, that keep its channels apart:

* layer 0, two of three heads: attend to the previous token (rotary phases that peak at distance 1, driven by a
  direction ``m`` that all embeddings share) and write what they see into channel ``R1``;
* later layers: a query reads the present token, a key reads channel ``R1``, so a head attends to where the present
  token came before, one place further on; what it sees there goes into channel ``R2``;
* the unembedding reads channel ``R2``.

Suffixes: H hidden size, D head size, V vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

_AUTO: Any = AutoModelForCausalLM
_EMBEDDING_SCALE = 0.08
_SHARED_SCALE = 0.6
"""Length of ``m`` against that of a word's own embedding."""
_FIRST_WRITE = 0.5
"""Length of what layer 0 writes against that of an embedding."""
_LATER_WRITE = 1.5
_RESIDUAL_SCALE = 0.35
"""Scale of the experts' output projections: the stream should begin as the embedding."""
_NOISE = 0.3
_NORM_GAIN = 1.6
"""Gain of query and key norms: a match has to stand out among thousands of positions."""
_PREVIOUS_TOKEN_POWER = (0.35, 0.3, 0.2, 0.15)
"""How much of a query's length lies in each of the fastest rotary pairs, for heads that look at the previous token."""
_POSITIONAL_SHARE = 3 / 8
"""The faster rotary pairs turn within a trial; matching heads hardly use them."""
_POSITIONAL_DAMPING = 0.25


@dataclass(frozen=True)
class _Shape:
    hidden: int
    head: int
    heads: int
    key_heads: int
    theta: float

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.key_heads


class _Circuit:
    """Draws the parts of the circuit.

    Args:
        shape: Sizes of the attention.
        seed: Decides everything.
    """

    def __init__(self, shape: _Shape, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed)
        self.shape = shape
        self.first_HH, self.second_HH = self.rotation(), self.rotation()
        self.read_KH = self.rotation()[: shape.key_heads * shape.head]
        shared_H = self.normal(shape.hidden)
        shared_H -= self.read_KH.T @ (self.read_KH @ shared_H)
        self.shared_H = shared_H / shared_H.norm()

    def normal(self, *size: int) -> Tensor:
        """Standard normal numbers."""
        drawn: Tensor = torch.randn(*size, generator=self._random)
        return drawn

    def fan_in(self, *size: int) -> Tensor:
        """Normal numbers of variance 1 / columns."""
        return self.normal(*size) / math.sqrt(size[-1])

    def rotation(self) -> Tensor:
        """A random rotation, ``[H, H]``."""
        rotation: Tensor = torch.linalg.qr(self.normal(self.shape.hidden, self.shape.hidden))[0]
        return rotation

    def write(self, value_DH: Tensor, channel_HH: Tensor, length: float) -> Tensor:
        """Output projection that writes what a value projection read into a channel, ``[H, D]``.

        Args:
            value_DH: The value projection, with orthonormal rows.
            channel_HH: The channel's rotation.
            length: Of what all heads together write, against that of an embedding.
        """
        shape = self.shape
        normalised = math.sqrt(shape.key_heads * shape.head)  # length that all value heads read of a normalised vector
        embedding = _EMBEDDING_SCALE * math.sqrt(shape.hidden)
        return channel_HH @ value_DH.T * (length * embedding / normalised)

    def previous_token(self) -> tuple[Tensor, Tensor]:
        """Query and key projections ``[D, H]`` that attend to the previous token, whatever the tokens are."""
        half = self.shape.head // 2
        turn = self.shape.theta ** (-torch.arange(half) / half)
        power = torch.zeros(half)
        power[: len(_PREVIOUS_TOKEN_POWER)] = torch.tensor(_PREVIOUS_TOKEN_POWER)
        key_D = torch.cat([power.sqrt(), torch.zeros(half)])
        query_D = torch.cat([power.sqrt() * torch.cos(turn), -power.sqrt() * torch.sin(turn)])
        scale = math.sqrt(self.shape.head)
        return torch.outer(query_D, self.shared_H) * scale, torch.outer(key_D, self.shared_H) * scale

    def noise(self) -> Tensor:
        """What heads differ by, ``[D, H]``."""
        return _NOISE * self.fan_in(self.shape.head, self.shape.hidden)


def initial_policy(config: PretrainedConfig, seed: int) -> PreTrainedModel:
    """An untrained policy in float32.

    Args:
        config: Of a Qwen3-MoE with untied embeddings and at least two layers.
        seed: Decides every weight.
    """
    module: Any = _AUTO.from_config(config, dtype=torch.float32)
    shape = _Shape(
        hidden=config.hidden_size,
        head=config.head_dim,
        heads=config.num_attention_heads,
        key_heads=config.num_key_value_heads,
        theta=float(config.rope_parameters["rope_theta"]),
    )
    circuit = _Circuit(shape, seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() > 1:
                scale = _RESIDUAL_SCALE if name.endswith("down_proj") else 1.0
                parameter.copy_(scale * circuit.fan_in(*parameter.shape))
        _set_embeddings(module, circuit)
        for index, layer in enumerate(module.base_model.layers):
            attention = layer.self_attn
            attention.q_norm.weight.fill_(_NORM_GAIN)
            attention.k_norm.weight.fill_(_NORM_GAIN)
            (_set_matching if index else _set_previous_token)(attention, circuit)
    policy: PreTrainedModel = module.eval()
    return policy


def _set_embeddings(module: Any, circuit: _Circuit) -> None:
    embedding_VH: Tensor = module.base_model.embed_tokens.weight
    embedding_VH.copy_(_EMBEDDING_SCALE * circuit.normal(*embedding_VH.shape))
    module.lm_head.weight.copy_(embedding_VH @ circuit.second_HH.T)
    embedding_VH.add_(_EMBEDDING_SCALE * _SHARED_SCALE * math.sqrt(circuit.shape.hidden) * circuit.shared_H)


def _set_previous_token(attention: Any, circuit: _Circuit) -> None:
    """Layer 0; the last head of each group stays free."""
    size, group = circuit.shape.head, circuit.shape.group
    query_DH, key_DH = circuit.previous_token()
    attention.v_proj.weight.copy_(circuit.read_KH)
    for head in range(circuit.shape.heads):
        own, shared = _slice(head, size), _slice(head // group, size)
        free = group > 1 and head % group == group - 1
        attention.q_proj.weight[own] = circuit.noise() + (0.0 if free else query_DH)
        attention.k_proj.weight[shared] = circuit.noise() + key_DH
        value_DH = circuit.read_KH[shared]
        length = 0.0 if free else _FIRST_WRITE / max(1, group - 1)
        attention.o_proj.weight[:, own] = circuit.write(value_DH, circuit.first_HH, length)


def _set_matching(attention: Any, circuit: _Circuit) -> None:
    size, group, half = circuit.shape.head, circuit.shape.group, circuit.shape.head // 2
    slow = torch.arange(half) >= half * _POSITIONAL_SHARE
    damping_D1 = torch.where(slow, 1.0, _POSITIONAL_DAMPING).repeat(2)[:, None]
    values_KH = circuit.rotation()[: circuit.shape.key_heads * size]
    attention.v_proj.weight.copy_(values_KH)
    for head in range(circuit.shape.heads):
        own, shared = _slice(head, size), _slice(head // group, size)
        read_DH = circuit.read_KH[shared] * damping_D1
        attention.q_proj.weight[own] = read_DH + circuit.noise() * damping_D1
        attention.k_proj.weight[shared] = read_DH @ circuit.first_HH.T
        attention.o_proj.weight[:, own] = circuit.write(values_KH[shared], circuit.second_HH, _LATER_WRITE / group)


def _slice(head: int, size: int) -> slice:
    return slice(head * size, (head + 1) * size)
