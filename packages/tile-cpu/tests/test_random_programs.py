"""Random extents, blocks and thread counts against torch: elementwise, copy, reduce and gemm programs.

Extents run from 1 to 300, primes drawn on purpose; outputs are poisoned and followed by guard values.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tile_core.language as T
from tile_core.testing import Run
from tile_core.testing.programs.gemm import matmul

PRIMES = [2, 3, 7, 13, 31, 61, 127, 131, 211, 257, 283, 293]
extents = st.one_of(st.sampled_from(PRIMES), st.integers(1, 300))
blocks = st.one_of(st.sampled_from([1, 8, 16, 32, 64, 128]), st.integers(1, 130))
threads = st.integers(1, 256)
relaxed = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def runner(name: str) -> Run:
    return Run("cpu", name)


@relaxed
@given(
    m=extents, n=extents, bm=blocks, bn=blocks, count=threads, dtype=st.sampled_from(["float32", "int32", "bfloat16"])
)
def test_elementwise(m: int, n: int, bm: int, bn: int, count: int, dtype: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=count) as (bx, by):
            for i, j in T.Parallel(bm, bn):
                C[by * bm + i, bx * bn + j] = A[by * bm + i, bx * bn + j] * 3 - B[by * bm + i, bx * bn + j]

    run = runner(f"elementwise {m} {n} {bm} {bn} {dtype}")
    a, b = run.integers(m, n, dtype=dtype), run.integers(m, n, dtype=dtype)
    flat, behind = run.guarded(m * n, dtype=dtype)
    untouched = behind.clone()
    run(kernel, a, b, flat.view(m, n))
    run.equal(flat.view(m, n), a * 3 - b)
    run.equal(behind, untouched)


@relaxed
@given(m=extents, n=extents, bm=blocks, bn=blocks, count=threads, shared=st.booleans(), transposed=st.booleans())
def test_copy(m: int, n: int, bm: int, bn: int, count: int, shared: bool, transposed: bool) -> None:
    shape = (n, m) if transposed else (m, n)
    tile = (bn, bm) if transposed else (bm, bn)
    alloc = T.alloc_shared if shared else T.alloc_fragment

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.float32), B: T.Tensor(shape, T.float32)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=count) as (bx, by):
            s = alloc((bm, bn), T.float32)
            t = alloc(tile, T.float32)
            T.copy(A[by * bm, bx * bn], s)
            if transposed:
                for i, j in T.Parallel(bm, bn):
                    t[j, i] = s[i, j]
                T.copy(t, B[bx * bn, by * bm])
            else:
                T.copy(s, t)
                T.copy(t, B[by * bm, bx * bn])

    run = runner(f"copy {m} {n} {bm} {bn} {shared} {transposed}")
    a = run.randn(m, n)
    flat, behind = run.guarded(m * n)
    run(kernel, a, flat.view(*shape))
    run.equal(flat.view(*shape), a.T if transposed else a)
    run.equal(behind, torch.full_like(behind, float("nan")))


@relaxed
@given(
    m=extents,
    n=extents,
    count=threads,
    dim=st.sampled_from([0, 1, -1]),
    kind=st.sampled_from(["sum", "max", "min", "absmax", "abssum"]),
    special=st.sampled_from([None, float("nan"), float("inf"), float("-inf")]),
)
def test_reduce(m: int, n: int, count: int, dim: int, kind: str, special: float | None) -> None:
    reduce = getattr(T, f"reduce_{kind}")
    kept = n if dim == 0 else m

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.float32), Out: T.Tensor((kept,), T.float32)):
        with T.Kernel(1, threads=count):
            f = T.alloc_fragment((m, n), T.float32)
            out = T.alloc_fragment((kept,), T.float32)
            T.copy(A, f)
            reduce(f, out, dim=dim)
            T.copy(out, Out)

    run = runner(f"reduce {m} {n} {dim} {kind} {special}")
    a, out = run.randn(m, n), run.empty(kept)
    if special is not None:
        a[m // 2, n // 3] = special
    # max, min and absmax ignore NaN; a row of nothing else gives their identity.
    reference = {
        "sum": lambda x: x.sum(dim),
        "max": lambda x: torch.where(x.isnan(), -torch.inf, x).amax(dim),
        "min": lambda x: torch.where(x.isnan(), torch.inf, x).amin(dim),
        "absmax": lambda x: torch.where(x.isnan(), 0.0, x).abs().amax(dim),
        "abssum": lambda x: x.abs().sum(dim),
    }[kind]
    run(kernel, a, out)
    run.close(out, reference(a.double()), rtol=1e-5, atol=1e-4)


@relaxed
@given(
    shape=st.tuples(extents, extents, extents),
    block=st.tuples(st.integers(1, 70), st.integers(1, 70), st.integers(1, 40)),
    trans_a=st.booleans(),
    trans_b=st.booleans(),
    dtype=st.sampled_from(["float32", "bfloat16", "float16", "int8"]),
    stages=st.integers(0, 3),
)
def test_gemm(shape, block, trans_a: bool, trans_b: bool, dtype: str, stages: int) -> None:
    m, n, k = shape
    accum = "int32" if dtype == "int8" else "float32"
    run = runner(f"gemm {shape} {block} {trans_a} {trans_b} {dtype}")
    a = run.integers(k, m, dtype=dtype) if trans_a else run.integers(m, k, dtype=dtype)
    b = run.integers(n, k, dtype=dtype) if trans_b else run.integers(k, n, dtype=dtype)
    flat, behind = run.guarded(m * n, dtype=accum)
    untouched = behind.clone()
    program = matmul(m, n, k, *block, dtype=dtype, accum=accum, trans_a=trans_a, trans_b=trans_b, stages=stages)
    run(program, a, b, flat.view(m, n))
    left, right = (a.T if trans_a else a).double(), (b.T if trans_b else b).double()
    run.equal(flat.view(m, n), (left @ right).to(flat.dtype))
    run.equal(behind, untouched)


@pytest.mark.parametrize("columns", [33, 257, 273])
@pytest.mark.parametrize("rows", [2, 3])
def test_one_column_of_bfloat16_behind_whole_vectors(rows: int, columns: int) -> None:
    """A masked store of a single lane wrote the element behind it, with LLVM 22."""
    test_elementwise.hypothesis.inner_test(rows, columns, 8, 16, 1, "bfloat16")
    test_elementwise.hypothesis.inner_test(rows, columns, 3, 16, 1, "bfloat16")
