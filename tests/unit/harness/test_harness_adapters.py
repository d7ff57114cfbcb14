"""Adapters: options are the official ones and nothing else, and a launch says everything and inherits nothing."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.errors import ConfigError
from lego_rl.harness import registry
from lego_rl.harness.base import Endpoint, Launch, OptionValue, looser

ENDPOINT = Endpoint("http://127.0.0.1:4000/s/secret", "policy", context_tokens=8_000, output_tokens=1_000, turns=12)
NAMES = sorted(registry.REGISTRY)


def launch(name: str, instruction: str = "Fix it.", **options: OptionValue) -> Launch:
    harness = registry.make(name, options)
    return harness.launch(
        instruction, ENDPOINT, mount="/opt/harness", home="/home/agent", workdir="/app", path="/opt/python/bin:/usr/bin"
    )


def setup(**options: OptionValue) -> dict[str, Any]:
    """What the OpenHands runner is told."""
    content: dict[str, Any] = json.loads(launch("openhands-sdk", **options).argv[-1])
    return content


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(instruction=st.text())
def test_instruction_goes_to_standard_input_unaltered_and_nowhere_else(name: str, instruction: str) -> None:
    described = launch(name, instruction)
    assert described.stdin == instruction
    assert described.argv == launch(name, "another text").argv
    assert described.env == launch(name, "another text").env


@pytest.mark.parametrize("name", NAMES)
def test_launch_runs_from_the_mount_with_a_complete_environment(name: str) -> None:
    described = launch(name)
    assert described.argv[0].startswith("/opt/harness/bin/")
    assert described.env["HOME"] == "/home/agent"
    # What a bundle adds comes last, so that it never hides a program of the sandbox.
    first, second, *added = described.env["PATH"].split(":")
    assert [first, second] == ["/opt/python/bin", "/usr/bin"]
    assert all(folder.startswith("/opt/harness/") for folder in added)
    assert described.env["LANG"] == "C.UTF-8"
    assert all(path.startswith("/home/agent/") for path in described.files)


@pytest.mark.parametrize("name", NAMES)
def test_adapter_and_registry_agree(name: str) -> None:
    harness = registry.make(name)
    assert (harness.name, harness.version) == (harness.spec.name, harness.spec.version)
    assert harness.name == name
    assert harness.spec == registry.make(name).spec


@given(st.integers(0, 10**9))
def test_harness_limits_are_looser_than_the_budget(budget: int) -> None:
    assert looser(budget) > budget


def test_limits_reach_the_harness_looser() -> None:
    claude = launch("claude-code")
    assert int(claude.argv[claude.argv.index("--max-turns") + 1]) > ENDPOINT.turns
    assert int(claude.env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"]) > ENDPOINT.output_tokens
    assert int(claude.env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"]) > ENDPOINT.context_tokens
    assert setup()["conversation"]["max_iteration_per_run"] > ENDPOINT.turns


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("claude-code", {"baer": True}, r"unknown key harness\.options\.baer; did you mean harness\.options\.bare\?"),
        ("claude-code", {"temperature": 1.0}, "valid names here: append_system_prompt, autocompact_tokens, bare"),
        ("claude-code", {"effort": "huge"}, "harness.options.effort = 'huge'"),
        ("claude-code", {"autocompact_tokens": 5}, "autocompact_tokens = 5"),
        ("openhands-sdk", {"condensers": 3}, "did you mean harness.options.condenser_max_size"),
        ("openhands-sdk", {"tools": ["terminal", "browser"]}, "tools.1 = 'browser'"),
        ("claude", {}, "did you mean claude-code"),
        ("vim", {}, "valid names here: claude-code, "),
    ],
)
def test_bad_names_and_values_are_refused(name: str, options: dict[str, OptionValue], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        registry.make(name, options)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("claude-code", "system_prompt"),
        ("claude-code", "append_system_prompt"),
        ("mini-swe-agent", "instance_template"),
        ("opencode", "system_prompt"),
        ("openhands-sdk", "system_prompt"),
        ("qwen-code", "append_system_prompt"),
    ],
)
def test_an_option_that_no_program_can_be_started_with_is_refused_by_its_name(name: str, option: str) -> None:
    assert registry.make(name, {option: "x" * 120_000})
    with pytest.raises(ConfigError, match=rf"harness\.options\.{option} cannot be passed on: .* 13\d{{4}} bytes"):
        registry.make(name, {option: "x" * 131_072})


@pytest.mark.parametrize("option", ["system_prompt", "append_system_prompt"])
@pytest.mark.parametrize("name", ["claude-code", "qwen-code"])
def test_a_nul_in_an_option_is_refused_by_its_name(name: str, option: str) -> None:
    values: dict[str, OptionValue] = {"system_prompt": "A long text.", option: "a\0b"}
    with pytest.raises(ConfigError, match=rf"harness\.options\.{option} cannot be passed on: .*NUL"):
        registry.make(name, values)


def test_an_option_that_is_written_into_a_file_may_be_long() -> None:
    assert registry.make("codex", {"developer_instructions": "x" * 200_000})


def test_claude_code_options_become_arguments() -> None:
    plain = launch("claude-code").argv
    assert not {"--bare"} & set(plain)
    described = launch(
        "claude-code",
        bare=True,
        tools=["Bash", "Edit"],
        system_prompt="--be brief",
        append_system_prompt="Be exact.",
        effort="low",
        autocompact_tokens=120_000,
    ).argv
    assert set(described) - set(plain) == {
        "--bare",
        "--tools=Bash,Edit",
        "--system-prompt=--be brief",
        "--append-system-prompt=Be exact.",
        "--effort=low",
        "--autocompact=120000",
    }
    assert described[described.index("--permission-mode") + 1] == "bypassPermissions"


def test_claude_code_without_tools_says_so() -> None:
    assert "--tools=" in launch("claude-code", tools=[]).argv


def test_openhands_options_reach_the_constructors() -> None:
    default = setup()
    assert default["llm"]["base_url"] == f"{ENDPOINT.base_url}/v1"
    assert default["llm"]["model"] == "openai/policy"
    assert default["condenser"] is None
    assert [tool["name"] for tool in default["tools"]] == ["terminal", "file_editor", "task_tracker"]
    small = setup(
        tools=["terminal"],
        builtin_tools=["FinishTool"],
        system_prompt="Fix it.",
        condenser_max_size=40,
        stuck_detection=False,
        terminal="tmux",
    )
    assert small["tools"] == [{"name": "terminal", "params": {"terminal_type": "tmux"}}]
    assert small["agent"] == {"include_default_tools": ["FinishTool"], "system_prompt": "Fix it."}
    assert small["condenser"] == {"max_size": 40, "keep_first": 2}
    assert small["conversation"]["stuck_detection"] is False


def test_openhands_runner_is_written_where_it_is_started() -> None:
    described = launch("openhands-sdk")
    runner = next(argument for argument in described.argv if argument.endswith(".py"))
    compile(described.files[runner], runner, "exec")
