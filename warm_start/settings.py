"""Sizes of a build of the warm start: the shipped one, and one small enough for a test."""

from pydantic import Field

from lego_rl.harness.base import OptionValue
from lego_rl.settings import Settings
from lego_rl.train.sft_settings import SftOptimizerSettings, SftSettings
from warm_start.capture import CaptureSettings


class BuildSettings(Settings):
    """How much of everything."""

    vocabulary: int = Field(default=1792, ge=512)
    """Tokens, and rows of the embedding."""
    phrases: SftSettings
    """Drills of repeated phrases."""
    lookups: SftSettings
    """Drills of looking things up, without a prompt."""
    prompted: SftSettings
    """The same drills under the fixed prompts of the harnesses."""
    captures: tuple[CaptureSettings, ...] = Field(min_length=1)
    """Demonstrations of each harness."""
    sft: SftSettings
    """Fine-tuning on the demonstrations."""
    seed: int = 0
    """Seeds the initial weights and the drills."""


OPENHANDS_OPTIONS: dict[str, OptionValue] = {
    "tools": ["terminal", "file_editor"],
    "builtin_tools": ["FinishTool"],
    "system_prompt": "You are a coding agent. Fix the issue in the repository, then call finish.",
}
"""A prompt that suits a small context; the OpenHands recipe of the demo has the same options."""

OPENCODE_OPTIONS: dict[str, OptionValue] = {
    "disabled_tools": ["glob", "grep", "skill", "task", "todowrite", "webfetch"],
    "system_prompt": "You are a coding agent. Fix the issue in the repository.",
}
"""The same for OpenCode: what is left is bash, read, edit and write, 4,200 tokens of the demo's small vocabulary."""


def tiny_optimizer(lr: float) -> SftOptimizerSettings:
    """Tiny policies take large steps, and forget the second moment sooner than large ones."""
    return SftOptimizerSettings(lr=lr, betas=(0.9, 0.98))


def _captures(claude_code: int, openhands: int) -> tuple[CaptureSettings, ...]:
    return (
        CaptureSettings(harness="claude-code", count=claude_code),
        CaptureSettings(harness="openhands-sdk", options=OPENHANDS_OPTIONS, count=openhands),
    )


FULL = BuildSettings(
    phrases=SftSettings(steps=100, batch=24, warmup=50, optimizer=tiny_optimizer(2e-3)),
    lookups=SftSettings(steps=3000, batch=24, microbatch_tokens=4096, optimizer=tiny_optimizer(1.5e-3)),
    prompted=SftSettings(steps=125, batch=24, optimizer=tiny_optimizer(8e-4)),
    captures=_captures(500, 200),
    # Gently: larger steps on these few, erring demonstrations cost the copying that the drills taught.
    sft=SftSettings(steps=80, batch=32, optimizer=tiny_optimizer(1.5e-4)),
)
SMALL = BuildSettings(
    phrases=SftSettings(steps=100, batch=24, warmup=50, optimizer=tiny_optimizer(2e-3)),
    lookups=SftSettings(steps=30, batch=8, optimizer=tiny_optimizer(1.5e-3)),
    prompted=SftSettings(steps=5, batch=4, optimizer=tiny_optimizer(1e-3)),
    captures=(CaptureSettings(harness="claude-code", count=12),),
    sft=SftSettings(steps=8, batch=4, optimizer=tiny_optimizer(5e-4)),
)
