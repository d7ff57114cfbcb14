"""Reading a recipe: TOML, then dotted overrides, then validation with the nearest valid name for a wrong one.

Invariant: what comes back is fully resolved; writing it out with `dump` and reading that again gives the same recipe.
"""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel

from lego_rl.documents import DocumentError, read_toml
from lego_rl.errors import ConfigError
from lego_rl.settings import shown, validate


def read[M: BaseModel](
    model: type[M], path: Path, overrides: Iterable[str] = (), *, guide: str = "docs/recipes.md"
) -> M:
    """Read a recipe file.

    Args:
        model: The recipe's type.
        path: A TOML file.
        overrides: ``section.key=value`` strings; the value is TOML (a bare word is a string).
        guide: The page that describes it.

    Raises:
        ConfigError: The file, a key or a value cannot be used; the message names the key and the nearest valid one.
    """
    try:
        raw = read_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no recipe {path}", _nearest_recipe(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read recipe {path}: {error}", "name a readable TOML file") from error
    except DocumentError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "mend the line it names") from error
    for override in overrides:
        _apply(raw, override)
    return validate(model, raw, guide=guide)


def plain(overrides: Iterable[str]) -> dict[str, Any]:
    """What ``key=value`` strings say, not validated; the value is TOML (a bare word is a string).

    Raises:
        ConfigError: One is not of that form.
    """
    raw: dict[str, Any] = {}
    for override in overrides:
        _apply(raw, override)
    return raw


def dump(recipe: BaseModel) -> str:
    """The resolved recipe as TOML; unset optional values are left out."""
    return tomli_w.dumps(recipe.model_dump(mode="json", exclude_none=True))


def _nearest_recipe(path: Path) -> str:
    folder = path.parent if path.parent.is_dir() else Path("recipes")
    names = sorted(p.name for p in folder.glob("*.toml")) if folder.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1)
    if near:
        return f"did you mean {folder / near[0]}?"
    return f"recipes in {folder}: {', '.join(names)}" if names else "name a TOML file"


def _apply(raw: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not all(key.split(".")):
        raise ConfigError(
            f"--set {shown(repr(override))} is not of the form section.key=value",
            "write for example --set train.steps=12",
        )
    try:
        parsed = read_toml(f"value = {text}")
        value = parsed["value"] if len(parsed) == 1 else text
    except DocumentError:
        value = text
    *sections, leaf = key.split(".")
    target: Any = raw
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise ConfigError(
                f"--set {shown(repr(override))}: {section} is a value, not a section", "name the key itself"
            )
    target[leaf] = value
