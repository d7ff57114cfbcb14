"""``lego-rl export-sft``: trials that are worth learning from, token-exact or as chat messages."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from lego_rl.analysis.quality import QualitySettings, judge_by
from lego_rl.cli_arguments import Form
from lego_rl.commands.kept_apart import keep_apart
from lego_rl.commands.screen import Screen
from lego_rl.config.load import plain
from lego_rl.durable import write_text
from lego_rl.errors import RunError
from lego_rl.evaluate.trials import run_directories
from lego_rl.messages import Message, as_templates_take
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.selection import Selected, select
from lego_rl.rollout.selection_folder import SelectionFolder
from lego_rl.rollout.settled import settled_records
from lego_rl.settings import validate


def run(runs: Sequence[Path], out: Path, form: Form, overrides: Sequence[str]) -> None:
    """Choose trials of some runs and write them.

    Args:
        runs: Run directories, of rollouts, training or captures.
        out: A new folder for tokens, a new file for chat.
        form: Which of both.
        overrides: ``key=value`` strings of `QualitySettings`.

    Raises:
        RunError: A run cannot be read, nothing is left, or `out` is there already.
        ConfigError: A key is wrong.
    """
    keep_apart(runs, {"--out": out})
    if out.exists():
        raise RunError(f"{out} is there already", "name another place with --out")
    settings = validate(QualitySettings, plain(overrides), guide="docs/analysis.md")
    selected = select(_records(runs), settings, judge_by(settings))
    screen = Screen()
    screen.print(table(selected))
    if not selected.chosen:
        raise RunError("no trial is left", "loosen a rule with --set, or name further runs")
    if form is Form.TOKENS:
        SelectionFolder(out).write(selected, {"settings": settings.model_dump(mode="json")})
    else:
        write_text(out, "".join(f"{json.dumps(each)}\n" for record in selected.chosen for each in chats(record)))
    screen.print(f"{len(selected.chosen)} of {selected.seen} trials in {out}", soft_wrap=True)


def _records(runs: Sequence[Path]) -> Iterator[TrialRecord]:
    for run in runs:
        for directory in run_directories(run):
            yield from settled_records(directory)


def chats(record: TrialRecord) -> Iterator[dict[str, Any]]:
    """The conversations of a trial as other trainers read them: ``messages`` and ``tools`` of OpenAI's form.

    Whoever trains on them tokenises text anew; ids that the policy sampled are in the token-exact form alone.
    """
    captured = record.trajectory or record.transcript
    if captured is None:
        return
    tools = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in captured.tools
    ]
    for conversation in captured.conversations:
        yield {"messages": list(_messages(conversation)), "tools": tools, "trial": record.spec.id}


def _messages(conversation: Sequence[Message]) -> Iterator[dict[str, Any]]:
    for message in as_templates_take(conversation):
        said: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.reasoning is not None:
            said["reasoning_content"] = message.reasoning
        if message.tool_calls:
            said["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            said["tool_call_id"] = message.tool_call_id
        yield said


def table(selected: Selected) -> Table:
    """What was chosen, and by which rule others were not."""
    shown = Table("trials", "", box=None, pad_edge=False)
    shown.add_row(str(len(selected.chosen)), "chosen")
    for rule, count in selected.left_out.most_common():
        shown.add_row(str(count), f"left out: {rule}")
    return shown
