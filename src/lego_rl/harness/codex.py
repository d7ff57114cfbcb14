"""Codex: the unmodified native program from its npm package for Linux; it needs nothing of a system, not even glibc."""

import hashlib
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

import tomli_w
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
from lego_rl.settings import Settings

VERSION = "0.171.0"
PACKAGE = npm.Tarball(
    "@openai/codex",
    f"{VERSION}-linux-x64",
    "sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
)
_VENDORED = "vendor/x86_64-unknown-linux-musl"
_PROGRAMS = ("bin/codex", "bin/codex-code-mode-host", "codex-path/rg")
"""What a headless run can start; the package's own sandbox and its voice programs are left out."""

SILENCE: dict[str, Any] = {
    # Plug-ins and apps are looked for at github.com and chatgpt.com; the others only report.
    "features": {"plugins": False, "apps": False, "remote_plugin": False, "enable_request_compression": False},
    "analytics": {"enabled": False},
    "check_for_update_on_startup": False,
    "web_search": "disabled",
}

CHECK_SECONDS = 120.0

_PROVIDER = "policy"
_KEY = "POLICY_API_KEY"
# A stream may wait for a busy policy as long as the trial lasts; the gateway's wall clock comes first.
_IDLE_MS = 6 * 3600 * 1000


class CodexOptions(Settings):
    """Official settings of ``codex exec``, by their names in its configuration file."""

    developer_instructions: str | None = Field(default=None, min_length=1)
    """``developer_instructions``: a further message before the task."""
    effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None
    """``model_reasoning_effort``: sent with every request; a gateway's policy ignores it."""
    multi_agent: bool = True
    """``features.multi_agent``: whether the tools that call sub-agents are offered."""
    goals: bool = True
    """``features.goals``: whether the tools that keep a goal are offered."""
    compact_at_tokens: int | None = Field(default=None, ge=8_000)
    """``model_auto_compact_token_limit``: context size at which the history is summarised; unset, it never is."""


class Codex:
    """Launches ``codex exec`` with every permission, as the sandbox is what confines it."""

    name = "codex"
    version = VERSION
    spec = BundleSpec(name, VERSION, "Apache-2.0", hashlib.sha256(f"layout 1 {PACKAGE}".encode()).hexdigest())
    conduct = Conduct(
        ToolUse("exec_command", "cmd"),
        too_long="stops",
        broken_off="keeps",
        subagent=ToolUse("multi_agent_v1.spawn_agent", "message"),
    )

    def __init__(self, options: CodexOptions) -> None:
        self.options = options

    def install(self, root: Path) -> HarnessBundle:
        """See `Harness.install`."""
        return bundles.install(root, self.spec, _build)

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        """See `Harness.launch`. The prompt goes to standard input, which ``-`` stands for."""
        return Launch(
            argv=(
                f"{mount}/bin/codex",
                "exec",
                "--json",
                "--ephemeral",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "-",
            ),
            env={
                "HOME": home,
                "PATH": path,
                "PWD": workdir,
                "LANG": "C.UTF-8",
                # The shell of its commands; its name is part of the prompt.
                "SHELL": "/bin/bash",
                _KEY: endpoint.api_key,
            },
            files={f"{home}/.codex/config.toml": tomli_w.dumps(self._configuration(endpoint))},
            stdin=instruction,
        )

    def _configuration(self, endpoint: Endpoint) -> dict[str, Any]:
        options = self.options
        context = max(1_000_000, looser(endpoint.context_tokens))
        configuration: dict[str, Any] = {
            **SILENCE,
            "features": {**SILENCE["features"], "multi_agent": options.multi_agent, "goals": options.goals},
            "model": endpoint.model,
            "model_provider": _PROVIDER,
            "model_context_window": context,
            "model_auto_compact_token_limit": options.compact_at_tokens or context,
            # A login shell would take its path from the sandbox's profile instead of from here.
            "allow_login_shell": False,
            "model_providers": {
                _PROVIDER: {
                    "name": "Policy",
                    "base_url": f"{endpoint.base_url}/v1",
                    "env_key": _KEY,
                    "wire_api": "responses",
                    "stream_idle_timeout_ms": _IDLE_MS,
                }
            },
        }
        if options.developer_instructions is not None:
            configuration["developer_instructions"] = options.developer_instructions
        if options.effort is not None:
            configuration["model_reasoning_effort"] = options.effort
        return configuration


def _build(files: Path) -> None:
    if platform.machine() != "x86_64":
        raise HarnessError(f"Codex is not pinned for {platform.machine()}", "use a Linux on x86_64")
    with tempfile.TemporaryDirectory(dir=files.parent, prefix="packages-") as folder:
        package = Path(folder) / "codex"
        npm.fetch(PACKAGE, package)
        for name in _PROGRAMS:
            (files / name).parent.mkdir(exist_ok=True)
            shutil.move(package / _VENDORED / name, files / name)
            (files / name).chmod(0o755)
    _check(files / "bin" / "codex")


def _check(program: Path) -> None:
    """Start the program.

    Raises:
        HarnessError: It does not start here, or is of another version.
    """
    with tempfile.TemporaryDirectory() as home:
        result = run([program, "--version"], timeout=CHECK_SECONDS, env={"HOME": home, "PATH": os.defpath}, cwd=home)
    if result.returncode != 0 or result.stdout.split()[-1:] != [VERSION]:
        said = " ".join((result.stdout + result.stderr).split())[-300:]
        raise HarnessError(f"Codex {VERSION} does not start here: {said}", "report this with your system")
