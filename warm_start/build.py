"""Builds the shipped policy anew: tokenizer, random weights, copying drills, captured demonstrations, fine-tuning.

Taken over from the policy that is shipped now are its architecture (``config.json``), its chat template and the small
files beside it, and, to read the harnesses' prompts out of a first demonstration, its tokenizer; no weight.

Invariant: every stage leaves its result in a folder of its own and goes on, or is skipped, where that exists; a stopped
build continues with the same command. The last stage is ``lego-rl sft`` on a recipe, as any user would run it.

    python -m warm_start.build [--out runs/warm-start] [--small]

``--small`` goes through the same stages in a few minutes, for a test that each of them teaches what it should.
"""

import argparse
import asyncio
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig

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
from warm_start.capture import POLICY as SHIPPED
from warm_start.capture import CaptureSettings, capture
from warm_start.drills import Lookups, Phrases
from warm_start.initial import initial_policy
from warm_start.settings import FULL, SMALL, BuildSettings
from warm_start.tokenizer import END_OF_TEXT, END_OF_TURN, train_tokenizer

_CONSOLE = Screen()
_PRINT_EVERY = 25
_USER_TURN = "<|im_start|>user"
_SMALL_FILES = ("chat_template.jinja", "README.md")


@dataclass(frozen=True)
class Build:
    """One build.

    Attributes:
        settings: Sizes of the stages.
        out: Folder of the build.
    """

    settings: BuildSettings
    out: Path

    def run(self) -> Path:
        """Do what is left; returns the finished policy directory.

        Raises:
            LegoError: A stage cannot be done; its message says why.
        """
        stages = self.settings
        self._say("1/6 tokenizer and initial weights")
        start = self._start()
        self._say("2/6 drills: repeated phrases")
        phrases = self._drill(start, "phrases", self._phrases(start), stages.phrases)
        self._say("3/6 drills: looking things up")
        bare = dict.fromkeys((settings.harness for settings in stages.captures), "")
        lookups = self._drill(phrases, "lookups", self._lookups(start, bare, stages.lookups), stages.lookups)
        self._say("4/6 demonstrations in the real harnesses")
        captures = {settings.harness: self._capture(start, settings) for settings in stages.captures}
        self._say("5/6 drills: looking things up under the harnesses' prompts")
        prompts = {harness: fixed_prompt(folder, start) for harness, folder in captures.items()}
        prompted = self._drill(lookups, "prompted", self._lookups(start, prompts, stages.prompted), stages.prompted)
        self._say("6/6 fine-tuning on the demonstrations")
        return self._fine_tune(prompted, list(captures.values()))

    def figures(self, stage: str) -> list[dict[str, Figure]]:
        """What the updates of a stage were like: ``phrases``, ``lookups``, ``prompted`` or ``sft``."""
        return read_rows(self.out / stage / "metrics.jsonl")

    def _start(self) -> Path:
        """The untrained policy."""
        start = self.out / "start"
        if start.exists():
            return start
        partial = self.out / ".start.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        prompts = [self._prompt(settings) for settings in self.settings.captures]
        tokenizer = train_tokenizer(self.settings.vocabulary, prompts)
        config = AutoConfig.from_pretrained(SHIPPED)
        end, end_of_text = tokenizer.token_to_id(END_OF_TURN), tokenizer.token_to_id(END_OF_TEXT)
        config.update({"vocab_size": self.settings.vocabulary, "eos_token_id": end, "pad_token_id": end_of_text})
        initial_policy(config, self.settings.seed).save_pretrained(partial)
        tokenizer.save(str(partial / "tokenizer.json"))
        for name in (*_SMALL_FILES, "tokenizer_config.json"):
            shutil.copy2(SHIPPED / name, partial / name)
        sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        _write_json(partial / "generation_config.json", sampling | {"eos_token_id": [end], "pad_token_id": end_of_text})
        partial.rename(start)
        return start

    def _prompt(self, settings: CaptureSettings) -> str:
        """What a harness sends before the issue, told by one demonstration in the shipped tokenizer."""
        folder = self.out / "prompts" / settings.harness
        asyncio.run(capture(settings.model_copy(update={"count": 1}), folder, lambda _: None))
        return fixed_prompt(folder, SHIPPED)

    def _phrases(self, start: Path) -> Sequence[Segment]:
        return Phrases(_encoder(start), _needed(self.settings.phrases), self.settings.seed)

    def _lookups(self, start: Path, prompts: Mapping[str, str], settings: SftSettings) -> Sequence[Segment]:
        return Lookups(start, prompts, _needed(settings), self.settings.seed + bool(prompts))

    def _drill(self, policy: Path, stage: str, drills: Sequence[Segment], settings: SftSettings) -> Path:
        with LockedFolder(self.out / stage) as folder:
            finished = folder.path / POLICY
            card = PolicyCard("sft", policy.name, harness=None, reasoning=None)
            return finished if finished.exists() else run_sft(policy, drills, folder, settings, _show(settings), card)

    def _capture(self, start: Path, settings: CaptureSettings) -> Path:
        folder = self.out / "demonstrations" / settings.harness
        done = asyncio.run(capture(settings.model_copy(update={"policy": start}), folder, lambda _: None))
        self._say(f"{settings.harness}: {len(done)} demonstrations")
        return folder

    def _fine_tune(self, policy: Path, captures: Sequence[Path]) -> Path:
        run_dir = self.out / "sft"
        recipe = SftRecipe(
            run=SftRunSection(dir=run_dir),
            policy=SftPolicySection(path=str(policy)),
            demonstrations=DemonstrationsSection(runs=tuple(captures)),
            sft=self.settings.sft,
        )
        path = self.out / "sft.toml"
        path.write_text(dump(recipe), encoding="utf-8")
        if not (run_dir / POLICY).exists():
            sft_command.run(path, [])
        return run_dir / POLICY

    def _say(self, text: str) -> None:
        _CONSOLE.print(text, style="bold")


def fixed_prompt(demonstrations: Path, policy: Path) -> str:
    """What every demonstration of a capture begins with: all that is rendered before the issue.

    Args:
        demonstrations: The capture.
        policy: The directory whose tokenizer it was written in.
    """
    first = next(demonstrated_segments(demonstrations))
    return _encoder(policy).decode(first.token_ids.tolist()).partition(_USER_TURN)[0]


def _encoder(policy: Path) -> Encoder:
    return Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))


def _needed(settings: SftSettings) -> int:
    """Drills of which none is seen twice."""
    return settings.steps * settings.batch


def _show(settings: SftSettings) -> Callable[[SftMetrics], None]:
    def show(metrics: SftMetrics) -> None:
        if (metrics.step + 1) % _PRINT_EVERY == 0 or metrics.step + 1 == settings.steps:
            speed = metrics.positions / metrics.seconds
            _CONSOLE.print(
                f"update {metrics.step + 1}/{settings.steps} · loss {metrics.loss:.4f} · accuracy"
                f" {metrics.accuracy:.4f} · {speed:.0f} positions/s"
            )

    return show


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m warm_start.build", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/warm-start"), help="folder of the build")
    parser.add_argument("--small", action="store_true", help="a few minutes instead of an hour and a half")
    arguments = parser.parse_args()
    policy = Build(SMALL if arguments.small else FULL, arguments.out).run()
    _CONSOLE.print(f"finished: {policy}; to ship it, copy it over src/lego_rl/policies/demo")


if __name__ == "__main__":
    main()
