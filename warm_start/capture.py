"""Captures demonstrations: the demonstrator as the policy, in the real harness, in the sandbox, through the gateway.

Invariant: what is stored is what any trial of a policy leaves behind, written by the same code. The tasks are fresh: of
split ``warm``, whose function names no task of the pool has. A capture that was stopped goes on where it was.

    python -m warm_start.capture --out DIR [--harness claude-code] [--count 1000] [--seed 0] [--concurrency 4]

The folder is a run directory (`lego_rl.rollout.store`) with the tasks beside the trials; nothing in it is graded.
"""

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from pydantic import Field
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lego_rl.engine.scripted import ScriptedEngine
from lego_rl.errors import ConfigError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness import registry
from lego_rl.harness.base import OptionValue
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.labels import DEMONSTRATION
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import Progress as Event
from lego_rl.rollout.progress import TrialEnded
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.spec import Grading, HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.settings import Settings
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import families_of, generate
from warm_start.demonstrator import Demonstrator
from warm_start.mistakes import MistakeRates
from warm_start.script import DemonstrationScript
from warm_start.toolsets import toolset

POLICY = Path(str(files("lego_rl.policies") / "demo"))
_OPTIONS: dict[str, dict[str, OptionValue]] = {"claude-code": {"bare": True}, "openhands-sdk": {}, "opencode": {}}
_BUDGET = Budget(turns=8, context_tokens=65_536, output_tokens=512, wall_clock_sec=120.0)
_TASKS = "tasks"


class CaptureSettings(Settings):
    """What is demonstrated, and how."""

    harness: str = "claude-code"
    """Registry name."""
    options: dict[str, OptionValue] = Field(default_factory=dict)
    """Official options of the harness, beyond those of the demo."""
    policy: Path = POLICY
    """Directory with the tokenizer and chat template of the policy that is to learn."""
    count: int = Field(default=1000, ge=1)
    """Demonstrations, each of a task of its own, the families in turn."""
    seed: int = 0
    """Seeds the tasks and the mistakes."""
    concurrency: int = Field(default=4, ge=1)
    """Trials at a time."""
    rates: MistakeRates = MistakeRates()
    """How often the demonstrator errs."""


@dataclass(frozen=True)
class Capture:
    """The parts of one capture.

    Attributes:
        settings: What is demonstrated.
        directory: Where it is kept.
    """

    settings: CaptureSettings
    directory: RunDirectory

    @cached_property
    def tasks(self) -> list[BugTask]:
        """One task a demonstration, the families in turn; their issues differ."""
        families = [family.name for family in families_of("warm")]
        places = (divmod(number, len(families)) for number in range(self.settings.count))
        tasks = [generate(self.settings.seed, families[family], index, "warm") for index, family in places]
        if len({task.instruction for task in tasks}) < len(tasks):
            raise ConfigError(f"seed {self.settings.seed} gives two tasks with one issue", "use another seed")
        return tasks

    def demonstrators(self) -> list[Demonstrator]:
        """Whoever demonstrates each task."""
        tools = toolset(self.settings.harness)
        return [Demonstrator(task, tools, self.settings.rates, self.settings.seed) for task in self.tasks]

    def specs(self) -> list[TrialSpec]:
        """One trial a task; its folder is written where it is missing."""
        folder = self.directory.path / _TASKS
        return [self._spec(task, folder) for task in self.tasks]

    def runtime(self) -> Runtime:
        """The real harness, with demonstrators as its policy."""
        settings = self.settings
        issues = [task.instruction for task in self.tasks]
        script = DemonstrationScript(settings.policy, dict(zip(issues, self.demonstrators(), strict=True)))
        engine = ScriptedEngine(script)
        gateway = Gateway(engine, ChatTemplate.load(settings.policy), tool_call_parser("qwen3_coder"))
        return Runtime(
            gateway=gateway,
            harness=registry.make(settings.harness, self._options()),
            bundle=registry.load(settings.harness),
            directory=self.directory,
            # Thousands of work trees that are used once: not into the user's cache.
            sandbox=SandboxSettings(state=self.directory.path / "sandbox"),
        )

    def _spec(self, task: BugTask, folder: Path) -> TrialSpec:
        if not (folder / task.id).exists():
            write_task(task, folder)
        return TrialSpec(
            task=folder / task.id,
            label=DEMONSTRATION,
            attempt=0,
            attempts=1,
            seed=self.settings.seed,
            temperature=1.0,
            budget=_BUDGET,
            harness=HarnessChoice(self.settings.harness, self._options()),
            grading=Grading.NONE,
        )

    def _options(self) -> dict[str, OptionValue]:
        return _OPTIONS.get(self.settings.harness, {}) | self.settings.options


async def capture(settings: CaptureSettings, out: Path, progress: Callable[[Event], None]) -> list[TrialRecord]:
    """Capture demonstrations into a run directory, or go on with what is missing there.

    Args:
        settings: What is demonstrated.
        out: The run directory.
        progress: Is told of every event.

    Raises:
        ConfigError: No demonstrations exist for the harness.
        HarnessError: The harness is not installed.
        RunError: Another process captures into `out`, or trials fail for reasons that are not theirs.
    """
    directory = RunDirectory.make(out)
    parts = Capture(settings, directory)
    with Journal(directory.journal) as journal:
        return await run_trials(
            parts.specs(), parts.runtime(), journal, concurrency=settings.concurrency, progress=progress
        )


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m warm_start.capture", description=__doc__.split("\n")[0])
    defaults = CaptureSettings()
    parser.add_argument("--out", type=Path, required=True, help="run directory")
    parser.add_argument("--harness", default=defaults.harness, choices=sorted(_OPTIONS))
    parser.add_argument("--count", type=int, default=defaults.count, help="demonstrations")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--concurrency", type=int, default=defaults.concurrency, help="trials at a time")
    arguments = vars(parser.parse_args())
    out = arguments.pop("out")
    settings = CaptureSettings(**arguments)
    columns = (
        TextColumn("demonstrations"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        shown = bar.add_task("demonstrations", total=settings.count)

        def show(event: Event) -> None:
            if isinstance(event, TrialEnded):
                bar.update(shown, completed=event.done)

        records = asyncio.run(capture(settings, out, show))
    tokens = sum(record.accounting.trainable_tokens for record in records)
    print(f"{len(records)} demonstrations, {tokens} tokens to learn from, in {out}")


if __name__ == "__main__":
    main()
