"""mini-swe-agent: the unmodified package with a Python of its own, started through its own ``mini`` command."""

import json
from importlib.resources import files as resources
from pathlib import Path

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

VERSION = "2.4.6"

SILENCE = {
    # The price map would otherwise be fetched when the LLM library is imported.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_SILENT_STARTUP": "1",
    # No questions about a first set-up, and none about the price of a model that nobody sells.
    "MSWEA_CONFIGURED": "true",
    "MSWEA_COST_TRACKING": "ignore_errors",
}

# A model call may wait for a busy policy as long as the trial lasts; the gateway's wall clock comes first.
_TIMEOUT_SEC = 6 * 3600

_BUNDLE = PythonBundle(
    "mini-swe-agent",
    "mini-swe-agent",
    VERSION,
    check="import minisweagent as m, minisweagent.run.mini, minisweagent.models.litellm_model; print(m.__version__)",
    env=SILENCE,
)


class MiniSweAgentOptions(Settings):
    """Official settings of ``mini``, by their place in its configuration files."""

    system_template: str | None = Field(default=None, min_length=1)
    """``agent.system_template``: replaces the system prompt, a Jinja template."""
    instance_template: str | None = Field(default=None, min_length=1)
    """``agent.instance_template``: replaces the first user message, a Jinja template that renders ``task``."""
    max_consecutive_format_errors: int = Field(default=3, ge=1)
    """``agent.max_consecutive_format_errors``: answers in a row without a readable call that end the run."""
    command_timeout: int = Field(default=30, ge=1)
    """``environment.timeout``: seconds after which a command is killed."""


class MiniSweAgent:
    """Launches ``mini`` without questions and without limits of cost."""

    name = "mini-swe-agent"
    version = VERSION
    conduct = Conduct(
        ToolUse("bash", "command"), too_long="stops", last_command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    )

    def __init__(self, options: MiniSweAgentOptions) -> None:
        self.options = options

    @property
    def spec(self) -> BundleSpec:
        """See `Harness.spec`."""
        return BundleSpec(self.name, VERSION, "MIT", _BUNDLE.digest)

    def install(self, root: Path) -> HarnessBundle:
        """See `Harness.install`."""
        return bundles.install(root, self.spec, _BUNDLE.build)

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        """See `Harness.launch`. The program that hands the task to ``mini`` is written into the home directory."""
        runner = f"{home}/run_mini_swe_agent.py"
        setup = json.dumps([f"{mount}/site-packages", *self._arguments(endpoint, mount)])
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
                "OPENAI_API_BASE": f"{endpoint.base_url}/v1",
                "OPENAI_API_KEY": endpoint.api_key,
                **SILENCE,
            },
            files={
                runner: (resources("lego_rl.harness.runners") / "mini_swe_agent.py").read_text(encoding="utf-8"),
            },
            stdin=instruction,
        )

    def _arguments(self, endpoint: Endpoint, mount: str) -> list[str]:
        """Arguments of ``mini``, the task excepted."""
        options = self.options
        settings: dict[str, Json] = {
            "agent.step_limit": looser(endpoint.turns),
            "agent.max_consecutive_format_errors": options.max_consecutive_format_errors,
            "environment.timeout": options.command_timeout,
            "model.model_kwargs.timeout": _TIMEOUT_SEC,
        }
        if options.system_template is not None:
            settings["agent.system_template"] = options.system_template
        if options.instance_template is not None:
            settings["agent.instance_template"] = options.instance_template
        arguments = ["--model", f"openai/{endpoint.model}", "--yolo", "--exit-immediately", "--cost-limit", "0"]
        # By its path: a file of that name in the repository under work would come first.
        arguments += ["--config", f"{mount}/site-packages/minisweagent/config/mini.yaml"]
        for key, value in settings.items():
            arguments += ["--config", f"{key}={json.dumps(value)}"]
        return arguments
