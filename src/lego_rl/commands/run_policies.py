"""Which policy works on a workspace: one behind an endpoint, or one whose weights are here."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from lego_rl.commands.policies import policy_directory
from lego_rl.config.load import plain
from lego_rl.engine.chat import OpenAIChatBackend
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.engine.policy_dir import inspect_policy
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.server import AnyGateway, ChatGateway, Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.tool_calls.probe import check_parser
from lego_rl.settings import validate


@dataclass(frozen=True)
class HostedPolicy:
    """A policy behind an endpoint.

    Attributes:
        settings: Which, and how it is asked.
    """

    settings: ChatSettings

    def budget(self, asked: Budget) -> Budget:
        """What a session may spend; an endpoint says itself what does not fit."""
        return asked

    @asynccontextmanager
    async def serving(self, temperature: float) -> AsyncIterator[AnyGateway]:
        """The gateway, once the endpoint has answered.

        Raises:
            ConfigError: It does not answer, or there is no key.
        """
        async with OpenAIChatBackend(self.settings) as backend:
            await backend.check(temperature)
            yield ChatGateway(backend)


def hosted(named: Mapping[str, str | None], overrides: Sequence[str]) -> HostedPolicy:
    """A policy behind an endpoint, as a command is told of it.

    Args:
        named: Keys of `ChatSettings`.
        overrides: ``key=value`` strings, further ones.

    Raises:
        ConfigError: A key or a value cannot be used.
    """
    given = {name: value for name, value in named.items() if value is not None}
    settings = validate(ChatSettings, {**plain(overrides), **given}, guide="docs/run.md", section="")
    return HostedPolicy(settings)


@dataclass(frozen=True)
class LocalPolicy:
    """A policy whose weights are loaded here.

    Attributes:
        name: A directory, or ``builtin:NAME``.
        tool_parser: Of the format in which it writes tool calls.
    """

    name: str
    tool_parser: str

    def budget(self, asked: Budget) -> Budget:
        """What a session may spend: no more than the policy has positions.

        Raises:
            ConfigError: There is no such policy.
        """
        context = min(asked.context_tokens, inspect_policy(policy_directory(self.name)).context)
        return replace(asked, context_tokens=context, output_tokens=min(asked.output_tokens, context // 2))

    @asynccontextmanager
    async def serving(self, temperature: float) -> AsyncIterator[AnyGateway]:
        """The gateway, once the weights are loaded.

        Raises:
            LegoError: There is no such policy, or its parser does not fit its template.
        """
        source = policy_directory(self.name)
        template = ChatTemplate.load(source)
        check_parser(template, self.tool_parser)
        from lego_rl.engine.embedded.engine import EmbeddedEngine  # torch: only where weights are loaded

        with EmbeddedEngine.from_directory(source) as engine:
            yield Gateway(engine, template, tool_call_parser(self.tool_parser))


type ChosenPolicy = HostedPolicy | LocalPolicy
