"""``lego-rl inspect``: how a trial was graded, its calls and training sequences, with what is trained in each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text
from tokenizers import Tokenizer

from lego_rl.commands.graded import graded
from lego_rl.commands.inspect_run import list_trials
from lego_rl.commands.inspect_transcript import said, show_transcript
from lego_rl.commands.policies import policy_directory
from lego_rl.commands.screen import Screen
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.call_log import CALL_LOG, read_calls
from lego_rl.gateway.trajectory import Generation, Segment, Trajectory
from lego_rl.plain_text import plain, plain_line
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.store import RunDirectory, TrialStore
from lego_rl.rollout.trial_folder import OUTCOME_FILE


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


def run(trial: Path, policy: str | None, context: int) -> None:
    """Print a trial, or the list of a run's.

    Args:
        trial: Its folder, ``RUN/trials/ID``; of a trial that is not finished, where it will be. ``RUN`` is the list.
        policy: Whose tokenizer spells the tokens, a directory or ``builtin:NAME``; the one that the run's recipe names
            if not given.
        context: Characters shown of a stretch of context; what the policy sampled is shown whole.

    Raises:
        RunError: The folder holds no trial, or its files are damaged, of another format, or not of one trial.
        ConfigError: There is no such policy, it has no tokenizer, or not the one that the tokens are of.
    """
    trial = trial.resolve()
    if not trial.parent.is_dir() or not (trial.exists() or trial.parent.name == "trials"):
        raise RunError(f"there is no {trial}", "name a run's folder, or RUN/trials/ID")
    if (directory := RunDirectory(trial)).trials.is_dir():
        list_trials(directory)
        return
    recipe = _recipe_of(trial)
    if not (trial / OUTCOME_FILE).is_file():
        _show_unfinished(trial, recipe)
        return
    record = TrialStore(trial.parent).load(trial.name)
    if record.transcript is not None:
        screen = Screen()
        _show_head(screen, record, recipe)
        show_transcript(screen, record.transcript)
        return
    name = policy if recipe is None or policy is not None else recipe.policy.path
    if name is None:
        raise ConfigError(f"{trial} does not lie in a run with a recipe", "name its policy with --policy DIR")
    tokenizer = _tokenizer(policy_directory(name))
    screen = Screen()
    if record.trajectory is None:
        _show_head(screen, record, recipe)
        screen.print("no session came to be")
        return
    _check_spelled(record.trajectory, tokenizer, name)
    _show_head(screen, record, recipe)
    screen.print(_calls(record.trajectory))
    for number, segment in enumerate(record.trajectory.segments):
        screen.print(_segment(number, segment, tokenizer, context))


def _show_unfinished(trial: Path, recipe: Recipe | None) -> None:
    """What was said so far in a trial that runs, or that was killed; its files are in the scratch folder of the run."""
    scratch = RunDirectory(trial.parent.parent).scratch / trial.name
    if not scratch.is_dir():
        raise RunError(f"{trial} holds no trial", "name RUN/trials/ID; the IDs are the folders in trials/ and scratch/")
    if not (scratch / CALL_LOG).is_file():
        raise RunError(f"trial {trial.name} is not finished, and no model call is answered yet", "wait a little")
    screen = Screen()
    ran = "" if recipe is None else f" · {recipe.harness.name} · reasoning {recipe.capture.reasoning}"
    screen.print(f"{trial.name}\nnot finished, or not yet graded{ran}; what was said so far:", soft_wrap=True)
    for call in read_calls(scratch / CALL_LOG):
        after = "" if call.parent is None else f" after {call.parent}"
        text = Text(f"\ncall {call.index}{after} · {len(call.token_ids)} tokens sampled", style="bold")
        for message in (*call.messages, call.answer):
            style = "green not bold" if message is call.answer else "dim not bold"
            text.append(f"\n{message.role}: {plain(said(message))}", style=style)
        screen.print(text)


def stretches(segment: Segment) -> Iterator[Stretch]:
    """A segment cut where its mask or the engine call changes."""
    length = len(segment.token_ids)
    key = np.where(segment.loss_mask == 1, segment.call_ids, -1)
    cuts = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), length]
    for start, end in pairwise(cuts):
        yield Stretch(start, end, bool(segment.loss_mask[start]))


def _recipe_of(trial: Path) -> Recipe | None:
    """The recipe of the run that a trial lies in; ``None`` where it was copied out of one, or captured without."""
    recipe = RunDirectory(trial.parent.parent).recipe
    return read(Recipe, recipe) if recipe.is_file() else None


def _tokenizer(policy: Path) -> Tokenizer:
    file = policy / "tokenizer.json"
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception for every defect
        raise ConfigError(f"{file} is no tokenizer: {error}", "name the policy with --policy DIR") from error


def _check_spelled(trajectory: Trajectory, tokenizer: Tokenizer, name: str) -> None:
    """Refuse a tokenizer that cannot have written the prompts; a policy may sample ids that its own does not know."""
    ids = [call.context_ids for call in trajectory.generations]
    unknown = _unknown(tokenizer, np.unique(np.concatenate(ids)).tolist() if ids else [])
    if unknown:
        raise ConfigError(
            f"token {unknown[0]} of a prompt is none of the tokenizer of {name}", "name its policy with --policy DIR"
        )


def _unknown(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    return [token for token in ids if tokenizer.id_to_token(token) is None]


def _spell(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    said = plain(tokenizer.decode(ids, skip_special_tokens=False))
    unknown = _unknown(tokenizer, ids)  # the library leaves them out
    return f"{said} [and unknown to the tokenizer: {', '.join(map(str, unknown))}]" if unknown else said


def _show_head(screen: Screen, record: TrialRecord, recipe: Recipe | None) -> None:
    screen.print(_headline(record, recipe), soft_wrap=True)
    if (verdict := graded(record)) is not None:
        screen.print(verdict, soft_wrap=True)


def _headline(record: TrialRecord, recipe: Recipe | None) -> Text:
    unrewarded = "masked" if record.outcome.row.is_masked else "not graded"
    reward = unrewarded if record.outcome.reward is None else f"reward {record.outcome.reward}"
    counts = record.accounting
    ran = f"{reward} · {record.outcome.ended.value} · {record.spec.harness.name} {record.harness_version}"
    # Reasons are, in part, what an agent wrote into its requests: none may begin a line of its own.
    lost = "".join(f" · {count} {plain_line(reason)}" for reason, count in counts.excluded.items())
    lines = [
        record.spec.id,
        ran if recipe is None else f"{ran} · reasoning {recipe.capture.reasoning}",
        f"{counts.calls} calls · {counts.sampled_tokens} tokens sampled · {counts.trainable_tokens} trainable{lost}"
        f" · delivered {counts.delivered_fraction:.3f}",
    ]
    met = {"truncated": counts.truncated, "with an unparsed tool call": counts.tool_parse_faults}
    faults = [f"{count} {what}" for what, count in met.items() if count]
    faults += [] if counts.budget_hit is None else [f"ended by the budget of {counts.budget_hit}"]
    refused = " · ".join(f"{count} {plain_line(reason)}" for reason, count in counts.refused.items())
    lines += [f"answers: {' · '.join(faults)}"] if faults else []
    lines += [f"refused: {refused}"] if refused else []
    return Text("\n".join(lines))


def _calls(trajectory: Trajectory) -> Table:
    table = Table(
        "call", "after", "role", "fate", "prompt", "new", "sampled", "ended", "note", box=None, pad_edge=False
    )
    for index, call in enumerate(trajectory.generations):
        table.add_row(
            str(index),
            "" if call.parent is None else str(call.parent),
            call.role,
            call.fate,
            str(len(trajectory.prompt_ids(index))),
            str(len(call.context_ids)),
            str(len(call.token_ids)),
            call.finish_reason,
            "; ".join(_notes(trajectory, call)),
        )
    return table


def _notes(trajectory: Trajectory, call: Generation) -> Iterator[str]:
    """What is special about a call."""
    if call.parent is not None and call.kept is not None:
        yield f"after the first {call.kept} of {len(trajectory.generations[call.parent].token_ids)} tokens"
    if call.delivered_prefix is not None:
        yield f"only the first {call.delivered_prefix} delivered"
    if call.excluded is not None:
        yield f"not trained: {plain_line(call.excluded)}"
    if call.finish_reason == "length":
        yield "truncated"
    elif not call.parsed:
        yield "unparsed call"


def _segment(number: int, segment: Segment, tokenizer: Tokenizer, most: int) -> Text:
    trained = int(segment.loss_mask.sum())
    text = Text(f"\nsegment {number} · {len(segment.token_ids)} tokens, {trained} trained", style="bold")
    if segment.routes is not None:
        text.append(f" · routes of {segment.route_coverage:.1%} of the positions")
    for stretch in stretches(segment):
        ids = segment.token_ids[stretch.start : stretch.end].tolist()
        said = _spell(tokenizer, ids)
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
