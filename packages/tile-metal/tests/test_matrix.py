"""`T.gemm` by SIMD-group matrices, emulated under checks, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tvm import tirx

import tile_core as tl
import tile_core.language as T
from tile_core.ir.analyzer import Analyzer
from tile_core.layouts.digits import DigitMapping
from tile_metal.simdgroup import COLUMN_DIGITS, ROW_DIGITS, place_in_matrix

CHECKED = {"target": "metal", "execution": "emulate", "pass_configs": {"tile.emulate_check": True}}
POLICIES = (T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol)


def product(
    shape: tuple[int, int, int],
    tile: tuple[int, int, int],
    dtype: str,
    *,
    out: str = "float32",
    threads: int = 128,
    orders: tuple[bool, bool] = (False, False),
    policy: Any = T.GemmWarpPolicy.Square,
) -> Any:
    (m, n, k), (bm, bn, bk), (ta, tb) = shape, tile, orders

    @T.prim_func
    def kernel(
        A: T.Tensor((k, m) if ta else (m, k), dtype),
        B: T.Tensor((n, k) if tb else (k, n), dtype),
        C: T.Tensor((m, n), out),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared((bk, bm) if ta else (bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if tb else (bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), out)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=2):
                if ta:
                    T.copy(A[step * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, step * bk], a)
                if tb:
                    T.copy(B[bx * bn, step * bk], b)
                else:
                    T.copy(B[step * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb, policy=policy, clear_accum=step == 0)
            for i, j in T.Parallel(bm, bn):
                c[i, j] = T.max(c[i, j], 0.0)
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def check(kernel: Any, shape: tuple[int, int, int], dtype: str, out: str, orders: tuple[bool, bool]) -> str:
    """The report's line on the product, which must be right."""
    m, n, k = shape
    generator = torch.Generator().manual_seed(m * n + k)
    a, b = (torch.randn(size, generator=generator).to(getattr(torch, dtype)) for size in ((m, k), (k, n)))
    found = torch.full((m, n), torch.nan, dtype=getattr(torch, out))
    kernel(*(x.t().contiguous() if swap else x for x, swap in zip((a, b), orders, strict=True)), found)
    expected = (a.double() @ b.double()).clamp(min=0)
    bound = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}[out] * k**0.5
    assert (found.double() - expected).abs().max() < bound
    return str(kernel.report()["products"])


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("dtype", "out", "orders", "policy", "threads"),
    [
        ("float16", "float32", (False, False), POLICIES[0], 128),
        ("float16", "float16", (True, True), POLICIES[1], 64),
        ("bfloat16", "float32", (False, True), POLICIES[2], 128),
        ("bfloat16", "bfloat16", (True, False), POLICIES[0], 32),
        ("float32", "float32", (False, True), POLICIES[1], 96),
    ],
)
def test_products(dtype: str, out: str, orders: tuple[bool, bool], policy: Any, threads: int) -> None:
    shape, tile = (50, 70, 37), (48, 32, 16)
    made = product(shape, tile, dtype, out=out, orders=orders, policy=policy, threads=threads)
    kernel = tl.compile(made, **CHECKED)
    assert "simdgroup_multiply_accumulate" in check(kernel, shape, dtype, out, orders)
    assert "tile_multiply(" in kernel.get_kernel_source()


@pytest.mark.compile
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_clang_reads_it(dtype: str, read: Callable[[str], None]) -> None:
    for orders in ((False, False), (True, True)):
        made = product((50, 70, 37), (48, 32, 16), dtype, orders=orders)
        read(tl.compile(made, target="metal").get_kernel_source())


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("tile", "threads", "dtype", "why"),
    [
        ((36, 32, 16), 128, "float16", "not made of multiples of 8"),
        ((32, 32, 16), 80, "float16", "80 threads are not whole SIMD-groups"),
        ((8, 8, 16), 160, "float16", "5 SIMD-groups cannot share"),
    ],
)
def test_other_products_are_loops(tile: tuple[int, int, int], threads: int, dtype: str, why: str) -> None:
    shape, orders = (40, 33, 20), (False, False)
    kernel = tl.compile(product(shape, tile, dtype, threads=threads), **CHECKED)
    assert why in check(kernel, shape, dtype, "float32", orders)
    assert "tile_multiply" not in kernel.get_kernel_source()


@pytest.mark.emulate
def test_the_result_of_a_product_is_an_operand() -> None:
    """Attention's two products: the first one's result stays in the lanes that the second one wants it in."""
    rows, depth, keys = 32, 16, 48

    @T.prim_func
    def attention(
        Q: T.Tensor((rows, depth), "float16"),
        K: T.Tensor((keys, depth), "float16"),
        V: T.Tensor((keys, depth), "float16"),
        Out: T.Tensor((rows, depth), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q, k = T.alloc_shared((rows, depth), "float16"), T.alloc_shared((keys, depth), "float16")
            v = T.alloc_shared((keys, depth), "float16")
            scores, weights = T.alloc_fragment((rows, keys), "float32"), T.alloc_fragment((rows, keys), "float16")
            top, total = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            out = T.alloc_fragment((rows, depth), "float32")
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
            T.reduce_max(scores, top, dim=1)
            for i, j in T.Parallel(rows, keys):
                scores[i, j] = T.exp(scores[i, j] - top[i])
            T.reduce_sum(scores, total, dim=1)
            T.copy(scores, weights)
            T.clear(out)
            T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(rows, depth):
                out[i, j] = out[i, j] / total[i]
            T.copy(out, Out)

    kernel = tl.compile(attention, **CHECKED)
    assert str(kernel.report()["products"]).count("simdgroup_multiply_accumulate") == 2
    assert not kernel.report()["fragments_in_shared"]
    q, k, v = (torch.randn(size, depth).half() for size in (rows, keys, keys))
    found = torch.full((rows, depth), torch.nan)
    kernel(q, k, v, found)
    expected = torch.softmax(q.double() @ k.double().t(), dim=1) @ v.double()
    torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.emulate
def test_parts_of_tiles_at_odd_places() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((20, 25), "float32"), B: T.Tensor((25, 19), "float32"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((20, 25), "float32"), T.alloc_shared((25, 19), "float32")
            c = T.alloc_fragment((16, 8), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 1.0)
            T.gemm(a[3:19, 1:17], b[1:17, 5:13], c)
            T.copy(c, C)

    compiled = tl.compile(kernel, **CHECKED)
    a, b, c = torch.randn(20, 25), torch.randn(25, 19), torch.full((16, 8), torch.nan)
    compiled(a, b, c)
    torch.testing.assert_close(c, 1 + a[3:19, 1:17] @ b[1:17, 5:13], rtol=1e-5, atol=1e-5)
    assert "tile_multiply(" in compiled.get_kernel_source()


def test_the_digits_of_a_matrix_are_where_its_lanes_are() -> None:
    mapping = DigitMapping((ROW_DIGITS, COLUMN_DIGITS), 32, 32)
    fragment = mapping.fragment()
    seen = set()
    for lane in range(32):
        row, column = (int(Analyzer().simplify(part)) for part in place_in_matrix(tirx.IntImm("int32", lane)))
        seen |= {(row, column), (row, column + 1)}
        assert [tuple(index) for index in fragment.owned_by(lane)] == [(row, column), (row, column + 1)]
    assert len(seen) == 64
