"""Rows of routes inside a server's worker: complete for every call, whoever computed a cached position.

The worker's file stands alone and asks vLLM only on which platform it runs, for which a stand-in answers here.
"""

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lego_rl.engine.vllm.launch import WORKER

BLOCK, LAYERS, TOP_K = 4, 2, 2


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    platforms = ModuleType("vllm.platforms")
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: False)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    spec = spec_from_file_location("lego_vllm_worker", WORKER / "lego_vllm_worker.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.RouteBook(BLOCK, LAYERS, TOP_K)


def rows(first: int, count: int) -> np.ndarray:
    """``[count, LAYERS, TOP_K]``, each unlike any other."""
    size = LAYERS * TOP_K
    return np.arange(first * size, (first + count) * size, dtype=np.uint8).reshape(count, LAYERS, TOP_K)


def test_rows_of_chunks_and_decoded_tokens_are_joined(book: Any) -> None:
    book.write("a-1", [7, 2], 0, rows(0, 5))
    book.write("a-1", [7, 2], 5, rows(5, 1))
    book.write("a-1", [7, 2], 6, rows(6, 1))
    assert np.array_equal(book.take("a-", 0), rows(0, 7))


def test_a_hit_of_the_prefix_cache_takes_the_rows_of_whoever_computed_them(book: Any) -> None:
    book.write("a-1", [7, 2], 0, rows(0, 8))
    book.finish("a-1")
    book.write("b-1", [7, 2, 5], 8, rows(20, 2))
    assert np.array_equal(book.take("b-", 0), np.concatenate([rows(0, 8), rows(20, 2)]))


def test_a_block_that_is_used_again_does_not_change_rows_of_an_earlier_call(book: Any) -> None:
    book.write("a-1", [3], 0, rows(0, 4))
    book.write("b-1", [3], 0, rows(30, 4))
    assert np.array_equal(book.take("a-", 0), rows(0, 4))
    assert np.array_equal(book.take("b-", 0), rows(30, 4))


def test_positions_that_are_computed_again_have_their_latest_rows(book: Any) -> None:
    book.write("a-1", [3, 4], 0, rows(0, 6))
    book.write("a-1", [8, 9], 0, rows(40, 7))
    assert np.array_equal(book.take("a-", 2), rows(42, 5))


def test_a_call_is_handed_out_once_and_an_unknown_one_never(book: Any) -> None:
    book.write("a-1", [3], 0, rows(0, 4))
    book.finish("a-1")
    assert book.take("a-", 0) is not None
    assert book.take("a-", 0) is None
    assert book.take("c-", 0) is None


def test_calls_that_nobody_asks_for_make_room(book: Any) -> None:
    for number in range(600):
        book.write(f"{number}-x", [0], 0, rows(0, 1))
        book.finish(f"{number}-x")
    assert book.take("0-", 0) is None
    assert book.take("599-", 0) is not None
