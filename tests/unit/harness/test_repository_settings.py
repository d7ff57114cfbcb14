"""Settings of the repository under work are hostile input: what of a launch keeps them out."""

import json

import pytest

from lego_rl.harness import registry
from lego_rl.harness.base import Endpoint, Launch, OptionValue


def launched(name: str, **options: OptionValue) -> Launch:
    endpoint = Endpoint("http://127.0.0.1:9/s/x", "policy", context_tokens=9_000, output_tokens=900, turns=3)
    return registry.make(name, options).launch(
        "Mend it.", endpoint, mount="/opt/harness", home="/home/agent", workdir="/app"
    )


def test_claude_code_reads_the_users_settings_only() -> None:
    launch = launched("claude-code")
    assert {"--setting-sources=user", "--strict-mcp-config"} <= set(launch.argv)


def test_claude_code_is_told_to_read_the_instructions_that_go_with_them() -> None:
    launch = launched("claude-code")
    assert "--add-dir=/app" in launch.argv
    assert launch.env["CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"] == "1"
    assert not [argument for argument in launched("claude-code", bare=True).argv if "add-dir" in argument]


def test_opencode_reads_no_configuration_of_the_project() -> None:
    environment = launched("opencode").env
    assert environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert json.loads(environment["OPENCODE_CONFIG_CONTENT"])["instructions"] == ["/app/AGENTS.md"]


def test_qwen_code_gets_settings_that_come_before_the_projects() -> None:
    launch = launched("qwen-code")
    settings = json.loads(launch.files[launch.env["QWEN_CODE_SYSTEM_SETTINGS_PATH"]])
    (provider,) = settings["modelProviders"]["openai"]
    assert provider["baseUrl"] == launch.env["OPENAI_BASE_URL"]
    assert settings["disableAllHooks"] is True


def test_mini_swe_agent_gets_its_configuration_by_its_path() -> None:
    _, *arguments = json.loads(launched("mini-swe-agent").argv[-1])
    assert all(argument.startswith("/opt/harness/") for argument in arguments if argument.endswith(".yaml"))


@pytest.mark.parametrize("name", registry.REGISTRY)
def test_nothing_is_placed_in_the_repository(name: str) -> None:
    assert not [path for path in launched(name).files if path.startswith("/app")]
