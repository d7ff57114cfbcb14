"""Servers, each started once for all tests that need it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from vllm_kit import Server, random_policy, serving


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-MoE with random weights."""
    return random_policy(tmp_path_factory.mktemp("policy") / "random")


@pytest.fixture(scope="module")
def float32(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(policy, "float32", tmp_path_factory.mktemp("float32") / "log") as server:
        yield server


@pytest.fixture(scope="module")
def bfloat16(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(policy, "bfloat16", tmp_path_factory.mktemp("bfloat16") / "log") as server:
        yield server
