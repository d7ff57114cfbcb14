"""OpenCode: the unmodified native program from its npm package for Linux, and the ripgrep that it would download."""

import hashlib
import json
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import Field

from lego_rl.errors import HarnessError
from lego_rl.harness import bundles, npm
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

VERSION = "1.18.33"
PROGRAM = npm.Tarball(
    "opencode-linux-x64",
    VERSION,
    "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw==",
)
RIPGREP = npm.Tarball(
    "@vscode/ripgrep-linux-x64",
    "1.18.0",
    "sha512-mQ3bVrUpnD2vs7QT0vX90Lt0cnUq467uFtEktIdsJJmW296RoSULRGqWgzG1AKxyBpNDD6l4ZO4qKf6SgyC23Q==",
)

_REPOSITORY = {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}
"""Settings of the repository under work could name another endpoint, run commands and take tools away."""

SILENCE = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}

CHECK_SECONDS = 120.0

_PROVIDER = "policy"

type ToolName = Literal["bash", "edit", "glob", "grep", "read", "skill", "task", "todowrite", "webfetch"]


class OpenCodeOptions(Settings):
    """Official settings of ``opencode run`` and of its configuration file."""

    disabled_tools: tuple[ToolName, ...] = ()
    """``permission``: built-in tools that are denied and so not offered, such as ``["task", "webfetch"]``; ``edit``
    stands for ``write`` too."""
    system_prompt: str | None = Field(default=None, min_length=1)
    """``agent.build.prompt``: replaces the system prompt, whose default is about 2k tokens long."""
    title: str = "Task"
    """``--title``; if empty, OpenCode asks the model for one, in a call of its own beside the first turn."""
    compact_at_tokens: int | None = Field(default=None, ge=8_000)
    """Context size at which the history is summarised; unset, it never is."""


class OpenCode:
    """Launches ``opencode run`` with every permission, as the sandbox is what confines it."""

    name = "opencode"
    version = VERSION
    spec = BundleSpec(name, VERSION, "MIT", hashlib.sha256(f"layout 1 {PROGRAM} {RIPGREP}".encode()).hexdigest())

    def __init__(self, options: OpenCodeOptions) -> None:
        self.options = options

    @property
    def conduct(self) -> Conduct:
        """See `Harness.conduct`."""
        return Conduct(
            ToolUse("bash", "command"),
            too_long="stops" if self.options.compact_at_tokens is None else "summarises",
            subagent=ToolUse("task", "prompt", {"subagent_type": "general", "description": "look"}),
            # No switch stops it from loading these modules; nothing of what they offer is used.
            repository_runs=frozenset({"plugin"}),
        )

    def install(self, root: Path) -> HarnessBundle:
        """See `Harness.install`."""
        return bundles.install(root, self.spec, _build)

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        """See `Harness.launch`. The prompt goes to standard input; as an argument it would be wrapped in quotes."""
        arguments = ["run", "--format", "json"]
        if self.options.title:
            arguments.append(f"--title={self.options.title}")
        return Launch(
            argv=(f"{mount}/bin/opencode", *arguments),
            env={
                "HOME": home,
                # Its search tools take ripgrep from the path; last, so that a sandbox's own comes first.
                "PATH": f"{path}:{mount}/tools",
                "PWD": workdir,
                "LANG": "C.UTF-8",
                # The shell of the bash tool; its name is part of the tool's description.
                "SHELL": "/bin/bash",
                "OPENCODE_CONFIG_CONTENT": json.dumps(self._configuration(endpoint, workdir)),
                # A call that asks for less than every permission is refused, and the run ends. What is denied to every
                # call is not offered; the ``tools`` of the configuration would be overridden by these.
                "OPENCODE_PERMISSION": json.dumps({"*": "allow", **dict.fromkeys(self.options.disabled_tools, "deny")}),
                **_REPOSITORY,
                **SILENCE,
            },
            files=_plugin_kit(f"{home}/.config/opencode"),
            stdin=instruction,
        )

    def _configuration(self, endpoint: Endpoint, workdir: str) -> dict[str, Json]:
        options = self.options
        model = f"{_PROVIDER}/{endpoint.model}"
        agent: dict[str, Json] = {}
        if options.system_prompt is not None:
            agent["prompt"] = options.system_prompt
        return {
            "model": model,
            "small_model": model,
            "enabled_providers": [_PROVIDER],
            "provider": {_PROVIDER: self._provider(endpoint)},
            "agent": {"build": agent},
            "compaction": {"auto": options.compact_at_tokens is not None, "prune": False},
            "autoupdate": False,
            "share": "disabled",
            # What the repository says to the model, which the switch that turns its settings off leaves out, too.
            "instructions": [f"{workdir}/AGENTS.md"],
        }

    def _provider(self, endpoint: Endpoint) -> dict[str, Json]:
        output = max(32_000, looser(endpoint.output_tokens))
        context = looser(endpoint.context_tokens) + output
        if self.options.compact_at_tokens is not None:
            # OpenCode summarises where less than the reserve, at most `output`, is left of the context.
            context = self.options.compact_at_tokens + output
        return {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Policy",
            "options": {
                "baseURL": f"{endpoint.base_url}/v1",
                "apiKey": endpoint.api_key,
                # A model call may wait for a busy policy; the gateway's wall clock comes first.
                "timeout": False,
                "headerTimeout": False,
            },
            "models": {
                endpoint.model: {
                    "name": endpoint.model,
                    "tool_call": True,
                    "limit": {"context": context, "output": output},
                }
            },
        }


def _plugin_kit(folder: str) -> dict[str, str]:
    """Files of a configuration folder in which the package for writing plugins is installed, as far as OpenCode looks.

    Without them it looks that package up at npm, in the background of every run.
    """
    lock = {"lockfileVersion": 3, "packages": {"": {"dependencies": {"@opencode-ai/plugin": VERSION}}}}
    return {f"{folder}/package-lock.json": json.dumps(lock), f"{folder}/node_modules/.package-lock.json": "{}"}


def _build(files: Path) -> None:
    if platform.machine() != "x86_64":
        raise HarnessError(f"OpenCode is not pinned for {platform.machine()}", "use a Linux on x86_64")
    with tempfile.TemporaryDirectory(dir=files.parent, prefix="packages-") as folder:
        for tarball, program in ((PROGRAM, files / "bin" / "opencode"), (RIPGREP, files / "tools" / "rg")):
            package = Path(folder) / program.name
            npm.fetch(tarball, package)
            program.parent.mkdir()
            shutil.move(package / "bin" / program.name, program)
            program.chmod(0o755)
    _check(files / "bin" / "opencode")


def _check(program: Path) -> None:
    """Start the program.

    Raises:
        HarnessError: It does not start here.
    """
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.defpath, **SILENCE}
        result = run([program, "--version"], timeout=CHECK_SECONDS, env=environment, cwd=home)
    if result.returncode != 0 or result.stdout.split()[-1:] != [VERSION]:
        said = " ".join((result.stdout + result.stderr).split())[-300:]
        raise HarnessError(
            f"OpenCode {VERSION} does not start here (status {result.returncode}): {said}",
            "it needs glibc >= 2.17 and a processor with AVX2",
        )
