"""OpenHands SDK: the unmodified packages with a Python of their own, driven by a small program over the public API."""

import json
from importlib.resources import files as resources
from pathlib import Path
from typing import Literal

from pydantic import Field

from lego_rl.harness import bundles
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
from lego_rl.harness.python_bundle import PythonBundle
from lego_rl.messages import Json
from lego_rl.settings import Settings

VERSION = "1.58.2"

type ToolName = Literal["terminal", "file_editor", "task_tracker", "apply_patch", "glob", "grep"]

SILENCE = {
    # The price map would otherwise be fetched when the LLM library is imported.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "LOG_LEVEL": "WARNING",
}

# A model call may wait for a busy policy as long as the trial lasts; the gateway's wall clock comes first.
_TIMEOUT_SEC = 6 * 3600

_BUNDLE = PythonBundle(
    "openhands-sdk",
    "the OpenHands SDK",
    VERSION,
    check="import openhands.sdk as s, openhands.tools; print(s.__version__)",
    env=SILENCE,
)


class OpenHandsOptions(Settings):
    """Official settings of the SDK's ``Agent``, ``Conversation`` and terminal tool."""

    tools: tuple[ToolName, ...] = ("terminal", "file_editor", "task_tracker")
    """Tools of the openhands-tools package to offer."""
    builtin_tools: tuple[Literal["FinishTool", "ThinkTool"], ...] = ("FinishTool", "ThinkTool")
    """Tools of the SDK itself to offer; without FinishTool an answer that calls no tool ends the run."""
    system_prompt: str | None = Field(default=None, min_length=1)
    """Replaces the system prompt, whose default is about 3k tokens long."""
    condenser_max_size: int | None = Field(default=None, ge=10)
    """Events after which the history is summarised (the default preset's is 240); unset, it never is."""
    stuck_detection: bool = True
    """Whether a conversation that goes in circles is ended."""
    terminal: Literal["tmux", "subprocess"] = "subprocess"
    """Backend of the terminal tool; ``tmux`` needs the program in the sandbox."""


class OpenHandsSdk:
    """Launches one headless conversation with the bundle's own Python."""

    name = "openhands-sdk"
    version = VERSION

    def __init__(self, options: OpenHandsOptions) -> None:
        self.options = options

    @property
    def spec(self) -> BundleSpec:
        """See `Harness.spec`."""
        return BundleSpec(self.name, VERSION, "MIT", _BUNDLE.digest)

    @property
    def conduct(self) -> Conduct:
        """See `Harness.conduct`."""
        return Conduct(
            ToolUse("terminal", "command"),
            too_long="stops" if self.options.condenser_max_size is None else "summarises",
            finish=ToolUse("finish", "message"),
        )

    def install(self, root: Path) -> HarnessBundle:
        """See `Harness.install`."""
        return bundles.install(root, self.spec, _BUNDLE.build)

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        """See `Harness.launch`. The program that drives the SDK is written into the home directory."""
        runner = f"{home}/run_openhands_sdk.py"
        setup = json.dumps(self._setup(endpoint, mount=mount, workdir=workdir))
        return Launch(
            # Isolated, without site and without byte code of the runner: nothing in the sandbox changes the start.
            argv=(f"{mount}/bin/python", "-I", "-S", "-B", runner, setup),
            env={
                "HOME": home,
                "PATH": path,
                "PWD": workdir,
                "LANG": "C.UTF-8",
                "SHELL": "/bin/bash",
                "LD_LIBRARY_PATH": f"{mount}/lib",
                "PYDANTIC_DISABLE_PLUGINS": "1",
                **SILENCE,
            },
            files={
                runner: (resources("lego_rl.harness.runners") / "openhands_sdk.py").read_text(encoding="utf-8"),
                # Else every result of the subprocess terminal starts with the escape codes of bracketed paste.
                f"{home}/.inputrc": "set enable-bracketed-paste off\n",
            },
            stdin=instruction,
        )

    def _setup(self, endpoint: Endpoint, *, mount: str, workdir: str) -> dict[str, Json]:
        """What the runner passes on to the SDK, by constructor."""
        options = self.options
        agent: dict[str, Json] = {"include_default_tools": list(options.builtin_tools)}
        if options.system_prompt is not None:
            agent["system_prompt"] = options.system_prompt
        parameters: dict[str, dict[str, Json]] = {"terminal": {"terminal_type": options.terminal}}
        condenser: dict[str, Json] | None = None
        if options.condenser_max_size is not None:
            condenser = {"max_size": options.condenser_max_size, "keep_first": 2}
        return {
            "site_packages": f"{mount}/site-packages",
            "workdir": workdir,
            "llm": {
                "model": f"openai/{endpoint.model}",
                "base_url": f"{endpoint.base_url}/v1",
                "api_key": endpoint.api_key,
                "timeout": _TIMEOUT_SEC,
            },
            "tools": [{"name": name, "params": parameters.get(name, {})} for name in options.tools],
            "agent": agent,
            "condenser": condenser,
            "conversation": {
                "max_iteration_per_run": looser(endpoint.turns),
                "stuck_detection": options.stuck_detection,
            },
        }
