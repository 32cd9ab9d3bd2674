"""Reducers in both forms, and their order."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import OpArgumentError, ReduceDTypeError, ReduceKindError, ReducerError


@pytest.mark.parametrize(("op", "function"), [("sum", torch.sum), ("max", torch.amax), ("min", torch.amin)])
def test_rows(run: Any, op: str, function: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((6, 17), "float32"), Out: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            total = T.alloc_reducer((6,), "float32", op=op)
            T.reducer_init(total)
            for i, j in T.Parallel(6, 17):
                T.reducer_update(total[i], A[i, j])
            T.finalize_reducer(total, Out)

    a, out = torch.randn(6, 17), torch.zeros(6)
    run(kernel, a, out)
    torch.testing.assert_close(out, function(a, dim=1))


def test_the_start_value_takes_part_once(run: Any) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64):
            total = T.alloc_reducer((1,), "int32")
            T.reducer_init(total, 5)
            for i in T.Parallel(100):
                T.reducer_update(total[0], i)
            T.finalize_reducer(total)
            T.copy(total, Out)

    out = torch.zeros(1, dtype=torch.int32)
    run(kernel, out)
    assert out.item() == 5 + 4950


def test_the_older_form(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 96), "float32"), X: T.Tensor((96,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(T.ceildiv(64, 2)) as b:
            total = T.alloc_reducer((2,), "float32", replication="all")
            T.clear(total)
            for k in T.serial(2):
                for i, j in T.Parallel(2, 48):
                    total[i] += A[b * 2 + i, k * 48 + j] * X[k * 48 + j]
            T.finalize_reducer(total)
            T.copy(total, Y[b * 2])

    a, x, y = torch.randn(64, 96), torch.randn(96), torch.zeros(64)
    run(kernel, a, x, y)
    torch.testing.assert_close(y, a @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("op", "expected"), [("bitand", 8), ("bitor", 15), ("bitxor", 12 ^ 10 ^ 9)])
def test_bits(run: Any, op: str, expected: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((3,), "int32"), Out: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            total = T.alloc_reducer((1,), "int32", op=op)
            T.reducer_init(total)
            for i in T.Parallel(3):
                T.reducer_update(total[0], A[i])
            T.finalize_reducer(total, Out)

    out = torch.zeros(1, dtype=torch.int32)
    run(kernel, torch.tensor([12, 10, 9], dtype=torch.int32), out)
    assert out.item() == expected


def attempt(body: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            total = T.alloc_reducer((4,), "float32")
            tile = T.alloc_fragment((4,), "float32")
            body(total, tile)


CASES = [
    (lambda total, tile: T.reducer_update(total[0], 1), ReducerError, ["total", "no open epoch"]),
    (lambda total, tile: T.finalize_reducer(total), ReducerError, ["total", "no open epoch"]),
    (lambda total, tile: T.reducer_init(tile), ReducerError, ["tile", "no reducer"]),
    (lambda total, tile: T.reducer_update(total, 1), OpArgumentError, ["reducer_update"]),
    (lambda total, tile: T.alloc_reducer((4,), "float32", op="mean"), ReduceKindError, ["mean", "bitxor"]),
    (lambda total, tile: T.alloc_reducer((4,), "float32", op="bitor"), ReduceDTypeError, ["float32"]),
]


@pytest.mark.parametrize(("body", "error", "words"), CASES)
def test_refusals(body: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        attempt(body)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_second_finalize_needs_a_second_init() -> None:
    with pytest.raises(ReducerError, match="total"):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                total = T.alloc_reducer((4,), "float32")
                T.reducer_init(total)
                T.finalize_reducer(total, batch=4)
                T.finalize_reducer(total)
