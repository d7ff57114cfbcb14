"""Settings of training: every number of the loss, the optimizer and the fidelity gate, with the field's defaults.

Invariant: importing this module imports no torch, so that a recipe can be read and printed without it.
"""

from typing import Annotated, Literal

from pydantic import Field

from lego_rl.settings import Settings

Decay = Annotated[float, Field(ge=0, lt=1)]
"""Decay rate of a moving average."""


class OptimizerSettings(Settings):
    """AdamW with a constant learning rate."""

    lr: float = Field(default=1e-6, gt=0)
    """Learning rate, the same at every step."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Decay of the first and second moment."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the root of the second moment."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled weight decay."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest L2 norm of the gradient of one update."""


class NoCorrection(Settings):
    """Behaviour log-probs stay out of the loss."""

    kind: Literal["none"] = "none"


class TokenTruncation(Settings):
    """Each token's loss is weighed by old ÷ behaviour probability, truncated from above."""

    kind: Literal["token"] = "token"
    cap: float = Field(default=2.0, gt=0)
    """Largest weight."""


class SequenceTruncation(Settings):
    """Each segment's loss is weighed by old ÷ behaviour probability of all its sampled tokens, truncated from above."""

    kind: Literal["sequence"] = "sequence"
    cap: float = Field(default=2.0, gt=0)
    """Largest weight."""


type ImportanceSettings = Annotated[NoCorrection | TokenTruncation | SequenceTruncation, Field(discriminator="kind")]


class LossSettings(Settings):
    """GSPO with a penalty for leaving the reference."""

    clip_low: float = Field(default=3e-4, gt=0, lt=1)
    """The sequence ratio is clipped below ``1 - clip_low``."""
    clip_high: float = Field(default=4e-4, gt=0)
    """The sequence ratio is clipped above ``1 + clip_high``."""
    kl_coefficient: float = Field(default=1e-3, ge=0)
    """Weight of the low-variance KL to the reference; 0 leaves the reference out altogether."""
    importance: ImportanceSettings = TokenTruncation()
    """How the difference between the engine that sampled and the trainer is corrected."""


class GateSettings(Settings):
    """Limits within which engine and trainer must agree, over the tokens sampled under the weights compared.

    The defaults are for a bfloat16 engine against a float32 trainer with routing replay. Measured there on random
    Qwen3-MoE policies: Pearson of log-probs 0.99985, mean |Δ| 0.015, largest 0.12, k3 2e-4. A float32 engine agrees to
    1e-6 and deserves tighter limits; without replay a bfloat16 engine needs looser ones. A temperature 10 % off shows
    as mean |Δ| 0.10 and k3 7e-3; routes off by one, old weights, a damaged expert or another prompt show as more.
    """

    min_pearson_probs: float = Field(default=0.99, ge=-1, le=1)
    """Least Pearson correlation of probabilities (verl's metric)."""
    min_pearson_logprobs: float = Field(default=0.999, ge=-1, le=1)
    """Least Pearson correlation of log-probs."""
    max_mean_abs: float = Field(default=0.04, gt=0)
    """Largest mean of |engine - trainer| log-prob, in nats."""
    max_abs: float = Field(default=1.0, gt=0)
    """Largest |engine - trainer| log-prob of any one token, in nats."""
    max_k3: float = Field(default=2e-3, gt=0)
    """Largest mean k3 estimate of KL(engine ‖ trainer), in nats a token."""
    min_route_overlap: float = Field(default=0.9, ge=0, le=1)
    """Least share of recorded experts that the trainer's own router chooses too, given the same inputs."""
    flat_sd: float = Field(default=0.05, ge=0)
    """Below this standard deviation of the engine's log-probs a correlation says nothing and |Δ| alone decides."""
    min_compared_fraction: float = Field(default=0.25, gt=0, le=1)
    """Least share of trained tokens that were sampled under the weights compared."""
    first_token_share: float = Field(default=0.5, gt=0)
    """Diagnosis: an error that starts at a call's first token is at least this share of the mean error there."""
    explained: float = Field(default=0.3, gt=0, lt=1)
    """Diagnosis: a cause explains a gap when undoing it leaves at most this share of the mean |Δ|."""


class TrainSettings(Settings):
    """One training step: what is learned from a batch of trials and how."""

    updates: int = Field(default=1, ge=1)
    """Optimizer updates a step; the prompts of a step are split evenly among them."""
    routing: Literal["replay", "own"] = "replay"
    """``replay`` (R3): the experts recorded by the engine; ``own``: the trainer's router chooses again."""
    microbatch_tokens: int = Field(default=6144, ge=1)
    """Most positions computed in one forward pass, padding included; one longer segment is computed alone."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads of one operator during a step; left out, what torch has in the thread that takes the step. A resumed
    run equals the one that was not interrupted bit by bit only with the same number."""
    loss: LossSettings = LossSettings()
    """The objective."""
    optimizer: OptimizerSettings = OptimizerSettings()
    """The optimizer."""
    gate: GateSettings = GateSettings()
    """The fidelity gate."""
