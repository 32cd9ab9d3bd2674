"""Buffers whose extents are quotients that need several operations: by no power of two, or by an argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.ir import visit
from tile_core.passes.verify import verify
from tile_cpu.passes.bind_extents import BindExtents
from tile_cpu.passes.hoist_lets import HoistLets
from tile_cpu.passes.legalize_division import LegalizeDivision

SIZES = (0, 1, 23, 24, 25, 97)


def test_an_extent_is_bound_once_in_front_of_its_buffer_and_every_use_follows() -> None:
    size = tirx.Var("size", "int32")
    buffer = tirx.decl_buffer((size // 24 * 24, size % 7 + 1), "float32", "w")
    origin = [tirx.IntImm("int32", 0)] * 2
    body = S.SeqStmt([S.AllocBuffer(buffer), S.BufferStore(buffer, tirx.BufferLoad(buffer, origin), origin)])
    func = BindExtents()(tirx.PrimFunc([size], body))
    verify(func)
    assert [type(stmt) for stmt in func.body.seq] == [S.Bind, S.Bind, S.AllocBuffer, S.BufferStore]
    declared, store = func.body.seq[2].buffer, func.body.seq[3]
    assert not visit.collect(declared.ty, (E.Add, E.Mul, E.FloorDiv, E.FloorMod))
    assert store.buffer.same_as(declared)
    assert store.value.source.same_as(declared)
    later = HoistLets()(LegalizeDivision()(func))
    assert not visit.collect(later.body, E.Let)
    verify(later)


@pytest.mark.parametrize("step", [8, 24, 32])
def test_a_workspace_of_whole_blocks(step: int) -> None:
    size = T.dynamic("size")

    @T.prim_func
    def kernel(A: T.Tensor((size,), "float32"), C: T.Tensor((size,), "float32")):
        w = T.alloc_global((T.ceildiv(size, step) * step,), "float32")
        with T.Kernel(T.ceildiv(size, step)) as bx:
            for i in T.Parallel(step):
                w[bx * step + i] = A[bx * step + i]
        with T.Kernel(T.ceildiv(size, step)) as bx:
            for i in T.Parallel(step):
                C[bx * step + i] = w[bx * step + i] + 1

    compiled = tl.compile(kernel, target="cpu")
    for count in SIZES:
        a, c = poisoned(count)
        compiled(a, c)
        np.testing.assert_array_equal(c, a + 1)


def test_a_workspace_of_two_axes_divided_by_an_argument() -> None:
    size, part = T.dynamic("size, part")

    @T.prim_func
    def kernel(A: T.Tensor((size,), "float32"), B: T.Tensor((part,), "float32"), C: T.Tensor((size,), "float32")):
        w = T.alloc_global((size // part + 1, size % part + part), "float32")
        with T.Kernel(1):
            for i in T.serial(size):
                w[i // part, i % part] = A[i] + B[i % part]
        with T.Kernel(1):
            for i in T.serial(size):
                C[i] = w[i // part, i % part]

    compiled = tl.compile(kernel, target="cpu")
    for count in SIZES:
        a, c = poisoned(count)
        b = np.arange(7, dtype=np.float32)
        compiled(a, b, c)
        np.testing.assert_array_equal(c, a + np.resize(b, count))


def test_a_tensor_argument_of_a_third() -> None:
    size = T.dynamic("size")

    @T.prim_func
    def kernel(A: T.Tensor((size,), "float32"), C: T.Tensor((2, size // 3), "float32")):
        with T.Kernel(T.ceildiv(size // 3, 16)) as bx:
            for i in T.Parallel(16):
                if bx * 16 + i < size // 3:
                    C[1, bx * 16 + i] = A[bx * 16 + i]
                    C[0, bx * 16 + i] = -A[bx * 16 + i]

    compiled = tl.compile(kernel, target="cpu")
    for count in SIZES:
        a, _ = poisoned(count)
        c = np.full((2, count // 3), np.nan, np.float32)
        compiled(a, c)
        np.testing.assert_array_equal(c, [-a[: count // 3], a[: count // 3]])


@pytest.mark.parametrize(("dtype", "step"), [("float32", 24), ("bfloat16", 24), ("float16", 12)])
def test_a_product_whose_inner_extent_and_step_are_ragged(dtype: str, step: int) -> None:
    size = T.dynamic("size")

    @T.prim_func
    def kernel(A: T.Tensor((64, size), dtype), B: T.Tensor((size, 64), dtype), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, 2) as (bx, by):
            a, b = T.alloc_shared((32, step), dtype), T.alloc_shared((step, 32), dtype)
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.serial(T.ceildiv(size, step)):
                T.copy(A[by * 32, k * step], a)
                T.copy(B[k * step, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    compiled = tl.compile(kernel, target="cpu")
    for count in SIZES:
        a, b = (torch.randn(shape).to(getattr(torch, dtype)) for shape in ((64, count), (count, 64)))
        c = torch.full((64, 64), torch.nan)
        compiled(a, b, c)
        np.testing.assert_allclose(c.numpy(), a.float().numpy() @ b.float().numpy(), rtol=1e-4, atol=1e-4)


def poisoned(count: int) -> tuple[Any, Any]:
    values = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    return values, np.full(count, np.nan, np.float32)
