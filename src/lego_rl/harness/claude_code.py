"""Claude Code: the unmodified native program, from the wheel of its maker's SDK.

Claude Code is proprietary. It is installed by the user's own command from the package index and is no part of Lego-RL.
"""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import Field

from lego_rl.errors import HarnessError
from lego_rl.harness import bundle_record, bundles, packages
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
from lego_rl.settings import Settings

PACKAGE = "claude-agent-sdk==0.2.189"
VERSION = "2.1.332"
SHA256 = {
    "x86_64": "a2df1f41bb00250992926420d0063f89b127cb81abdd284dbefb80c50ff1d026",
    "aarch64": "50c305fcb8912851ce774429131d94ed6f84edbe3d8d0ed7a59dade5d893acc0",
}

SILENCE = {
    # Together these two leave no name lookup and no request but the model's; the others only document the intent.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}

CAPTURE = {
    # A cache marker moves from message to message and a billing line varies: without both, every request of a
    # conversation extends the one before it byte for byte.
    "DISABLE_PROMPT_CACHING": "1",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
}


INSTRUCTIONS = {
    # What the repository says to the model (CLAUDE.md), which goes with its settings, is read from a named folder.
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
}


class ClaudeCodeOptions(Settings):
    """Official options of ``claude -p``."""

    bare: bool = False
    """Minimal mode: a system prompt of about 1k tokens with Bash, Edit and Read instead of about 12k."""
    tools: tuple[str, ...] | None = None
    """Built-in tools to offer, such as ``["Bash", "Read", "Edit"]``; the mode's default set if unset."""
    system_prompt: str | None = Field(default=None, min_length=1)
    """Replaces the system prompt."""
    append_system_prompt: str | None = Field(default=None, min_length=1)
    """Text added to the end of the system prompt."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """Effort level that is sent with every request; a gateway's policy ignores it."""
    autocompact_tokens: int | None = Field(default=None, ge=100_000)
    """Context size at which the history is summarised; unset, that is beyond every budget of the gateway."""


class ClaudeCode:
    """Launches ``claude`` headless with every permission, as the sandbox is what confines it."""

    name = "claude-code"
    version = VERSION
    spec = BundleSpec(name, VERSION, "proprietary (Anthropic)", f"{PACKAGE} layout 1")
    conduct = Conduct(
        ToolUse("Bash", "command"), too_long="summarises", broken_off="either", subagent=ToolUse("Agent", "prompt")
    )

    def __init__(self, options: ClaudeCodeOptions) -> None:
        self.options = options

    def install(self, root: Path) -> HarnessBundle:
        """See `Harness.install`."""
        return bundles.install(root, self.spec, _build)

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        """See `Harness.launch`. The prompt goes to standard input, which print mode reads unaltered."""
        return Launch(
            argv=(f"{mount}/bin/claude", *self._arguments(endpoint, workdir)),
            env={
                "HOME": home,
                "PATH": path,
                "PWD": workdir,
                "LANG": "C.UTF-8",
                # The shell of the Bash tool; its name is part of the default prompt.
                "SHELL": "/bin/bash",
                # Without it the program refuses bypassPermissions for root.
                "IS_SANDBOX": "1",
                "ANTHROPIC_BASE_URL": endpoint.base_url,
                "ANTHROPIC_API_KEY": endpoint.api_key,
                "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max(32_000, looser(endpoint.output_tokens))),
                "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(max(1_000_000, looser(endpoint.context_tokens))),
                **SILENCE,
                **CAPTURE,
                **INSTRUCTIONS,
            },
            stdin=instruction,
        )

    def _arguments(self, endpoint: Endpoint, workdir: str) -> list[str]:
        options = self.options
        arguments = ["--print", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"]
        arguments += ["--model", endpoint.model, "--max-turns", str(looser(endpoint.turns)), "--no-session-persistence"]
        # Settings of the repository under work could name another endpoint, run commands and take tools away.
        arguments += ["--setting-sources=user", "--strict-mcp-config"]
        # Bare mode reads no instructions of a repository, but those of a folder that is named.
        arguments.append("--bare" if options.bare else f"--add-dir={workdir}")
        # An option and its text in one argument: the text may start with a dash.
        if options.tools is not None:
            arguments.append(f"--tools={','.join(options.tools)}")
        if options.system_prompt is not None:
            arguments.append(f"--system-prompt={options.system_prompt}")
        if options.append_system_prompt is not None:
            arguments.append(f"--append-system-prompt={options.append_system_prompt}")
        if options.effort is not None:
            arguments.append(f"--effort={options.effort}")
        if options.autocompact_tokens is not None:
            arguments.append(f"--autocompact={options.autocompact_tokens}")
        return arguments


def _build(files: Path) -> None:
    with tempfile.TemporaryDirectory(dir=files.parent, prefix="wheel-") as folder:
        packages.fetch(PACKAGE, Path(folder))
        program = files / "bin" / "claude"
        program.parent.mkdir()
        try:
            shutil.move(Path(folder) / "claude_agent_sdk" / "_bundled" / "claude", program)
        except FileNotFoundError as error:
            raise HarnessError(
                f"{PACKAGE} holds no Claude Code program for {platform.machine()}",
                "use a glibc Linux on x86_64 or aarch64",
            ) from error
    program.chmod(0o755)
    _check(program)


def _check(program: Path) -> None:
    """Compare the program with the pin.

    Raises:
        HarnessError: It is another file, cannot be started here or says another version.
    """
    expected = SHA256.get(platform.machine())
    if expected is not None and bundle_record.file_hash(program) != expected:
        raise HarnessError(f"{PACKAGE} holds another program than the one pinned", "clear uv's cache and install again")
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.defpath, **SILENCE}
        try:
            result = subprocess.run(
                [program, "--version"],
                env=environment,
                cwd=home,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HarnessError(
                f"Claude Code {VERSION} does not start here: {error}", "it needs glibc >= 2.26"
            ) from error
    if result.returncode != 0 or result.stdout.split()[:1] != [VERSION]:
        raise HarnessError(
            f"{PACKAGE} holds Claude Code {result.stdout.strip() or result.stderr.strip()!r}, not {VERSION}",
            "clear uv's cache and install again",
        )
