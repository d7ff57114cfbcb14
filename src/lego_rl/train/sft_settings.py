"""Settings of supervised fine-tuning.

Invariant: importing this module imports no torch, so that a recipe can be read and printed without it.
"""

from typing import Literal

from pydantic import Field

from lego_rl.settings import Settings
from lego_rl.train.settings import OptimizerSettings


class SftOptimizerSettings(OptimizerSettings):
    """AdamW; its learning rate follows the schedule."""

    lr: float = Field(default=1e-3, gt=0)
    """Learning rate, the highest of the schedule."""


class SftSettings(Settings):
    """How demonstrations are learned from."""

    steps: int = Field(ge=0)
    """Optimizer updates."""
    batch: int = Field(default=16, ge=1)
    """Segments of one update; every segment is seen once before any is seen twice."""
    microbatch_tokens: int = Field(default=8192, ge=1)
    """Most positions computed in one forward pass, padding included; one longer segment is computed alone."""
    optimizer: SftOptimizerSettings = SftOptimizerSettings()
    """The optimizer."""
    warmup: int = Field(default=20, ge=0)
    """Updates over which the learning rate rises from 0."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """The learning rate after that: held, or lowered along a half cosine to `final_lr`."""
    final_lr: float = Field(default=0.1, ge=0, le=1)
    """Where the cosine ends, as a share of the highest learning rate."""
    balance: float = Field(default=1e-3, ge=0)
    """Weight of the load-balancing loss of a mixture of experts; 0 leaves it out."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Updates between checkpoints."""
    keep_checkpoints: int = Field(default=1, ge=1)
    """How many of the latest checkpoints are kept."""
    seed: int = Field(default=0, ge=0)
    """Seeds the order of the segments."""
