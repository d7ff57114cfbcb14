"""Recipes of a policy behind an endpoint: what they say, what they refuse, and that nothing trains on them."""

from pathlib import Path

import pytest

from lego_rl.commands.policies import policy_directory
from lego_rl.commands.recipe_check import check_recipe
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.errors import ConfigError
from tests.chat_endpoint import KEY

TEXT = """\
run.dir = "runs/x"
harness.name = "claude-code"

[engine]
kind = "chat"
url = "https://host/v1"
model = "org/hosted"
key_env = "ENDPOINT_KEY"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "hosted.toml"
    path.write_text(TEXT)
    return path


def test_the_engine_is_the_policy(recipe: Path, tmp_path: Path) -> None:
    found = read(Recipe, recipe)
    assert isinstance(found.engine, ChatSettings)
    assert found.policy.path == "chat:org/hosted"
    again = tmp_path / "resolved.toml"
    again.write_text(dump(found))
    assert read(Recipe, again) == found
    with pytest.raises(ConfigError, match="chat:org/hosted is behind an endpoint"):
        policy_directory(found.policy.path)


def test_nothing_trains_on_it(recipe: Path) -> None:
    with pytest.raises(ConfigError, match="gives no tokens to train on"):
        check_recipe(read(Recipe, recipe))


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("engine.key_env=sk-123", "key_env must be the NAME"),
        ("engine.url=host/v1", "url must be an address"),
        ("engine.extra.model=other", "extra must not hold model"),
        ("engine.dtype=float32", r"unknown key engine\.dtype"),
        ("policy.path=builtin:demo", r"the policy of a chat engine is engine\.model"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(recipe: Path, override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(Recipe, recipe, [override])


def test_a_key_in_the_place_of_its_name_is_not_printed(recipe: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(Recipe, recipe, [f"engine.key_env={KEY}"])
    assert KEY not in str(caught.value)
