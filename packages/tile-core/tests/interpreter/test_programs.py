"""Whole programs against torch, at extents that divide nothing."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T
from tile_core.errors.interpreter import DeviceAssertError
from tile_core.interpreter import Program


def gemm_program(M, N, K, block=(64, 64, 32), dtype="float32"):
    bm, bn, bk = block

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), dtype)
            B_shared = T.alloc_shared((bk, bn), dtype)
            C_local = T.alloc_fragment((bm, bn), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                T.copy(A[by * bm, k * bk], A_shared)
                T.copy(B[k * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(bm, bn):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * bm, bx * bn])

    return gemm


@pytest.mark.parametrize("extents", [(128, 128, 128), (100, 70, 33), (1, 1, 1), (65, 64, 31), (7, 131, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gemm_with_relu(interpret, nan, extents, dtype):
    M, N, K = extents
    A, B = torch.randn(M, K).to(getattr(torch, dtype)), torch.randn(K, N).to(getattr(torch, dtype))
    C = nan(M, N)
    interpret(gemm_program(M, N, K, dtype=dtype), A, B, C)
    torch.testing.assert_close(C, (A.float() @ B.float()).relu(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(5, 1003), (3, 1), (1, 64), (2, 127)])
def test_softmax(interpret, nan, rows, columns):
    width = -(-columns // 64) * 64

    @T.prim_func
    def softmax(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(rows, threads=64) as bx:
            row = T.alloc_fragment((1, width), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for i, j in T.Parallel(1, width):
                row[i, j] = T.if_then_else(j < columns, X[bx + i, j], -T.infinity("float32"))
            T.reduce_max(row, top, dim=1)
            for i, j in T.Parallel(1, width):
                row[i, j] = T.exp(row[i, j] - top[i])
            T.reduce_sum(row, total, dim=1)
            for i, j in T.Parallel(1, width):
                row[i, j] = row[i, j] / total[i]
            T.copy(row, Y[bx, 0])

    X, Y = torch.randn(rows, columns), nan(rows, columns)
    interpret(softmax, X, Y)
    torch.testing.assert_close(Y, X.softmax(1), rtol=1e-6, atol=1e-6)


def test_symbolic_extents_and_strides(interpret, nan):
    n, stride = T.dynamic("n"), T.dynamic("stride")

    @T.prim_func
    def scale(A: T.StridedTensor((n, 3), (stride, 1), "float32"), B: T.Tensor((n, 3), "float32"), factor: T.float32):
        with T.Kernel(T.ceildiv(n, 4)) as bx:
            for i, j in T.Parallel(4, 3):
                B[bx * 4 + i, j] = A[bx * 4 + i, j] * factor + stride

    program = Program(scale)
    for length in (1, 4, 7):
        A, B = torch.randn(length, 5)[:, :3], nan(length, 3)
        program(A, B, 2.5)
        torch.testing.assert_close(B, A * 2.5 + 5)


def test_a_zero_grid_runs_nothing(interpret, nan):
    n = T.dynamic("n")

    @T.prim_func
    def fill(A: T.Tensor((n,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(n) as bx:
            B[0] = bx

    B = nan(1)
    interpret(fill, torch.empty(0), B)
    assert torch.isnan(B).all()


def test_blocks_run_x_fastest(interpret):
    @T.prim_func
    def order(Seen: T.Tensor((24,), "int32"), Count: T.Tensor((1,), "int32")):
        with T.Kernel(2, 3, 4) as (bx, by, bz):
            Seen[Count[0]] = bx + 2 * (by + 3 * bz)
            Count[0] = Count[0] + 1

    seen, count = torch.full((24,), -1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    interpret(order, seen, count)
    assert seen.tolist() == list(range(24))


def test_kernels_of_one_function_run_in_order(interpret, nan):
    @T.prim_func
    def two(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] + 1
        with T.Kernel(8) as bx:
            B[bx] = B[bx] * 2

    A, B = torch.randn(8), nan(8)
    interpret(two, A, B)
    torch.testing.assert_close(B, (A + 1) * 2)


def test_views_share_memory(interpret, nan):
    @T.prim_func
    def views(B: T.Tensor((4,), "float32"), Bits: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            S = T.alloc_shared((2, 2), "float32")
            T.clear(S)
            flat = T.reshape(S, (4,))
            flat[3] = 5.0
            bits = T.view(S, dtype="int32")
            Bits[0] = bits[1, 1]
            flat[0] = 1.0
            for i in T.Parallel(4):
                B[i] = S[i // 2, i % 2]

    B, bits = nan(4), torch.zeros(1, dtype=torch.int32)
    interpret(views, B, bits)
    assert B.tolist() == [1, 0, 0, 5]
    assert bits.view(torch.float32).item() == 5


def test_reducer_accumulates_over_iterations(interpret, nan):
    @T.prim_func
    def rows(A: T.Tensor((5, 96), "float32"), B: T.Tensor((5,), "float32")):
        with T.Kernel(1):
            r = T.alloc_reducer((5,), "float32", op="sum")
            T.reducer_init(r)
            for i, j in T.Parallel(5, 96):
                T.reducer_update(r[i], A[i, j])
            T.finalize_reducer(r)
            T.copy(r, B)

    A, B = torch.randn(5, 96), nan(5)
    interpret(rows, A, B)
    torch.testing.assert_close(B, A.sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "expected"), [("max", 96), ("min", -3)])
def test_reducers_of_other_kinds(interpret, kind, expected):
    @T.prim_func
    def program(A: T.Tensor((100,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            r = T.alloc_reducer((1,), "int32", op=kind)
            T.reducer_init(r)
            for i in T.Parallel(100):
                T.reducer_update(r[0], A[i])
            T.finalize_reducer(r)
            T.copy(r, B)

    A, B = torch.arange(100, dtype=torch.int32) - 3, torch.zeros(1, dtype=torch.int32)
    interpret(program, A, B)
    assert B.item() == expected


def test_printing(interpret, capsys):
    @T.prim_func
    def show(A: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((2,), "int32")
            T.copy(A, tile)
            T.print(tile, msg="tile")
            for i in T.Parallel(2):
                T.print(A[i], msg="element")

    interpret(show, torch.tensor([3, 4], dtype=torch.int32))
    lines = capsys.readouterr().out.splitlines()
    assert "[3 4]" in lines[1]
    assert [line for line in lines if line.startswith("element")] == ["element: A = 3", "element: A = 4"]


def test_an_index_is_exact_where_int32_would_wrap(interpret):
    @T.prim_func
    def kernel(A: T.Tensor((64,), T.int32), B: T.Tensor((4, 4), T.int32)):
        with T.Kernel(4) as b:
            far = b * 2**30
            T.copy(A[far * 4 : far * 4 + 1], B[b, 0:1])
            B[b, 1] = A[far * 4 + 1]
            for i in T.Parallel(1):
                B[b, 2] = A[far * 4 + i]
                T.atomic_add(B[b, 3], A[b * 2147483647 * 2 + b * 2 + i])

    a, b = torch.arange(1, 65, dtype=torch.int32), torch.zeros(4, 4, dtype=torch.int32)
    interpret(kernel, a, b)
    assert b.tolist() == [[1, 2, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_large_grid_is_not_listed(interpret, backwards):
    @T.prim_func
    def kernel(Last: T.Tensor((1,), "int32")):
        with T.Kernel(2**20, 2**11, threads=1) as (bx, by):
            Last[0] = by * 2**20 + bx
            T.device_assert(bx < 0, "the first block")

    last = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(DeviceAssertError):
        interpret(kernel, last, reversed_order=backwards)
    assert int(last) == (2**31 - 1 if backwards else 0)


def test_updates_in_reversed_order(interpret):
    @T.prim_func
    def kernel(Counter: T.Tensor((1,), T.int32), Ticket: T.Tensor((5,), T.int32)):
        with T.Kernel(1):
            for i in T.Parallel(5):
                Ticket[i] = T.atomic_add(Counter[0], 1, return_prev=True)

    for backwards, expected in ((False, [0, 1, 2, 3, 4]), (True, [4, 3, 2, 1, 0])):
        counter, ticket = torch.zeros(1, dtype=torch.int32), torch.zeros(5, dtype=torch.int32)
        interpret(kernel, counter, ticket, reversed_order=backwards)
        assert ticket.tolist() == expected
        assert int(counter) == 5
