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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig

from lego_rl.gateway.trajectory import Segment
from lego_rl.train.sft_settings import SftSettings
from warm_start.capture import POLICY as SHIPPED
from warm_start.capture import CaptureSettings, capture
from warm_start.drills import Lookups, Phrases
from warm_start.initial import initial_policy
from warm_start.settings import FULL, SMALL, BuildSettings
from warm_start.stages import Stages, encoder, fixed_prompt, needed, say
from warm_start.tokenizer import END_OF_TEXT, END_OF_TURN, train_tokenizer

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
        sizes, stages = self.settings, self.stages
        say("1/6 tokenizer and initial weights")
        start = self._start()
        say("2/6 drills: repeated phrases")
        phrases = stages.drill(start, "phrases", self._phrases(start), sizes.phrases)
        say("3/6 drills: looking things up")
        bare = dict.fromkeys((settings.harness for settings in sizes.captures), "")
        lookups = stages.drill(phrases, "lookups", self._lookups(start, bare, sizes.lookups), sizes.lookups)
        say("4/6 demonstrations in the real harnesses")
        captures = {settings.harness: stages.capture(start, settings) for settings in sizes.captures}
        say("5/6 drills: looking things up under the harnesses' prompts")
        prompts = {harness: fixed_prompt(folder, start) for harness, folder in captures.items()}
        prompted = stages.drill(lookups, "prompted", self._lookups(start, prompts, sizes.prompted), sizes.prompted)
        say("6/6 fine-tuning on the demonstrations")
        return stages.fine_tune(prompted, list(captures.values()), sizes.sft)

    @property
    def stages(self) -> Stages:
        """The folder's stages: ``phrases``, ``lookups``, ``prompted`` and ``sft`` train."""
        return Stages(self.out)

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
        return Phrases(encoder(start), needed(self.settings.phrases), self.settings.seed)

    def _lookups(self, start: Path, prompts: Mapping[str, str], settings: SftSettings) -> Sequence[Segment]:
        return Lookups(start, prompts, needed(settings), self.settings.seed + bool(prompts))


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m warm_start.build", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/warm-start"), help="folder of the build")
    parser.add_argument("--small", action="store_true", help="a few minutes instead of an hour and a half")
    arguments = parser.parse_args()
    policy = Build(SMALL if arguments.small else FULL, arguments.out).run()
    say(f"finished: {policy}; to ship it, copy it over src/lego_rl/policies/demo")


if __name__ == "__main__":
    main()
