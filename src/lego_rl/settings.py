"""Settings: immutable, typed, and refusing names they do not know, with the nearest one that they do."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from lego_rl.errors import ConfigError


class Settings(BaseModel):
    """A section of a recipe. It stands beside the class that it configures."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def validate[M: BaseModel](model: type[M], raw: Mapping[str, Any], *, guide: str, section: str = "") -> M:
    """Validate plain data.

    Args:
        model: What it should be.
        raw: Keys and values.
        guide: The page that describes them.
        section: Dotted name of the section of a recipe that it is; empty for a whole one.

    Raises:
        ConfigError: Names the first wrong key, what is wrong with it, and how many more are wrong.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        details = error.errors()
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        problem, fix = _describe(model, details[0], section, guide)
        raise ConfigError(problem + more, fix) from error


def nearest(word: str, names: Iterable[str], *, below: str = "") -> str:
    """Advice on a name that does not exist: the one that was meant, with where it stands, or all there are."""
    known = sorted(names)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {_dotted(below, near[0])}?" if near else f"valid names here: {', '.join(known)}"


def _describe(model: type[BaseModel], detail: ErrorDetails, section: str, guide: str) -> tuple[str, str]:
    parts = [str(part) for part in detail["loc"]]
    key = _dotted(section, *parts)
    if detail["type"] == "extra_forbidden":
        owner = _section(model, parts[:-1])
        names = owner.model_fields if owner else ()
        return f"unknown key {key}", nearest(parts[-1], names, below=_dotted(section, *parts[:-1]))
    if detail["type"] == "missing":
        return f"{key} is missing", f"add {key} to the recipe"
    return f"{key} = {detail['input']!r}: {_sentence(detail['msg'])}", f"see {guide} for what it takes"


def _dotted(*parts: str) -> str:
    return ".".join(part for part in parts if part)


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
