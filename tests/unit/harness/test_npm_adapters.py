"""OpenCode and Qwen Code: what their configuration says, and that every limit in it is looser than the gateway's."""

import json
from typing import Any

import pytest

from lego_rl.errors import ConfigError
from lego_rl.harness import registry
from lego_rl.harness.base import Endpoint, Launch, OptionValue

ENDPOINT = Endpoint("http://127.0.0.1:4000/s/secret", "policy", context_tokens=8_000, output_tokens=1_000, turns=12)


def launch(name: str, endpoint: Endpoint = ENDPOINT, **options: OptionValue) -> Launch:
    harness = registry.make(name, options)
    return harness.launch("Fix it.", endpoint, mount="/opt/harness", home="/home/agent", workdir="/app")


def opencode(endpoint: Endpoint = ENDPOINT, **options: OptionValue) -> dict[str, Any]:
    """Its configuration."""
    content: dict[str, Any] = json.loads(launch("opencode", endpoint, **options).env["OPENCODE_CONFIG_CONTENT"])
    return content


def qwen(endpoint: Endpoint = ENDPOINT, **options: OptionValue) -> dict[str, Any]:
    """Its settings file."""
    described = launch("qwen-code", endpoint, **options)
    content: dict[str, Any] = json.loads(described.files["/home/agent/.qwen/system-settings.json"])
    return content


def test_opencode_knows_one_provider_and_one_model() -> None:
    configuration = opencode()
    assert configuration["model"] == configuration["small_model"] == "policy/policy"
    assert configuration["enabled_providers"] == list(configuration["provider"]) == ["policy"]
    assert configuration["provider"]["policy"]["options"]["baseURL"] == f"{ENDPOINT.base_url}/v1"
    assert list(configuration["provider"]["policy"]["models"]) == ["policy"]


@pytest.mark.parametrize("size", [8_000, 200_000, 2_000_000])
def test_opencode_limits_are_looser_than_the_budget(size: int) -> None:
    endpoint = Endpoint(ENDPOINT.base_url, "policy", context_tokens=size, output_tokens=size // 4, turns=12)
    limit = opencode(endpoint)["provider"]["policy"]["models"]["policy"]["limit"]
    assert limit["output"] > endpoint.output_tokens
    assert limit["context"] - limit["output"] > endpoint.context_tokens
    assert opencode(endpoint)["compaction"]["auto"] is False


def test_opencode_is_given_every_permission_and_no_title_to_ask_for() -> None:
    described = launch("opencode")
    assert json.loads(described.env["OPENCODE_PERMISSION"]) == {"*": "allow"}
    denied = launch("opencode", disabled_tools=["task", "webfetch"])
    assert json.loads(denied.env["OPENCODE_PERMISSION"]) == {"*": "allow", "task": "deny", "webfetch": "deny"}
    assert "--title=Task" in described.argv
    assert not [part for part in launch("opencode", title="").argv if part.startswith("--title")]


def test_opencode_options_reach_the_configuration() -> None:
    configuration = opencode(system_prompt="Mend it.", compact_at_tokens=20_000)
    assert configuration["agent"]["build"]["prompt"] == "Mend it."
    limit = configuration["provider"]["policy"]["models"]["policy"]["limit"]
    assert limit["context"] - limit["output"] == 20_000
    assert configuration["compaction"]["auto"] is True


def test_opencode_finds_the_package_for_plugins_installed() -> None:
    files = launch("opencode").files
    lock = json.loads(files["/home/agent/.config/opencode/package-lock.json"])
    assert "@opencode-ai/plugin" in lock["packages"][""]["dependencies"]
    assert any(path.startswith("/home/agent/.config/opencode/node_modules/") for path in files)


@pytest.mark.parametrize("size", [8_000, 200_000, 2_000_000])
def test_qwen_code_limits_are_looser_than_the_budget(size: int) -> None:
    endpoint = Endpoint(ENDPOINT.base_url, "policy", context_tokens=size, output_tokens=size // 4, turns=12)
    described = launch("qwen-code", endpoint)
    assert int(described.env["QWEN_CODE_MAX_OUTPUT_TOKENS"]) > endpoint.output_tokens
    assert int(described.argv[described.argv.index("--max-session-turns") + 1]) > endpoint.turns
    assert qwen(endpoint)["model"]["generationConfig"]["contextWindowSize"] > endpoint.context_tokens


def test_qwen_code_is_silent_and_remembers_nothing() -> None:
    settings = qwen()
    assert settings["privacy"] == {"usageStatisticsEnabled": False}
    assert settings["telemetry"] == {"enabled": False}
    assert settings["general"] == {"enableAutoUpdate": False}
    assert settings["memory"] == {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}


def test_qwen_code_options_reach_arguments_and_settings() -> None:
    options: dict[str, OptionValue] = {
        "tools": ["edit", "run_shell_command"],
        "excluded_tools": ["agent"],
        "system_prompt": "--be brief",
        "append_system_prompt": "Be exact.",
        "reasoning_effort": "low",
        "context_tokens": 30_000,
    }
    arguments = set(launch("qwen-code", ENDPOINT, **options).argv) - set(launch("qwen-code").argv)
    assert arguments == {"--system-prompt=--be brief", "--append-system-prompt=Be exact."}
    settings = qwen(ENDPOINT, **options)
    assert settings["tools"] == {"core": ["edit", "run_shell_command"], "exclude": ["agent"]}
    assert settings["model"]["reasoningEffort"] == "low"
    assert settings["model"]["generationConfig"]["contextWindowSize"] == 30_000


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("opencode", {"disabled_tools": ["bsah"]}, "disabled_tools.0 = 'bsah'"),
        ("opencode", {"compact_at_tokens": 5}, "compact_at_tokens = 5"),
        ("qwen-code", {"reasoning_effort": "huge"}, "reasoning_effort = 'huge'"),
        ("qwen-code", {"tool": []}, "did you mean harness.options.tools"),
    ],
)
def test_bad_values_are_refused(name: str, options: dict[str, OptionValue], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        registry.make(name, options)
