"""What a trained policy's directory says of its training: ``README.md`` for people, ``lego-rl.json`` for programs.

Invariant: both are of the training that wrote the weights beside them, never of the policy that it started from. That
one's own page goes along as ``README-base.md``, for its licence and history still hold.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from lego_rl import __version__
from lego_rl.documents import read_json
from lego_rl.errors import ConfigError
from lego_rl.formats import check_format
from lego_rl.gateway.settings import Reasoning

FILE, PAGE, BASE_PAGE = "lego-rl.json", "README.md", "README-base.md"
FORMAT = 1
"""Of ``lego-rl.json``."""

_METHODS = {"gspo": "reinforcement learning (GSPO)", "sft": "supervised fine-tuning"}
_CONTEXT = {
    "keep": "its own earlier turns stayed in its context as it sampled them, reasoning included",
    "as_sent": "its context was what a plain model server shows: reasoning of earlier turns was gone where the harness"
    " or the chat template leaves it out",
    None: "nothing of earlier turns, or what of them differed between its demonstrations",
}

_PAGE = """---
library_name: transformers
pipeline_tag: text-generation
tags: [lego-rl]
---
# A policy trained with Lego-RL

{steps} steps of {method} from `{base}`{inside}, by Lego-RL {version}.

## Reasoning of earlier turns: {reasoning}

{context}
{more}"""
_CONTEXT_PAGE = """In training, {context}. A plain model server shows a policy what the harness sends and the chat
template renders (`as_sent`). `lego-rl` runs this policy as it was trained, unless a recipe sets `capture.reasoning`."""
_MORE = f"\nThe page of the policy that all this began with: [{BASE_PAGE}]({BASE_PAGE}).\n"


@dataclass(frozen=True)
class PolicyCard:
    """How a policy was trained.

    Attributes:
        method: ``gspo``, or ``sft``.
        base: The policy that it started from, as the recipe names it.
        harness: The harness that it was trained in; ``None`` where it was not one.
        reasoning: What became of the reasoning of its earlier turns, `CaptureSettings.reasoning`; ``None`` where that
            was not one and the same, or there were no earlier turns.
    """

    method: Literal["gspo", "sft"]
    base: str
    harness: str | None
    reasoning: Reasoning | None

    def write(self, policy: Path, steps: int) -> None:
        """Write both files into a policy directory that has the small files of the base.

        Args:
            policy: The directory.
            steps: Training steps that were finished.

        Raises:
            OSError: The disk does not take them.
        """
        page, trained_before = policy / PAGE, (policy / FILE).exists()
        if page.exists() and not trained_before:
            page.replace(policy / BASE_PAGE)
        content = {"format": FORMAT, **_CARD.dump_python(self), "steps": steps, "lego_rl": __version__}
        (policy / FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        page.write_text(self._page(policy, steps), encoding="utf-8")

    @classmethod
    def read(cls, policy: Path) -> "PolicyCard | None":
        """The card of a policy directory; ``None`` if it has none.

        Raises:
            ConfigError: It is damaged.
            RunError: It has another format.
        """
        path = policy / FILE
        if not path.is_file():
            return None
        try:
            content = read_json(path.read_text(encoding="utf-8"))
            check_format(path, content.get("format") if isinstance(content, dict) else None, FORMAT)
            return _CARD.validate_python(content)
        except (OSError, ValueError, ValidationError) as error:
            raise ConfigError(f"{path} is no card: {error}", "copy it from where the policy was saved") from error

    def reasoning_name(self) -> str:
        """What became of reasoning, for a heading."""
        return "not said" if self.reasoning is None else f"`{self.reasoning}`"

    def reasoning_text(self) -> str:
        """What that means for whoever serves the policy."""
        return _CONTEXT_PAGE.format(context=_CONTEXT[self.reasoning])

    def _page(self, policy: Path, steps: int) -> str:
        return _PAGE.format(
            steps=steps,
            method=_METHODS[self.method],
            base=self.base,
            inside="" if self.harness is None else f", inside {self.harness}",
            version=__version__,
            reasoning=self.reasoning_name(),
            context=self.reasoning_text(),
            more=_MORE if (policy / BASE_PAGE).exists() else "",
        )


_CARD = TypeAdapter(PolicyCard)
