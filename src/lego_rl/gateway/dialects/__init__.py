"""One module a wire format."""

from lego_rl.gateway.dialects.anthropic import AnthropicDialect
from lego_rl.gateway.dialects.base import Dialect
from lego_rl.gateway.dialects.openai_chat import OpenAIChatDialect
from lego_rl.gateway.dialects.openai_responses import OpenAIResponsesDialect

DIALECTS: tuple[Dialect, ...] = (AnthropicDialect(), OpenAIChatDialect(), OpenAIResponsesDialect())
"""Every dialect that a session speaks."""
