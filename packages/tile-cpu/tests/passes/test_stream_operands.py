"""Loops over tiles of K: equal results where tensors are read in place, at their edges, and where they must not be."""

from __future__ import annotations

import pytest
import torch
from tvm import ir

import tile_core as tl
import tile_core.language as T
from tile_core.ir import visit
from tile_core.ops.base import op_name
from tile_core.passes.base import PassContext
from tile_cpu.passes.stream_operands import StreamOperands


def gemm(
    M, N, K, dtype="float32", out="float32", bm=32, bn=48, bk=16, transpose_a=False, transpose_b=False, touch=None
):
    a_shape = (K, M) if transpose_a else (M, K)
    b_shape = (N, K) if transpose_b else (K, N)

    @T.prim_func
    def kernel(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm)) as (bx, by):
            A_tile = T.alloc_shared((bk, bm) if transpose_a else (bm, bk), dtype)
            B_tile = T.alloc_shared((bn, bk) if transpose_b else (bk, bn), dtype)
            C_tile = T.alloc_fragment((bm, bn), out)
            T.clear(C_tile)
            for ko in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                if transpose_a:
                    T.copy(A[ko * bk, by * bm], A_tile)
                else:
                    T.copy(A[by * bm, ko * bk], A_tile)
                if transpose_b:
                    T.copy(B[bx * bn, ko * bk], B_tile)
                else:
                    T.copy(B[ko * bk, bx * bn], B_tile)
                if touch == "tile":
                    for i, j in T.Parallel(bm, bk):
                        A_tile[i, j] = A_tile[i, j] * 2
                T.gemm(A_tile, B_tile, C_tile, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(C_tile, C[by * bm, bx * bn])

    return kernel


def streams(program):
    """Whether some gemm of the program reads a tensor after the pass."""
    func = StreamOperands()(program, PassContext(None, None, None))
    gemms = [stmt for stmt in visit.statements(func.body) if op_name(stmt) == "tile.gemm"]
    return any(
        not region.source.ty.storage_scope or region.source.ty.storage_scope == "global"
        for stmt in gemms
        for region in visit.collect(stmt, ir.TensorRegion)
    )


def check(program, M, N, K, dtype, transpose_a=False, transpose_b=False, scale=1):
    kernel = tl.compile(program, target="cpu")
    kind = getattr(torch, dtype)
    values = (torch.randint(-4, 5, (M, K)), torch.randint(-4, 5, (K, N)))
    a, b = (x.to(kind) for x in values)
    guarded = torch.full((M * N + 20,), 77.0)
    out = guarded[10:-10].view(M, N)
    kernel(a.T.contiguous() if transpose_a else a, b.T.contiguous() if transpose_b else b, out)
    assert torch.equal(out, scale * (values[0] @ values[1]).float())
    assert (guarded[:10] == 77).all() and (guarded[-10:] == 77).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "shape",
    [(64, 96, 64), (64, 96, 80), (33, 50, 17), (1, 1, 1), (100, 48, 300), (32, 49, 256), (64, 256, 512)],
    ids=str,
)
def test_edges(shape, dtype):
    program = gemm(*shape, dtype)
    assert streams(program)
    check(program, *shape, dtype)


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_transposed(transpose_a, transpose_b, dtype):
    shape = (70, 96, 100)
    program = gemm(*shape, dtype, transpose_a=transpose_a, transpose_b=transpose_b)
    assert streams(program)
    check(program, *shape, dtype, transpose_a, transpose_b)


def test_dynamic_sizes():
    M, N, K = (T.dynamic(name) for name in "MNK")
    kernel = tl.compile(gemm(M, N, K), target="cpu")
    for m, n, k in [(1, 1, 1), (64, 96, 64), (37, 100, 129), (5, 48, 0), (32, 48, 1000)]:
        a, b = torch.randint(-4, 5, (m, k)).float(), torch.randint(-4, 5, (k, n)).float()
        out = torch.full((m, n), 77.0)
        kernel(a, b, out)
        assert torch.equal(out, a @ b)


def test_a_tile_that_is_changed_is_still_copied():
    program = gemm(64, 96, 64, touch="tile")
    assert not streams(program)
    check(program, 64, 96, 64, "float32", scale=2)


def test_a_narrow_accumulator_rounds_in_every_step():
    assert not streams(gemm(64, 96, 64, "float16", "float16"))
