"""Stages that a build and an extension of a warm start share: drills, demonstrations, fine-tuning.

Invariant: a stage leaves its result in a folder of its own and goes on, or is skipped, where that exists. The last one
is ``lego-rl sft`` on a recipe, as any user would run it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.commands import sft as sft_command
from lego_rl.commands.screen import Screen
from lego_rl.config.load import dump
from lego_rl.config.sft_recipe import DemonstrationsSection, SftPolicySection, SftRecipe, SftRunSection
from lego_rl.gateway.encoding import Encoder
from lego_rl.gateway.trajectory import Segment
from lego_rl.rollout.demonstrations import demonstrated_segments
from lego_rl.rollout.lock import LockedFolder
from lego_rl.rollout.metrics_file import Figure, read_rows
from lego_rl.train.card import PolicyCard
from lego_rl.train.sft import POLICY, SftMetrics, run_sft
from lego_rl.train.sft_settings import SftSettings
from warm_start.capture import CaptureSettings, capture

_CONSOLE = Screen()
_PRINT_EVERY = 25
_USER_TURN = "<|im_start|>user"


@dataclass(frozen=True)
class Stages:
    """The stages of one folder.

    Attributes:
        out: The folder.
    """

    out: Path

    def figures(self, stage: str) -> list[dict[str, Figure]]:
        """What the updates of a stage that trained were like."""
        return read_rows(self.out / stage / "metrics.jsonl")

    def drill(self, policy: Path, stage: str, drills: Sequence[Segment], settings: SftSettings) -> Path:
        """Train a policy on drills; returns the directory of the trained one."""
        with LockedFolder(self.out / stage) as folder:
            finished = folder.path / POLICY
            card = PolicyCard("sft", policy.name, harness=None, reasoning=None)
            return finished if finished.exists() else run_sft(policy, drills, folder, settings, _show(settings), card)

    def capture(self, policy: Path, settings: CaptureSettings) -> Path:
        """Capture demonstrations in a harness, in a policy's tokens; returns their run directory."""
        folder = self.out / "demonstrations" / settings.harness
        done = asyncio.run(capture(settings.model_copy(update={"policy": policy}), folder, lambda _: None))
        say(f"{settings.harness}: {len(done)} demonstrations")
        return folder

    def fine_tune(self, policy: Path, captures: Sequence[Path], settings: SftSettings) -> Path:
        """Fine-tune a policy on captures; returns the directory of the tuned one."""
        run_dir = self.out / "sft"
        recipe = SftRecipe(
            run=SftRunSection(dir=run_dir),
            policy=SftPolicySection(path=str(policy)),
            demonstrations=DemonstrationsSection(runs=tuple(captures)),
            sft=settings,
        )
        path = self.out / "sft.toml"
        path.write_text(dump(recipe), encoding="utf-8")
        if not (run_dir / POLICY).exists():
            sft_command.run(path, [])
        return run_dir / POLICY


def fixed_prompt(demonstrations: Path, policy: Path) -> str:
    """What every demonstration of a capture begins with: all that is rendered before the issue.

    Args:
        demonstrations: The capture.
        policy: The directory whose tokenizer it was written in.
    """
    first = next(demonstrated_segments(demonstrations))
    return encoder(policy).decode(first.token_ids.tolist()).partition(_USER_TURN)[0]


def encoder(policy: Path) -> Encoder:
    """The tokenizer of a policy directory."""
    return Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))


def needed(settings: SftSettings) -> int:
    """Drills of which none is seen twice."""
    return settings.steps * settings.batch


def say(text: str) -> None:
    """Tell who waits what has begun or ended."""
    _CONSOLE.print(text, style="bold")


def _show(settings: SftSettings) -> Callable[[SftMetrics], None]:
    def show(metrics: SftMetrics) -> None:
        if (metrics.step + 1) % _PRINT_EVERY == 0 or metrics.step + 1 == settings.steps:
            speed = metrics.positions / metrics.seconds
            _CONSOLE.print(
                f"update {metrics.step + 1}/{settings.steps} · loss {metrics.loss:.4f} · accuracy"
                f" {metrics.accuracy:.4f} · {speed:.0f} positions/s"
            )

    return show
