"""Recipes are read strictly, and every refusal names the key and the way out."""

from pathlib import Path
from typing import Annotated, Literal, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, model_validator

from lego_rl.config.load import dump, read
from lego_rl.errors import ConfigError
from lego_rl.settings import FolderPath, Settings, validate


class Fixed(Settings):
    kind: Literal["fixed"] = "fixed"
    cap: float = 2.0


class Free(Settings):
    kind: Literal["free"] = "free"


class Inner(Settings):
    steps: int = 8
    rate: float = 1e-4
    label: str | None = None
    size: Annotated[Free | Fixed, Field(discriminator="kind")] = Free()
    extra: dict[str, int | str | list[str]] = Field(default_factory=dict)
    first: int = 0
    last: int = 0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.first > self.last:
            raise ValueError("first must not be after last")
        return self


class Outer(Settings):
    train: Inner = Inner()
    name: str


def recipe(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "r.toml"
    path.write_text(text)
    return path


def test_overrides_win_and_bare_words_are_strings(tmp_path: Path) -> None:
    path = recipe(tmp_path, 'name = "a"\n[train]\nsteps = 3\n')
    got = read(Outer, path, ["train.steps=12", "name=demo", "train.label=x y"])
    assert got == Outer(name="demo", train=Inner(steps=12, label="x y"))


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ('name = "a"\n[train]\nstep = 3\n', [], "did you mean train.steps?"),
        ("[train]\n", [], "name is missing"),
        ('name = "a"\n[train]\nsteps = "many"\n', [], "train.steps = 'many'"),
        ('name = "a"\n[train\n', [], "not valid TOML"),
        ('name = "a"\n', ["train.steps"], "not of the form"),
        ('name = "a"\n', ["name.x=1"], "name is a value"),
        ('name = "a"\n', ["train.rate=nan"], "train.rate"),
        ("name = " + "[" * 5000 + "]" * 5000, [], "nested too deeply"),
        ("name = " + "9" * 5000, [], "not valid TOML"),
        ('name = "a"\n', ["train.steps=" + "9" * 5000], "train.steps = '999"),
        ('name = "a"\n', ["train.steps=1\ntrain.rate=2"], "train.steps = '1\\ntrain.rate=2'"),
        ('name = "a"\n', ["train.size.cap=3"], "train.size.kind is missing"),
        ('name = "a"\n', ["train.size.kind=fixed", "train.size.cap=x"], "train.size.cap = 'x'"),
        ('name = "a"\n', ["train.size.kind=fixed", "train.size.cop=1"], "did you mean train.size.cap?"),
        ('name = "a"\n', ["train.extra.x=[[1]]"], "train.extra.x = [[1]]"),
        ('name = "a"\n', ["train.first=3", "train.last=2"], "first must not be after last; see docs/recipes.md"),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line(tmp_path: Path, text: str, overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(Outer, recipe(tmp_path, text), overrides)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_recipe_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "demo.toml").write_text("")
    with pytest.raises(ConfigError, match=r"did you mean .*demo\.toml"):
        read(Outer, tmp_path / "demmo.toml")


@given(steps=st.integers(), rate=st.floats(allow_nan=False, allow_infinity=False), name=st.text())
def test_a_dumped_recipe_reads_back_the_same(steps: int, rate: float, name: str) -> None:
    import tomllib

    recipe = Outer(name=name, train=Inner(steps=steps, rate=rate))
    assert validate(Outer, tomllib.loads(dump(recipe)), guide="") == recipe


class Places(Settings):
    dir: FolderPath
    others: tuple[FolderPath, ...] = ()


@pytest.mark.parametrize("text", ["", "a\0b", "\ud800", "~nobody-of-this-name/x"])
def test_a_name_that_no_folder_can_have_is_refused(text: str) -> None:
    for raw in ({"dir": text}, {"dir": "x", "others": [text]}):
        with pytest.raises(ConfigError, match=r"^(dir|others\.0) = "):
            validate(Places, raw, guide="the manual")


def test_a_folder_may_be_below_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert validate(Places, {"dir": "~/runs"}, guide="the manual").dir == Path("/somewhere/runs")
