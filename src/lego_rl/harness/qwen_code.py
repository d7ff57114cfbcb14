"""Qwen Code: the unmodified npm package with a Node.js of its own."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import Field

from lego_rl.errors import HarnessError
from lego_rl.harness import bundles, node, npm
from lego_rl.harness.base import (
    DEFAULT_PATH,
    BundleSpec,
    Conduct,
    Endpoint,
    HarnessBundle,
    Launch,
    ToolUse,
    looser,
)
from lego_rl.harness.programs import run
from lego_rl.messages import Json
from lego_rl.settings import Settings

VERSION = "0.24.4"
PACKAGE = npm.Tarball(
    "@qwen-code/qwen-code",
    VERSION,
    "sha512-pmexy/Nj+BKd3Un1ogqGQE8V4GJn5B6N9PQOrU1GH+lMR29kn6Bgf6YdbZa8hNIoTmAKT1LTPK+P8TibZRPPVg==",
)
_LAYOUT = f"layout 1 {PACKAGE} {node.version()}"

CHECK_SECONDS = 120.0

# A model call may wait for a busy policy as long as the trial lasts; the gateway's wall clock comes first.
_TIMEOUT_MS = 6 * 3600 * 1000


class QwenCodeOptions(Settings):
    """Official options of ``qwen`` and of its settings file."""

    tools: tuple[str, ...] | None = None
    """``tools.core``: built-in tools to offer, such as ``["read_file", "edit", "run_shell_command"]``; all if
    unset. Those for sub-agents, skills and further tools stay; `excluded_tools` takes them away."""
    excluded_tools: tuple[str, ...] = ()
    """``tools.exclude``: tools that are not offered."""
    system_prompt: str | None = Field(default=None, min_length=1)
    """``--system-prompt``: replaces the system prompt, whose default is about 8k tokens long."""
    append_system_prompt: str | None = Field(default=None, min_length=1)
    """``--append-system-prompt``: text added to the end of the system prompt."""
    reasoning_effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """``model.reasoningEffort``: sent with every request; a gateway's policy ignores it."""
    context_tokens: int | None = Field(default=None, ge=8_000)
    """``contextWindowSize``: near this size the history is summarised; unset, that is beyond the gateway's budget."""


class QwenCode:
    """Launches ``qwen`` headless with every permission, as the sandbox is what confines it."""

    name = "qwen-code"
    version = VERSION
    spec = BundleSpec(name, VERSION, "Apache-2.0", hashlib.sha256(_LAYOUT.encode()).hexdigest())
    conduct = Conduct(
        ToolUse("run_shell_command", "command"),
        too_long="summarises",
        broken_off="keeps",
        subagent=ToolUse("agent", "prompt"),
    )

    def __init__(self, options: QwenCodeOptions) -> None:
        self.options = options

    def install(self, root: Path) -> HarnessBundle:
        """See `Harness.install`."""
        return bundles.install(root, self.spec, _build)

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        """See `Harness.launch`. The prompt goes to standard input, which makes the run a headless one."""
        # As the system's settings: they come before those of the repository under work, which could name another
        # endpoint, run commands and take tools away.
        settings = f"{home}/.qwen/system-settings.json"
        return Launch(
            argv=(f"{mount}/bin/node", f"{mount}/qwen-code/cli-entry.js", *self._arguments(endpoint)),
            env={
                "HOME": home,
                "PATH": path,
                "PWD": workdir,
                "LANG": "C.UTF-8",
                "SHELL": "/bin/bash",
                "QWEN_CODE_SYSTEM_SETTINGS_PATH": settings,
                "OPENAI_BASE_URL": f"{endpoint.base_url}/v1",
                "OPENAI_API_KEY": endpoint.api_key,
                "OPENAI_MODEL": endpoint.model,
                "QWEN_CODE_MAX_OUTPUT_TOKENS": str(max(64_000, looser(endpoint.output_tokens))),
            },
            files={settings: json.dumps(self._settings(endpoint), indent=1)},
            stdin=instruction,
        )

    def _arguments(self, endpoint: Endpoint) -> list[str]:
        arguments = ["--yolo", "--auth-type", "openai", "--output-format", "stream-json"]
        arguments += ["--max-session-turns", str(looser(endpoint.turns))]
        # An option and its text in one argument: the text may start with a dash.
        if self.options.system_prompt is not None:
            arguments.append(f"--system-prompt={self.options.system_prompt}")
        if self.options.append_system_prompt is not None:
            arguments.append(f"--append-system-prompt={self.options.append_system_prompt}")
        return arguments

    def _settings(self, endpoint: Endpoint) -> dict[str, Json]:
        options = self.options
        generation: dict[str, Json] = {
            "timeout": _TIMEOUT_MS,
            "contextWindowSize": options.context_tokens or max(1_000_000, looser(endpoint.context_tokens)),
        }
        provider: dict[str, Json] = {
            "id": endpoint.model,
            "envKey": "OPENAI_API_KEY",
            "baseUrl": f"{endpoint.base_url}/v1",
            "generationConfig": generation,
        }
        model: dict[str, Json] = {"name": endpoint.model, "generationConfig": generation}
        if options.reasoning_effort is not None:
            model["reasoningEffort"] = options.reasoning_effort
        tools: dict[str, Json] = {"exclude": list(options.excluded_tools)}
        if options.tools is not None:
            tools["core"] = list(options.tools)
        return {
            "model": model,
            "modelProviders": {"openai": [provider]},
            "tools": tools,
            "disableAllHooks": True,
            "mcp": {"allowed": ["none"]},
            "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }


def _build(files: Path) -> None:
    npm.fetch(PACKAGE, files / "qwen-code")
    _check(node.copy(files), files / "qwen-code" / "cli-entry.js")


def _check(program: Path, entry: Path) -> None:
    """Start the program.

    Raises:
        HarnessError: It does not start here, or is of another version.
    """
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.defpath}
        result = run([program, entry, "--version"], timeout=CHECK_SECONDS, env=environment, cwd=home)
    if result.returncode != 0 or result.stdout.split()[-1:] != [VERSION]:
        said = " ".join((result.stdout + result.stderr).split())[-300:]
        raise HarnessError(
            f"Qwen Code {VERSION} does not start here (status {result.returncode}): {said}", "it needs glibc >= 2.28"
        )
