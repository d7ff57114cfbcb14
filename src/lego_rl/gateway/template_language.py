"""The language of chat templates: Jinja with the helpers of Hugging Face ``apply_chat_template``.

Invariant: a template only computes text. It reaches no file and no attribute that Jinja's sandbox forbids, and what it
writes does not depend on the day.
"""

import datetime
import json
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_RENDER_DATE = datetime.datetime(2025, 1, 1)
"""What ``strftime_now`` answers: a prompt must not depend on the day on which it was rendered."""


class _GenerationTag(Extension):
    """The ``{% generation %}`` block of training templates: its body, as if the tag were not there."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def template_environment() -> ImmutableSandboxedEnvironment:
    """The helpers that ``apply_chat_template`` of the transformers library gives to templates."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = _RENDER_DATE.strftime
    return environment
