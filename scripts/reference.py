"""Write the generated reference: every page of docs/reference/, docs/faults.md and docs/preflight.md.

Run ``.venv/bin/python -m scripts.reference`` after changing a settings class, a harness's options, the fault table, a
preflight rule or a name that a record can hold. A unit test compares the committed files with what this prints.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeAliasType, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lego_rl.config.eval_env import EvalEnv
from lego_rl.config.evaluation import EvaluationConfig
from lego_rl.config.recipe import Recipe
from lego_rl.config.sft_recipe import SftRecipe
from lego_rl.harness.registry import REGISTRY
from scripts import faults_page, outcomes, preflight_page

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
FAULTS = FOLDER.parent / "faults.md"
PREFLIGHT = FOLDER.parent / "preflight.md"
BESIDE = (FAULTS, PREFLIGHT)
"""Generated pages that are not of the reference."""
NOTE = "<!-- Generated: .venv/bin/python -m scripts.reference -->\n"


def pages() -> dict[Path, str]:
    """Every generated page: path → text."""
    made = {
        "recipe": recipe_page(),
        "sft": sft_page(),
        "evaluation": evaluation_page(),
        "outcomes": outcomes_page(),
    }
    beside = {FAULTS: fault_table_page(), PREFLIGHT: preflight_rules_page()}
    return beside | {FOLDER / f"{name}.md": text for name, text in made.items()}


def recipe_page() -> str:
    """Every key of a recipe and every option of every harness."""
    parts = sections("Recipe reference", "train", Recipe)
    for name, registration in REGISTRY.items():
        parts += section(f"[harness.options] of {name}", registration.options)
    return "\n".join(parts)


def sft_page() -> str:
    """Every key of a recipe of supervised fine-tuning."""
    return "\n".join(sections("Fine-tuning recipe reference", "sft", SftRecipe))


def evaluation_page() -> str:
    """Every key of an evaluation's configuration, and every key of the published file."""
    parts = sections("Evaluation reference", "eval run", EvaluationConfig)
    parts += [
        "## scripts/eval/_template.env\n",
        "Keys of the published file; those without a default may be left out.\n",
    ]
    rows = ["| key | default | meaning |", "| --- | --- | --- |"]
    for name, field in EvalEnv.model_fields.items():
        rows.append(f"| `{name.upper()}` | {default(field)} | {meaning(field)} |")
    return "\n".join([*parts, "\n".join(rows) + "\n"])


def sections(title: str, command: str, recipe: type[BaseModel]) -> list[str]:
    """A page's head and every section of a recipe."""
    override = f"Every key can be overridden: `lego-rl {command} RECIPE --set section.key=value`.\n"
    parts = [NOTE, f"# {title}\n", override]
    for name, field in recipe.model_fields.items():
        for model in models_in(field.annotation):
            parts += section(f"[{name}]", model)
    return parts


def section(title: str, model: type[BaseModel]) -> Iterator[str]:
    """A heading and a table of one settings class, then those of its nested sections."""
    yield f"## {title}\n\n{' '.join((model.__doc__ or '').split())}\n"
    rows, nested = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"], []
    for name, field in model.model_fields.items():
        inner = models_in(field.annotation)
        if inner:
            nested += [(f"{title.rstrip(']')}.{name}]" if title.endswith("]") else f"{title}.{name}", m) for m in inner]
            continue
        rows.append(f"| `{name}` | {type_name(field.annotation)} | {default(field)} | {meaning(field)} |")
    if len(rows) > 2:
        yield "\n".join(rows) + "\n"
    for inner_title, inner_model in nested:
        yield from section(inner_title, inner_model)


def fault_table_page() -> str:
    """The fault table."""
    return "\n".join([NOTE, "# Fault table\n", *faults_page.faults_page()])


def preflight_rules_page() -> str:
    """The rules of preflight."""
    return "\n".join([NOTE, "# Preflight\n", *preflight_page.preflight_page()])


def outcomes_page() -> str:
    """Everything else that a trial's record says in names."""
    return "\n".join([NOTE, "# What a record says\n", *outcomes.outcomes_page()])


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Settings classes within an annotation, such as the members of a union."""
    if isinstance(annotation, TypeAliasType):
        return models_in(annotation.__value__)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def type_name(annotation: object) -> str:
    """A type as a recipe's author thinks of it."""
    if isinstance(annotation, TypeAliasType):
        return type_name(annotation.__value__)
    origin, args = get_origin(annotation), get_args(annotation)
    match origin:
        case None:
            return NAMES.get(annotation, str(annotation))
        case _ if origin is Literal:
            return " or ".join(
                f"`{str(v).lower() if isinstance(v, bool) else repr(v)}`".replace("'", '"') for v in args
            )
        case _ if origin is dict:
            return NAMES[dict]
        case _ if origin in (list, tuple):
            return f"list of {type_name(args[0])}"
        case _ if origin is Annotated:
            return type_name(args[0])
    return " or ".join(type_name(part) for part in args if part is not type(None))


NAMES: dict[object, str] = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "true or false",
    Path: "path",
    dict: "table",
    Ellipsis: "",
}


def default(field: FieldInfo) -> str:
    """A field's default as TOML would write it."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{list(value) if isinstance(value, tuple) else value}`".replace("'", '"')


def meaning(field: FieldInfo) -> str:
    """A field's docstring on one line."""
    return " ".join((field.description or "").split()).replace("|", "\\|")


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
