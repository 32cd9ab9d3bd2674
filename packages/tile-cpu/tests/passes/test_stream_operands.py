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


SIZES = [(1, 1, 1), (2, 3, 5), (32, 48, 16), (33, 49, 17), (31, 47, 600), (97, 50, 1031), (64, 1, 512), (7, 96, 0)]


def test_nothing_beyond_a_tensor_is_multiplied():
    kernel = tl.compile(gemm(*(T.dynamic(name) for name in "MNK")), target="cpu")
    for M, N, K in SIZES:
        around = torch.full((M * K + 1025,), torch.nan)
        a, b = around[513 : 513 + M * K].view(M, K), torch.randint(-4, 5, (K, N)).float()
        a.copy_(torch.randint(-4, 5, (M, K)))
        out = torch.full((M, N), torch.nan)
        kernel(a, b, out)
        assert torch.equal(out, a @ b)


def test_rows_of_a_tensor_are_multiplied_where_they_are():
    names = tl.compile(gemm(33, 50, 70), target="cpu").report()["shared_operands"]
    assert names == ["B_panels"]


def test_a_tile_that_is_changed_is_still_copied():
    program = gemm(64, 96, 64, touch="tile")
    assert not streams(program)
    check(program, 64, 96, 64, "float32", scale=2)


def test_a_narrow_accumulator_rounds_in_every_step():
    assert not streams(gemm(64, 96, 64, "float16", "float16"))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("bm", "bk", "columns"), [(24, 64, 256), (48, 64, 256), (24, 32, 256), (24, 64, 90), (24, 32, 90)]
)
def test_a_part_of_a_step_of_narrow_integers(dtype, bm, bk, columns):
    @T.prim_func
    def program(
        A: T.Tensor((96, columns), dtype), B: T.Tensor((256, 80), dtype), C: T.Tensor((96, 80), "int32"), n: T.int32
    ):
        with T.Kernel(2, 96 // bm) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, 40), dtype)
            c = T.alloc_fragment((bm, 40), "int32")
            T.clear(c)
            for k in T.serial(n):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * 40], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * 40])

    assert streams(program)
    kernel = tl.compile(program, target="cpu")
    limits = torch.iinfo(getattr(torch, dtype))
    a = torch.randint(limits.min, limits.max + 1, (96, columns)).to(getattr(torch, dtype))
    b = torch.randint(limits.min, limits.max + 1, (256, 80)).to(getattr(torch, dtype))
    for n in (1, 2, 3, 256 // bk):
        c = torch.zeros(96, 80, dtype=torch.int32)
        kernel(a, b, c, n)
        depth = min(columns, n * bk)
        assert torch.equal(c, a[:, :depth].int() @ b[:depth].int())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("columns", "rows"), [(100, 256), (256, 100)])
def test_zeros_beyond_one_operand_meet_infinity_in_the_other(columns, rows, dtype):
    @T.prim_func
    def program(A: T.Tensor((64, columns), dtype), B: T.Tensor((rows, 64), dtype), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((64, 64), dtype)
            b = T.alloc_shared((64, 64), dtype)
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.serial(4):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    assert streams(program)
    kind = getattr(torch, dtype)
    a, b, c = torch.ones(64, columns, dtype=kind), torch.ones(rows, 64, dtype=kind), torch.zeros(64, 64)
    if columns < rows:
        b[150, :32] = float("inf")
    else:
        a[:32, 150] = float("inf")
    tl.compile(program, target="cpu")(a, b, c)
    touched = c if columns > rows else c.T
    assert touched[:32].isnan().all()
    assert (touched[32:] == 100).all()


def test_a_sum_for_every_step_is_not_one_product():
    @T.prim_func
    def program(
        A: T.Tensor((32, 64), "float32"), B: T.Tensor((64, 32), "float32"), C: T.Tensor((2, 32, 32), "float32")
    ):
        with T.Kernel(1):
            a = T.alloc_shared((32, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((2, 32, 32), "float32")
            T.clear(c)
            for k in T.serial(2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c[k, 0:32, 0:32])
            T.copy(c, C)

    assert not streams(program)
    a, b, c = torch.randint(-4, 5, (32, 64)).float(), torch.randint(-4, 5, (64, 32)).float(), torch.zeros(2, 32, 32)
    tl.compile(program, target="cpu")(a, b, c)
    assert torch.equal(c, torch.stack([a[:, :32] @ b[:32], a[:, 32:] @ b[32:]]))


@pytest.mark.parametrize("changed", [False, True], ids=["streamed", "tile by tile"])
def test_what_lies_beyond_an_edge_may_be_another_value_than_zero(changed):
    @T.prim_func
    def program(A: T.Tensor((32, 60), "float32"), B: T.Tensor((60, 32), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((32, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            T.annotate_safe_value({A: 2.0, B: 3.0})
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                if changed:
                    for i, j in T.Parallel(32, 32):
                        a[i, j] = a[i, j] * 2
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = torch.randint(-4, 5, (32, 60)).float(), torch.randint(-4, 5, (60, 32)).float()
    c = torch.full((32, 32), torch.nan)
    tl.compile(program, target="cpu")(a, b, c)
    assert torch.equal(c, (2 if changed else 1) * (a @ b + 4 * 2 * 3))
