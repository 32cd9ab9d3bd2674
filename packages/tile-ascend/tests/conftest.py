"""A kernel that several tests look at."""

from __future__ import annotations

from typing import Any

import pytest

import tile_core.language as T


@T.prim_func
def row_softmax(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64, 256), "float32")):
    """Rows in, probabilities out: a copy by each engine and a SIMT function an iteration."""
    with T.Kernel(4, threads=64) as block:
        rows, result = T.alloc_shared((8, 256), "float32"), T.alloc_shared((8, 256), "float32")
        x, each = T.alloc_fragment((8, 256), "float32"), T.alloc_fragment((8,), "float32")
        for step in T.serial(2):
            T.copy(A[block * 16 + step * 8, 0], rows)
            T.copy(rows, x)
            T.reduce_max(x, each, dim=1)
            for i, j in T.Parallel(8, 256):
                x[i, j] = T.exp(x[i, j] - each[i])
            T.reduce_sum(x, each, dim=1)
            for i, j in T.Parallel(8, 256):
                x[i, j] = x[i, j] / each[i]
            T.copy(x, result)
            T.copy(result, B[block * 16 + step * 8, 0])


@pytest.fixture
def softmax() -> Any:
    """The kernel `row_softmax`, of rows of 256 elements."""
    return row_softmax
