"""Reducers outside of their order are refused at the author's line."""

from __future__ import annotations

from typing import Any

import pytest

import tile_core.language as T
from tile_core.errors import ReducerError
from tile_core.passes.check_reducers import check_reducers


def program(body: Any) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            total = T.alloc_reducer((4,), "float32")
            tile = T.alloc_fragment((4,), "float32")
            body(total, tile, A)

    return kernel


@T.macro
def in_order(total: Any, tile: Any, A: Any) -> None:
    for k in T.serial(2):
        T.reducer_init(total)
        for i in T.Parallel(4):
            T.reducer_update(total[i], A[i])
        T.finalize_reducer(total, tile)
        for i in T.Parallel(4):
            A[i] = total[i] + tile[i] + k


@T.macro
def read_while_open(total: Any, tile: Any, A: Any) -> None:
    T.reducer_init(total)
    A[0] = total[1]
    T.finalize_reducer(total)


@T.macro
def copied_while_open(total: Any, tile: Any, A: Any) -> None:
    T.clear(total)
    T.copy(total, tile)
    T.finalize_reducer(total)


@T.macro
def never_finalised(total: Any, tile: Any, A: Any) -> None:
    T.reducer_init(total)
    T.reducer_update(total[0], A[0])


@T.macro
def contributed_outside(total: Any, tile: Any, A: Any) -> None:
    total[0] += A[0]


def test_the_right_order_is_accepted() -> None:
    check_reducers(program(in_order).body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (read_while_open, "read before it is finalised"),
        (copied_while_open, "read before it is finalised"),
        (never_finalised, "never finalised"),
        (contributed_outside, "outside of an epoch"),
    ],
)
def test_refusals(body: Any, words: str) -> None:
    with pytest.raises(ReducerError, match=f"total is .*{words}") as caught:
        check_reducers(program(body).body)
    assert caught.value.span is not None
    assert caught.value.span.file == __file__
