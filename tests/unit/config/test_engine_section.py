"""``[engine]``: embedded where a recipe says nothing else, or vLLM servers."""

from pathlib import Path

import pytest

from lego_rl.config.load import dump, read
from lego_rl.config.recipe import EmbeddedSection, Recipe, VllmSection
from lego_rl.errors import ConfigError

RECIPE = '[run]\ndir = "run"\n[policy]\npath = "builtin:demo"\n[harness]\nname = "claude-code"\n'


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


@pytest.mark.parametrize("overrides", [[], ["engine.max_running=3"], ["engine.kind=embedded"]])
def test_an_engine_is_embedded_unless_a_recipe_says_otherwise(recipe: Path, overrides: list[str]) -> None:
    assert isinstance(read(Recipe, recipe, overrides).engine, EmbeddedSection)


def test_servers_are_named_and_survive_writing_the_recipe_out(recipe: Path, tmp_path: Path) -> None:
    urls = 'engine.urls=["http://10.0.0.1:8000", "http://10.0.0.2:8000"]'
    resolved = read(Recipe, recipe, ["engine.kind=vllm", urls])
    assert isinstance(resolved.engine, VllmSection)
    assert len(resolved.engine.urls) == 2
    again = tmp_path / "again.toml"
    again.write_text(dump(resolved))
    assert read(Recipe, again) == resolved


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["engine.kind=vllm"], "engine.urls"),
        (["engine.kind=vllm", "engine.urls=[]"], "engine.urls"),
        (["engine.kind=sglang"], "engine"),
        (["engine.kind=vllm", 'engine.urls=["http://a"]', "engine.max_running=3"], "engine.max_running"),
        (["engine.max_runing=3"], "did you mean engine.max_running"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(recipe: Path, overrides: list[str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        read(Recipe, recipe, overrides)
