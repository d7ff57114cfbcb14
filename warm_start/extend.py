"""Teaches a policy that was warm-started a further harness, and keeps those that it knows.

Invariant: as in `warm_start.build`, every stage leaves its result in a folder of its own and is skipped where that
exists, so that a stopped extension continues with the same command; nothing here depends on a reward.

    python -m warm_start.extend [--out runs/extended] [--policy DIR]

Stages: demonstrations in every harness; drills under the harnesses' prompts, which have to be read past before anything
after them is found; fine-tuning on the demonstrations. The tokenizer stays as it is.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from lego_rl.settings import Settings
from lego_rl.train.sft_settings import SftSettings
from warm_start.capture import POLICY as SHIPPED
from warm_start.capture import CaptureSettings
from warm_start.drills import Lookups
from warm_start.settings import OPENCODE_OPTIONS, OPENHANDS_OPTIONS, tiny_optimizer
from warm_start.stages import Stages, fixed_prompt, needed, say


class ExtensionSettings(Settings):
    """How much of everything."""

    captures: tuple[CaptureSettings, ...] = Field(min_length=1)
    """Demonstrations of each harness."""
    prompted: SftSettings
    """Drills of looking things up under the prompts of the harnesses."""
    sft: SftSettings
    """Fine-tuning on the demonstrations."""
    seed: int = 0
    """Seeds the drills."""


OPENCODE_TOO = ExtensionSettings(
    captures=(
        CaptureSettings(harness="claude-code", count=64),
        CaptureSettings(harness="openhands-sdk", options=OPENHANDS_OPTIONS, count=48),
        CaptureSettings(harness="opencode", options=OPENCODE_OPTIONS, count=120),
    ),
    prompted=SftSettings(steps=30, batch=12, optimizer=tiny_optimizer(8e-4)),
    sft=SftSettings(steps=24, batch=24, optimizer=tiny_optimizer(2e-4)),
)
"""The shipped policy knows Claude Code and the OpenHands SDK; this adds OpenCode."""


@dataclass(frozen=True)
class Extension:
    """One extension.

    Attributes:
        policy: The policy directory that it starts from.
        settings: Sizes of the stages.
        out: Its folder.
    """

    policy: Path
    settings: ExtensionSettings
    out: Path

    def run(self) -> Path:
        """Do what is left; returns the finished policy directory.

        Raises:
            LegoError: A stage cannot be done; its message says why.
        """
        stages, settings = Stages(self.out), self.settings
        self.out.mkdir(parents=True, exist_ok=True)
        say("1/3 demonstrations in the real harnesses")
        captures = {each.harness: stages.capture(self.policy, each) for each in settings.captures}
        say("2/3 drills: looking things up under the harnesses' prompts")
        prompts = {harness: fixed_prompt(folder, self.policy) for harness, folder in captures.items()}
        drills = Lookups(self.policy, prompts, needed(settings.prompted), settings.seed)
        prompted = stages.drill(self.policy, "prompted", drills, settings.prompted)
        say("3/3 fine-tuning on the demonstrations")
        return stages.fine_tune(prompted, list(captures.values()), settings.sft)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m warm_start.extend", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/extended"), help="folder of the extension")
    parser.add_argument("--policy", type=Path, default=SHIPPED, help="policy directory to start from")
    arguments = parser.parse_args()
    say(f"finished: {Extension(arguments.policy, OPENCODE_TOO, arguments.out).run()}")


if __name__ == "__main__":
    main()
