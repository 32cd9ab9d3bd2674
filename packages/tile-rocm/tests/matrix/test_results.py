"""What a kernel does with the result of a product: reductions along both axes and atomic updates, once each.

Where a tile is too small for all waves, some repeat the work of others; what they would do twice is done once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T


def product(m: int, n: int, k: int, threads: int) -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((n, k), "float16"),
        C: T.Tensor((m, n), "float32"),
        Rows: T.Tensor((m,), "float32"),
        Columns: T.Tensor((n,), "float32"),
        Whole: T.Tensor((1,), "float32"),
    ):
        with T.Kernel(2, threads=threads) as _:
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            rows = T.alloc_fragment((m,), "float32")
            columns = T.alloc_fragment((n,), "float32")
            whole = T.alloc_fragment((1,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.reduce_sum(c, rows, dim=1)
            T.reduce_max(c, columns, dim=0)
            T.reduce_sum(rows, whole, dim=0)
            for i, j in T.Parallel(m, n):
                T.atomic_add(C[i, j], c[i, j] * 2.0)
            for i in T.Parallel(m):
                T.atomic_add(Rows[i], rows[i])
            for j in T.Parallel(n):
                T.atomic_add(Columns[j], columns[j])
            T.atomic_add(Whole[0], whole[0])

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("arch", "tile", "threads"),
    [
        ("gfx942", (16, 16, 32), 256),
        ("gfx942", (48, 32, 32), 192),
        ("gfx942", (128, 128, 32), 256),
        ("gfx1100", (16, 32, 16), 128),
        ("gfx1201", (16, 16, 32), 96),
    ],
)
def test_results_are_used_once(arch: str, tile: tuple[int, int, int], threads: int) -> None:
    m, n, k = tile
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    kernel = tl.compile(
        product(m, n, k, threads),
        target={"kind": "rocm", "arch": arch},
        execution="emulate",
        pass_configs={"tile.emulate_check": True},
    )
    assert "scalar" not in kernel.artifact.report["products"][0]
    found = [np.zeros(shape, np.float32) for shape in ((m, n), (m,), (n,), (1,))]
    kernel(a, b, *found)
    c = a.astype(np.float32) @ b.astype(np.float32).T
    for one, expected in zip(found, (2 * c, c.sum(1), c.max(0), c.sum(keepdims=True)[0]), strict=True):
        np.testing.assert_array_equal(one, 2 * expected)
