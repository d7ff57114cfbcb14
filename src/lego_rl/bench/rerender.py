"""What a gateway that keeps no tokens does: render and tokenise the whole conversation at every request."""

import time
from pathlib import Path
from typing import NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from lego_rl.bench.workload import Conversation

_EVERY = 10
"""Of the requests, one in so many is rendered; the others are taken to cost as much as their neighbours."""


def render_anew(policy: Path, said: Conversation) -> float:
    """CPU seconds to render and tokenise every request of a conversation from its first message on.

    Args:
        policy: Folder with ``tokenizer.json`` and ``chat_template.jinja``.
        said: The conversation.
    """
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _refuse
    template = environment.from_string((policy / "chat_template.jinja").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(policy / "tokenizer.json"))
    tools = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in said.tools
    ]
    messages = [{"role": "system", "content": said.system}, {"role": "user", "content": said.task}]
    spent = 0.0
    for turn, (reply, result) in enumerate(zip(said.replies, said.results, strict=True)):
        if turn % _EVERY == _EVERY // 2:
            started = time.process_time()
            text = template.render(messages=messages, tools=tools, add_generation_prompt=True)
            tokenizer.encode(text, add_special_tokens=False).ids  # noqa: B018  (making the list is part of the work)
            spent += time.process_time() - started
        messages += [
            {"role": "assistant", "content": tokenizer.decode(reply.tolist()[:-1], skip_special_tokens=False)},
            {"role": "tool", "content": result},
        ]
    return spent * _EVERY


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
