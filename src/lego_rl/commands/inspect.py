"""``lego-rl inspect``: a trial's calls and training sequences, with what is trained in each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tokenizers import Tokenizer

from lego_rl.commands.policies import policy_directory
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.trajectory import Segment, Trajectory
from lego_rl.report.plain_text import plain
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.store import TrialStore

type Spelling = Callable[[list[int]], str]
"""Token ids to text."""


@dataclass(frozen=True)
class Stretch:
    """Neighbouring tokens of a segment with the same mask, of the same engine call.

    Attributes:
        start: First token.
        end: One after the last.
        trained: Whether the mask is 1.
    """

    start: int
    end: int
    trained: bool


def run(trial: Path, policy: Path | None, context: int) -> None:
    """Print a trial.

    Args:
        trial: Its folder, ``RUN/trials/ID``.
        policy: Directory whose tokenizer spells the tokens; the one that the run's recipe names if not given.
        context: Characters shown of a stretch of context; what the policy sampled is shown whole.

    Raises:
        RunError: The folder holds no trial, or is damaged.
        ConfigError: There is no such policy, or it has no tokenizer.
    """
    trial = trial.resolve()
    if not (trial / "outcome.json").is_file():
        raise RunError(f"{trial} holds no trial", "name a folder below trials/ of a run directory")
    record = TrialStore(trial.parent).load(trial.name)
    spell = _spelling(policy or _policy_of(trial))
    console = Console(highlight=False)
    console.print(_headline(record))
    if record.trajectory is None:
        console.print("no session came to be")
        return
    console.print(_calls(record.trajectory))
    for number, segment in enumerate(record.trajectory.segments):
        console.print(_segment(number, segment, spell, context))


def stretches(segment: Segment) -> Iterator[Stretch]:
    """A segment cut where its mask or the engine call changes."""
    length = len(segment.token_ids)
    key = np.where(segment.loss_mask == 1, segment.call_ids, -1)
    cuts = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), length]
    for start, end in pairwise(cuts):
        yield Stretch(start, end, bool(segment.loss_mask[start]))


def _policy_of(trial: Path) -> Path:
    recipe = trial.parent.parent / "recipe.toml"
    if not recipe.is_file():
        raise ConfigError(f"{trial} does not lie in a run with a recipe", "name its policy with --policy DIR")
    return policy_directory(read(Recipe, recipe).policy.path)


def _spelling(policy: Path) -> Spelling:
    file = policy / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception for every defect
        raise ConfigError(f"{file} is no tokenizer: {error}", "name the policy with --policy DIR") from error
    return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))


def _headline(record: TrialRecord) -> Text:
    reward = "masked" if record.outcome.reward is None else f"reward {record.outcome.reward}"
    counts = record.accounting
    lost = "".join(f" · {count} {reason}" for reason, count in counts.excluded.items())
    lines = [
        record.spec.id,
        f"{reward} · {record.outcome.ended.value} · {record.spec.harness.name} {record.harness_version}",
        f"{counts.calls} calls · {counts.sampled_tokens} tokens sampled · {counts.trainable_tokens} trainable{lost}"
        f" · delivered {counts.delivered_fraction:.3f}",
    ]
    refused = " · ".join(f"{count} {reason}" for reason, count in counts.refused.items())
    return Text("\n".join([*lines, f"refused: {refused}"] if refused else lines))


def _calls(trajectory: Trajectory) -> Table:
    table = Table(
        "call", "after", "role", "fate", "prompt", "new", "sampled", "ended", "note", box=None, pad_edge=False
    )
    for index, call in enumerate(trajectory.generations):
        notes = [] if call.excluded is None else [f"not trained: {call.excluded}"]
        notes += [] if call.parsed else ["unparsed call"]
        table.add_row(
            str(index),
            "" if call.parent is None else str(call.parent),
            call.role,
            call.fate,
            str(len(trajectory.prompt_ids(index))),
            str(len(call.context_ids)),
            str(len(call.token_ids)),
            call.finish_reason,
            "; ".join(notes),
        )
    return table


def _segment(number: int, segment: Segment, spell: Spelling, most: int) -> Text:
    trained = int(segment.loss_mask.sum())
    text = Text(f"\nsegment {number} · {len(segment.token_ids)} tokens, {trained} trained", style="bold")
    if segment.routes is not None:
        text.append(f" · routes of {segment.route_coverage:.1%} of the positions")
    for stretch in stretches(segment):
        ids = segment.token_ids[stretch.start : stretch.end].tolist()
        said = plain(spell(ids))
        if not stretch.trained and len(said) > most:
            said = f"{said[: most // 2]} … {said[-most // 2 :]}"
        mask, style = ("1", "green not bold") if stretch.trained else ("0", "dim not bold")
        likely = ""
        if stretch.trained:
            versions = sorted(set(segment.versions[stretch.start : stretch.end].tolist()))
            mean = float(segment.logprobs[stretch.start : stretch.end].mean())
            likely = f" log-prob {mean:.3f} weights {'-'.join(map(str, versions))}"
        text.append(f"\n[{stretch.start}:{stretch.end}] mask {mask}{likely}\n", style="cyan not bold")
        text.append(said, style=style)
    return text
