"""Policies that are made once a session."""

from collections.abc import Callable

import pytest
from engine_kit import EXPERTS, SIZES, Reference, random_module
from transformers import Qwen3Config, Qwen3MoeConfig


@pytest.fixture(scope="session")
def moe() -> Reference:
    return Reference(random_module(Qwen3MoeConfig(**SIZES, **EXPERTS), seed=0))


@pytest.fixture(scope="session")
def other_moe() -> Reference:
    """The same architecture with other weights."""
    return Reference(random_module(Qwen3MoeConfig(**SIZES, **EXPERTS), seed=1))


@pytest.fixture(scope="session")
def dense() -> Reference:
    return Reference(random_module(Qwen3Config(**SIZES), seed=0))


@pytest.fixture(scope="session")
def build_moe() -> Callable[..., Reference]:
    """Makes a policy that differs from the usual sizes."""

    def build(**changes: object) -> Reference:
        return Reference(random_module(Qwen3MoeConfig(**{**SIZES, **EXPERTS, **changes}), seed=2))

    return build
