"""Rules that ops share: a destination apart from its sources, whole reducers, representable safe values."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx

import tile_core.language as T
from tile_core.errors import AnnotationError, OpArgumentError, OperandOverlapError
from tile_core.ops.build import same, simplify


def attempt(body: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, 8), "int8"), B: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1):
            tile = T.alloc_shared((8, 8), "float32")
            total = T.alloc_reducer((8,), "float32")
            body(A, B, n, tile, total)


CASES = [
    (lambda A, B, n, tile, total: T.gemm(tile, tile, tile), OperandOverlapError, ["gemm", "tile"]),
    (lambda A, B, n, tile, total: T.reduce_sum(tile, tile[:, 0:1]), OperandOverlapError, ["reduce", "tile"]),
    (lambda A, B, n, tile, total: T.atomic_add(B[0:4], B[2:6]), OperandOverlapError, ["atomic", "B"]),
    (lambda A, B, n, tile, total: T.atomic_add(B[0:4], B[n : n + 4]), OperandOverlapError, ["atomic", "B"]),
    (lambda A, B, n, tile, total: T.fill(total[0:2], 0), OpArgumentError, ["fill"]),
    (lambda A, B, n, tile, total: T.annotate_safe_value({A: 200}), AnnotationError, ["200", "A", "int8"]),
    (lambda A, B, n, tile, total: T.annotate_safe_value({A: 0.5}), AnnotationError, ["0.5"]),
]


@pytest.mark.parametrize(("body", "error", "words"), CASES)
def test_refusals(body: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        attempt(body)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_disjoint_regions_of_one_buffer_are_accepted() -> None:
    attempt(lambda A, B, n, tile, total: T.gemm(tile[0:4, 0:4], tile[0:4, 4:8], tile[4:8, 0:4]))
    attempt(lambda A, B, n, tile, total: T.reduce_sum(tile[0:7, :], tile[7:8, :], dim=0))
    attempt(lambda A, B, n, tile, total: T.atomic_add(B[0:4], B[4:8]))


def test_integers_that_wrap_are_not_simplified() -> None:
    u, n = tirx.Var("u", "uint32"), tirx.Var("n", "int32")
    three = tirx.IntImm("uint32", 3)
    wrapped = tirx.Cast("int32", tirx.FloorDiv(tirx.Mul(u, three), three))
    assert simplify(wrapped).same_as(wrapped)
    assert str(simplify(tirx.Sub(tirx.Add(n, n), n))) == "n"
    assert same(wrapped, wrapped)
    assert not same(wrapped, tirx.Cast("int32", u))
