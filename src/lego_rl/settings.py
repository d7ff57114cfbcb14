"""The base class of every settings model: immutable, typed, and refusing names it does not know."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A section of a recipe. It stands beside the class that it configures."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
