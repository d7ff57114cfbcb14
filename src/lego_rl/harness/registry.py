"""The harnesses by name. Other rooms reach an adapter through here and never ask which one it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_rl.errors import ConfigError, HarnessError
from lego_rl.harness import bundles
from lego_rl.harness.base import Endpoint, Harness, HarnessBundle, OptionValue
from lego_rl.harness.claude_code import ClaudeCode, ClaudeCodeOptions
from lego_rl.harness.codex import Codex, CodexOptions
from lego_rl.harness.mini_swe_agent import MiniSweAgent, MiniSweAgentOptions
from lego_rl.harness.opencode import OpenCode, OpenCodeOptions
from lego_rl.harness.openhands_sdk import OpenHandsOptions, OpenHandsSdk
from lego_rl.harness.qwen_code import QwenCode, QwenCodeOptions
from lego_rl.settings import Settings, nearest, validate

_SOMEWHERE = Endpoint(f"http://127.0.0.1:8100/s/{'x' * 200}", "policy", 10**9, 10**9, 10**9)
"""An endpoint whose address and numbers are longer than any real one's."""


@dataclass(frozen=True)
class Registration[O: Settings]:
    """One harness: the model of its options, and the adapter that takes them."""

    options: type[O]
    adapter: Callable[[O], Harness]

    def make(self, values: Mapping[str, OptionValue]) -> Harness:
        """The adapter with validated options.

        Raises:
            ConfigError: An option is unknown or has an impossible value, or no program can be started with it.
        """
        adapter = self.adapter(validate(self.options, values, guide="docs/harnesses.md", section="harness.options"))
        problem = adapter.launch("", _SOMEWHERE, mount="/opt", home="/home", workdir="/app").impossible()
        if problem:
            texts = {name: str(value) for name, value in values.items()}
            name = max(texts, key=lambda name: ("\0" in texts[name], len(texts[name])))
            raise ConfigError(f"harness.options.{name} cannot be passed on: {problem}", "write less, and text only")
        return adapter


REGISTRY: Mapping[str, Registration[Any]] = {
    "claude-code": Registration(ClaudeCodeOptions, ClaudeCode),
    "codex": Registration(CodexOptions, Codex),
    "mini-swe-agent": Registration(MiniSweAgentOptions, MiniSweAgent),
    "opencode": Registration(OpenCodeOptions, OpenCode),
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


def installed(root: Path | None = None) -> list[HarnessBundle | HarnessError]:
    """Every installed bundle, also of versions that are no longer pinned; see `bundles.installed`."""
    return bundles.installed(root or bundles.default_root())
