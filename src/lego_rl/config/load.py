"""Reading a recipe: TOML, then dotted overrides, then validation with the nearest valid name for a wrong one.

Invariant: what comes back is fully resolved; writing it out with `dump` and reading that again gives the same recipe.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lego_rl.errors import ConfigError


def read[M: BaseModel](model: type[M], path: Path, overrides: Iterable[str] = ()) -> M:
    """Read a recipe file.

    Args:
        model: The recipe's type.
        path: A TOML file.
        overrides: ``section.key=value`` strings; the value is TOML (a bare word is a string).

    Raises:
        ConfigError: The file, a key or a value cannot be used; the message names the key and the nearest valid one.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no recipe {path}", _nearest_recipe(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read recipe {path}: {error}", "name a readable TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "mend the line it names") from error
    for override in overrides:
        _apply(raw, override)
    return validate(model, raw)


def validate[M: BaseModel](model: type[M], raw: Mapping[str, Any]) -> M:
    """Validate plain data.

    Raises:
        ConfigError: Names the first wrong key, what is wrong with it, and how many more are wrong.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        details = error.errors()
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        problem, fix = _describe(model, details[0])
        raise ConfigError(problem + more, fix) from error


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
            f"--set {override!r} is not of the form section.key=value", "write for example --set train.steps=12"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, leaf = key.split(".")
    target: Any = raw
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise ConfigError(f"--set {override!r}: {section} is a value, not a section", "name the key itself")
    target[leaf] = value


def _describe(model: type[BaseModel], detail: ErrorDetails) -> tuple[str, str]:
    parts = [str(part) for part in detail["loc"]]
    key = ".".join(parts)
    if detail["type"] == "extra_forbidden":
        section = _section(model, parts[:-1])
        names = sorted(section.model_fields) if section else []
        near = difflib.get_close_matches(parts[-1], names, n=1)
        where = ".".join([*parts[:-1], near[0]]) if near else ""
        fix = f"did you mean {where}?" if near else f"valid names here: {', '.join(names)}"
        return f"unknown key {key}", fix
    if detail["type"] == "missing":
        return f"{key} is missing", f"add {key} to the recipe"
    return f"{key} = {detail['input']!r}: {_sentence(detail['msg'])}", "see docs/recipes.md for what it takes"


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _section(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    """The model behind a dotted path; pydantic puts a union's discriminator value into the path, which is skipped."""
    current: type[BaseModel] = model
    for part in path:
        field = current.model_fields.get(part)
        if field is None:
            continue
        candidates = [field.annotation, *get_args(field.annotation)]
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not models:
            return None
        current = models[0]
    return current
