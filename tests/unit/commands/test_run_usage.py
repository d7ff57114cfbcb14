"""``lego-rl run`` as it is called wrongly: one line each, and nothing is started."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lego_rl.cli import app
from lego_rl.errors import ConfigError

HOSTED = ("--endpoint", "http://127.0.0.1:9/v1", "--model", "m")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--endpoint", "http://h/v1"),
        ("--policy", "builtin:demo", "--model", "m"),
        (*HOSTED, "--policy", "builtin:demo"),
        (*HOSTED, "--image", "debian"),
        (*HOSTED, "--output-tokens", "100", "--context-tokens", "100"),
    ],
)
def test_what_does_not_fit_together_is_wrong_usage(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", "Do it.", "--workspace", str(tmp_path), *arguments])
    assert done.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--workspace", "/nowhere/at/all"), "there is no folder"),
        (("--workspace", "/"), "is no workspace"),
        (("--workspace", "~"), "is no workspace"),
        (("--workspace", ".", "--key-env", "sk-123"), "key_env must be the NAME"),
        (("--workspace", ".", "--ask", "outputkey=x"), "did you mean output_key"),
        (("--workspace", ".", "--harness", "claud-code"), "claud-code"),
    ],
)
def test_what_cannot_be_is_said(arguments: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(app, ["run", "Do it.", *HOSTED, *arguments])
    assert isinstance(done.exception, ConfigError), done.exception
    assert says in str(done.exception)
