"""Matrix products without matrix instructions: register tiles, any sizes, transposes and dtypes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

# No matrix instruction covers these dtypes and sizes there, so the loops run.
TARGET = {"kind": "cuda", "arch": "sm_75"}


def product(
    sizes: tuple[int, int, int],
    block: tuple[int, int, int],
    transposed: tuple[bool, bool],
    dtype: str,
    total: str,
    threads: int,
) -> Any:
    (m, n, k), (bm, bn, bk), (ta, tb) = sizes, block, transposed
    a_shape, b_shape = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    a_tile, b_tile = ((bk, bm) if ta else (bm, bk)), ((bn, bk) if tb else (bk, bn))

    @T.prim_func
    def kernel(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), total)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared(a_tile, dtype)
            b = T.alloc_shared(b_tile, dtype)
            c = T.alloc_fragment((bm, bn), total)
            T.clear(c)
            for ko in T.serial(T.ceildiv(k, bk)):
                if ta:
                    T.copy(A[ko * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, ko * bk], a)
                if tb:
                    T.copy(B[bx * bn, ko * bk], b)
                else:
                    T.copy(B[ko * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            T.copy(c, C[by * bm, bx * bn])

    return kernel


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


CASES = [
    ((64, 64, 32), (64, 64, 32), (False, False), "float32", "float32", 64),
    ((33, 50, 17), (32, 24, 8), (False, True), "float32", "float32", 96),
    ((40, 104, 24), (40, 104, 12), (True, False), "int8", "int32", 128),
    ((40, 104, 24), (40, 104, 24), (False, True), "int8", "int32", 33),
    ((13, 7, 5), (13, 7, 5), (True, True), "float64", "float64", 32),
    ((65, 64, 48), (60, 32, 16), (False, True), "float16", "float16", 128),
    ((64, 72, 32), (64, 72, 32), (True, False), "uint8", "int32", 64),
]


@pytest.mark.emulate
@pytest.mark.parametrize(("sizes", "block", "transposed", "dtype", "total", "threads"), CASES)
def test_any_tile_is_right(
    sizes: tuple[int, int, int],
    block: tuple[int, int, int],
    transposed: tuple[bool, bool],
    dtype: str,
    total: str,
    threads: int,
) -> None:
    m, n, k = sizes
    low = 0 if dtype == "uint8" else -5
    a, b = torch.randint(low, 5, (m, k)), torch.randint(low, 5, (k, n))
    c = torch.full((m, n), 77).to(getattr(torch, total))
    stored = [x.T.contiguous() if t else x for x, t in zip((a, b), transposed, strict=True)]
    kernel = tl.compile(product(sizes, block, transposed, dtype, total, threads), target=TARGET, execution="emulate")
    kernel(*(x.to(getattr(torch, dtype)) for x in stored), c)
    assert torch.equal(c.double(), a.double() @ b.double())


@pytest.mark.emulate
def test_a_thread_keeps_a_square_piece_and_reads_vectors() -> None:
    program = product((128, 128, 32), (128, 128, 32), (False, False), "float32", "float32", 256)
    code = tl.compile(program, target=TARGET, execution="emulate").get_kernel_source()
    code = code.split("__global__")[1]
    assert re.search(r"alignas\(16\) float c\[64\];", code)
    assert re.search(r"uint4\*>\(&rows\[.*uint4\*>\(&a\[", code)
    assert re.search(r"uint4\*>\(&columns\[.*uint4\*>\(&b\[", code)
    (loop,) = re.findall(r"for \(int k_group.*", code, re.DOTALL)
    assert "__syncthreads" not in loop


@pytest.mark.emulate
def test_scores_and_outputs_of_attention_share_their_threads() -> None:
    """The columns of the scores and those of the output never meet, so each tile lies in all threads."""
    rows, keys, width = 32, 32, 64

    @T.prim_func
    def kernel(
        Q: T.Tensor((rows, width), "float32"),
        K: T.Tensor((keys, width), "float32"),
        V: T.Tensor((keys, width), "float32"),
        O: T.Tensor((rows, width), "float32"),
    ):
        with T.Kernel(1, threads=64):
            q, k, v = (T.alloc_shared((extent, width), "float32") for extent in (rows, keys, keys))
            p = T.alloc_shared((rows, keys), "float32")
            s = T.alloc_fragment((rows, keys), "float32")
            o = T.alloc_fragment((rows, width), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, keys):
                s[i, j] = T.exp(s[i, j])
            T.reduce_sum(s, total, dim=1)
            T.copy(s, p)
            T.gemm(p, v, o, clear_accum=True)
            for i, j in T.Parallel(rows, width):
                O[i, j] = o[i, j] / total[i]

    compiled = tl.compile(kernel, target=TARGET, execution="emulate")
    assert compiled.report()["fragment_registers"]["s"] == rows * keys // 64
    assert compiled.report()["fragment_registers"]["o"] == rows * width // 64
    q, k, v = (torch.randn(extent, width) / 4 for extent in (rows, keys, keys))
    out = torch.full((rows, width), float("nan"))
    compiled(q, k, v, out)
    torch.testing.assert_close(out, torch.softmax(q @ k.T, dim=1) @ v, rtol=1e-4, atol=1e-5)
