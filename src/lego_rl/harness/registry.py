"""The harnesses by name. Other rooms reach an adapter through here and never ask which one it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lego_rl.errors import ConfigError
from lego_rl.harness import bundles
from lego_rl.harness.base import Conduct, Harness, HarnessBundle, OptionValue
from lego_rl.harness.claude_code import ClaudeCode, ClaudeCodeOptions
from lego_rl.harness.codex import Codex, CodexOptions
from lego_rl.harness.mini_swe_agent import MiniSweAgent, MiniSweAgentOptions
from lego_rl.harness.opencode import OpenCode, OpenCodeOptions
from lego_rl.harness.openhands_sdk import OpenHandsOptions, OpenHandsSdk
from lego_rl.harness.qwen_code import QwenCode, QwenCodeOptions
from lego_rl.settings import Settings, nearest, validate


@dataclass(frozen=True)
class Registration[O: Settings]:
    """One harness: the model of its options, the adapter that takes them, and what it asks of a policy."""

    options: type[O]
    adapter: Callable[[O], Harness]
    conduct: Conduct = field(default_factory=Conduct)

    def make(self, values: Mapping[str, OptionValue]) -> Harness:
        """The adapter with validated options.

        Raises:
            ConfigError: An option is unknown or has an impossible value.
        """
        return self.adapter(validate(self.options, values, guide="docs/harnesses.md", section="harness.options"))


REGISTRY: Mapping[str, Registration[Any]] = {
    "claude-code": Registration(ClaudeCodeOptions, ClaudeCode),
    "codex": Registration(CodexOptions, Codex),
    "mini-swe-agent": Registration(
        MiniSweAgentOptions, MiniSweAgent, Conduct(ends_with="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    ),
    "opencode": Registration(
        OpenCodeOptions, OpenCode, Conduct(delegation={"subagent_type": "general", "description": "look"})
    ),
    "openhands-sdk": Registration(OpenHandsOptions, OpenHandsSdk),
    "qwen-code": Registration(QwenCodeOptions, QwenCode),
}
"""Name → harness."""


def make(name: str, options: Mapping[str, OptionValue] | None = None) -> Harness:
    """The adapter of a harness with the options of a recipe.

    Raises:
        ConfigError: The name or an option is unknown, or a value is impossible.
    """
    if name not in REGISTRY:
        raise ConfigError(f"there is no harness {name!r}", nearest(name, REGISTRY))
    return REGISTRY[name].make(options or {})


def install(name: str, root: Path | None = None) -> HarnessBundle:
    """Install a harness (idempotent).

    Raises:
        ConfigError: The name is unknown.
        HarnessError: It cannot be installed.
    """
    return make(name).install(root or bundles.default_root())


def load(name: str, root: Path | None = None) -> HarnessBundle:
    """The installed bundle of a harness at the pinned version.

    Raises:
        ConfigError: The name is unknown.
        HarnessError: It is not installed, or was altered.
    """
    return bundles.load(root or bundles.default_root(), make(name).spec)


def verify(name: str, root: Path | None = None) -> HarnessBundle:
    """Read every file of the installed bundle of a harness and compare it with what was installed.

    Raises:
        ConfigError: The name is unknown.
        HarnessError: It is not installed, or a file differs; the message names it.
    """
    bundle = load(name, root)
    bundles.verify(bundle)
    return bundle


def installed(root: Path | None = None) -> list[HarnessBundle]:
    """Every installed bundle, also of versions that are no longer pinned."""
    return bundles.installed(root or bundles.default_root())
