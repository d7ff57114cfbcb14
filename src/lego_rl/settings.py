"""Settings: immutable, typed, and refusing names they do not know, with the nearest one that they do."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAliasType, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from lego_rl.errors import ConfigError

MOST_SHOWN = 100
"""Characters of a value, or of an argument, that are repeated in what is said of it."""


class Settings(BaseModel):
    """A section of a recipe. It stands beside the class that it configures."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, raw: object) -> object:
        """Python takes ``true`` for 1; as the text that it is in a recipe it is no number."""
        if not isinstance(raw, Mapping):
            return raw
        return {key: str(value).lower() if cls._is_no_number(key, value) else value for key, value in raw.items()}

    @classmethod
    def _is_no_number(cls, key: str, value: object) -> bool:
        field = cls.model_fields.get(key)
        kinds = () if field is None else (field.annotation, *get_args(field.annotation))
        return isinstance(value, bool) and (int in kinds or float in kinds) and bool not in kinds


def _usable(path: object) -> object:
    if not isinstance(path, str):
        return path
    if not path or "\0" in path or path.encode(errors="ignore").decode() != path:
        raise ValueError("no folder can have this name")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError("there is no such home folder") from error


FolderPath = Annotated[Path, BeforeValidator(_usable)]
"""A folder as a person writes it: ``~`` is their home, and the empty text of an unset shell variable is none."""
FilePath = FolderPath
"""A file, likewise."""


def _expanded(name: object) -> object:
    return str(_usable(name)) if isinstance(name, str) and name.startswith("~") else name


NameOrFolder = Annotated[str, BeforeValidator(_expanded)]
"""The name of something shipped, or a folder as a person writes it."""


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
        problem, fix = _describe(model, raw, details[0], section, guide)
        raise ConfigError(problem + more, fix) from error


def nearest(word: str, names: Iterable[str], *, below: str = "") -> str:
    """Advice on a name that does not exist: the one that was meant, with where it stands, or all there are."""
    known = sorted(names)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {_dotted(below, near[0])}?" if near else f"valid names here: {', '.join(known)}"


def _describe(
    model: type[BaseModel], raw: Mapping[str, Any], detail: ErrorDetails, section: str, guide: str
) -> tuple[str, str]:
    parts = _written(raw, detail)
    key = _dotted(section, *parts)
    if detail["type"] == "extra_forbidden":
        return f"unknown key {key}", nearest(parts[-1], _known(model, parts[:-1]), below=_dotted(section, *parts[:-1]))
    if detail["type"] == "missing":
        return f"{key} is missing", f"add {key} to the recipe"
    if detail["type"] == "union_tag_not_found":
        tag = _dotted(key, detail["ctx"]["discriminator"].strip("'"))
        return f"{tag} is missing, which says what {key} is", f"add {tag} to the recipe"
    if detail["type"] == "value_error" and isinstance(detail["input"], Mapping):  # of several keys, which it names
        return _sentence(detail["msg"]), f"see {guide} for what they take"
    return f"{key} = {shown(repr(detail['input']))}: {_sentence(detail['msg'])}", f"see {guide} for what it takes"


def shown(text: str) -> str:
    """As much of a text as one line can hold beside what is said of it."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _written(raw: Mapping[str, Any], detail: ErrorDetails) -> list[str]:
    """The path of an error as a recipe writes it; pydantic puts the members of a union between the keys."""
    parts: list[str] = []
    here: Any = raw
    for place, part in enumerate(detail["loc"], start=1):
        items = dict(enumerate(here)) if isinstance(here, list) else here
        if isinstance(items, Mapping) and part in items:
            here = items[part]
        elif detail["type"] != "missing" or place < len(detail["loc"]):
            continue
        parts.append(str(part))
    return parts


def _dotted(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _known(model: type[BaseModel], path: list[str]) -> set[str]:
    """The names that the section at a dotted path can have, whichever member of a union it is."""
    owners = [model]
    for part in path:
        fields = [owner.model_fields[part] for owner in owners if part in owner.model_fields]
        owners = [found for field in fields for found in _models(field.annotation)]
    return {name for owner in owners for name in owner.model_fields}


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, TypeAliasType):
        return _models(annotation.__value__)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
