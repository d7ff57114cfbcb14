"""What ``lego-rl inspect`` prints of a trial that a chat backend answered: its calls and what was said."""

import json

from rich.table import Table
from rich.text import Text

from lego_rl.commands.screen import Screen
from lego_rl.gateway.transcript import Transcript
from lego_rl.messages import Message
from lego_rl.plain_text import plain


def show_transcript(screen: Screen, transcript: Transcript) -> None:
    """Print the calls and every conversation; there are no tokens to print."""
    table = Table("call", "after", "role", "fate", "prompt", "answered", "ended", box=None, pad_edge=False)
    for index, call in enumerate(transcript.calls):
        after = "" if call.parent is None else str(call.parent)
        counts = (str(call.prompt_tokens), str(call.answer_tokens))
        table.add_row(str(index), after, call.role, call.fate, *counts, call.finish_reason)
    screen.print(table)
    for number, messages in enumerate(transcript.conversations):
        text = Text(f"\nconversation {number}", style="bold")
        for message in messages:
            style = "green not bold" if message.role == "assistant" else "dim not bold"
            text.append(f"\n{message.role}: {plain(said(message))}", style=style)
        screen.print(text)


def said(message: Message) -> str:
    """A message as one text: its reasoning, its content and its calls."""
    thought = [] if message.reasoning is None else [f"<think>{message.reasoning}</think>"]
    calls = [f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}" for call in message.tool_calls]
    return "\n".join([*thought, message.content, *calls]).strip()
