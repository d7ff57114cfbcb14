import re

import pytest

from lego_rl.analysis.actions import Kind
from lego_rl.analysis.tables import table_names, tool_table
from lego_rl.errors import ConfigError
from lego_rl.harness import registry


def test_every_harness_has_a_table() -> None:
    assert table_names() == sorted(registry.REGISTRY)


@pytest.mark.parametrize("name", sorted(registry.REGISTRY))
def test_a_table_knows_the_tools_that_the_adapter_names(name: str) -> None:
    conduct, table = registry.make(name).conduct, tool_table(name)
    assert table.tools[conduct.shell.name].does == "shell"
    assert table.tools[conduct.shell.name].text == conduct.shell.text
    for tool in (conduct.subagent, conduct.finish):
        assert tool is None or tool.name in table.tools
    if conduct.finish is not None:
        assert table.actions(conduct.finish.name, {})[0].kind is Kind.FINISH
    if conduct.last_command is not None:
        assert table.actions(conduct.shell.name, {conduct.shell.text: conduct.last_command})[0].kind is Kind.FINISH


@pytest.mark.parametrize("name", sorted(registry.REGISTRY))
def test_patterns_of_failure_are_regular_expressions(name: str) -> None:
    for pattern in (*tool_table(name).failed, *tool_table(name).shell_failed):
        re.compile(pattern)
        assert not re.search(pattern, "def total(cost, fee):\n    return cost - fee\n", re.MULTILINE)


def test_a_harness_without_a_table_is_refused_with_the_place_for_one() -> None:
    with pytest.raises(ConfigError, match="'quill'") as caught:
        tool_table("quill")
    assert "analysis/tools/quill.toml" in caught.value.fix


def test_a_tool_that_no_table_names_does_nothing_in_particular() -> None:
    assert [action.kind for action in tool_table("codex").actions("no_such_tool", {"path": 3})] == [Kind.OTHER]


def test_a_command_that_is_a_list_ends_with_what_the_shell_is_given() -> None:
    (action,) = tool_table("codex").actions("shell", {"command": ["bash", "-lc", "cat a.py"]})
    assert (action.kind, action.path) == (Kind.READ, "a.py")


def test_arguments_of_any_type_are_read() -> None:
    for value in (None, 3, [], {}, [1, 2], True):
        for name in table_names():
            for tool, row in tool_table(name).tools.items():
                arguments = {key: value for key in (row.text, row.path, row.by) if key is not None}
                assert tool_table(name).actions(tool, arguments)
