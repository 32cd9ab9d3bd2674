"""Four-bit tensors and tiles become bytes: what copies, stores and products of them are afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import ir
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.errors import DataTypeUnsupportedError
from tile_core.ir import regions, visit
from tile_core.passes.name_parameters import NameParameters
from tile_core.passes.pack_narrow import PackNarrow


def packed(func: Any, context: Any, *multiplied: str) -> Any:
    return PackNarrow(frozenset(multiplied))(func, context)


def operands(func: Any, name: str) -> list[list[ir.TensorRegion]]:
    """The regions of every op of a name."""
    calls = [call for call in visit.collect(func.body, ir.Call) if str(getattr(call.op, "name", "")) == name]
    return [[arg for arg in call.args if isinstance(arg, ir.TensorRegion)] for call in calls]


def extents(region: ir.TensorRegion) -> list[int | None]:
    return [regions.constant(axis.extent) for axis in region.region]


def stores(func: Any) -> list[S.BufferStore]:
    return visit.collect(func.body, S.BufferStore)


def updates(func: Any) -> list[ir.Call]:
    return [
        call for call in visit.collect(func.body, ir.Call) if str(getattr(call.op, "name", "")) == "tile.atomic_rmw"
    ]


def test_other_programs_stay_as_they_are(simt):
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int8), B: T.Tensor((8,), T.int8)):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    assert packed(kernel, simt).same_as(kernel)
    assert NameParameters()(kernel, simt).same_as(kernel)


def test_copies_count_bytes_and_the_host_keeps_its_tensors(simt):
    @T.prim_func
    def kernel(A: T.Tensor((8, 32), T.int4), B: T.Tensor((8, 32), T.int4)):
        with T.Kernel(1, threads=32):
            tile, held = T.alloc_shared((4, 16), T.int4), T.alloc_fragment((4, 16), T.int4)
            T.copy(A[2:6, 4:20], tile)
            T.copy(tile, held)
            T.copy(held, B[0:4, 0:16])

    func = packed(kernel, simt)
    assert [str(param.dtype) for param in func.params] == ["uint8", "uint8"]
    assert [[extents(region) for region in found] for found in operands(func, "tile.copy")] == [[[4, 8], [4, 8]]] * 3
    assert regions.constant(operands(func, "tile.copy")[0][0].region[1].min) == 2
    named = NameParameters()(func, simt)
    assert all(one.same_as(other) for one, other in zip(named.params, kernel.params, strict=True))


def test_neighbours_are_stored_as_whole_bytes(simt):
    @T.prim_func
    def kernel(A: T.Tensor((8, 32), T.int8), B: T.Tensor((32, 8), T.int4)):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(8, 32):
                B[j, i] = A[i, j]

    func = packed(kernel, simt)
    (store,) = stores(func)
    assert [regions.constant(extent) for extent in store.buffer.shape] == [32, 4]
    assert [regions.constant(loop.extent) for loop in visit.collect(func.body, S.For)][-2:] == [4, 32]
    assert updates(func) == []


@pytest.mark.parametrize("start", [1, 2])
def test_halves_of_a_byte_are_replaced_where_the_byte_is_not_the_loop_s_own(simt, start):
    @T.prim_func
    def kernel(A: T.Tensor((16,), T.int8), B: T.Tensor((16,), T.int4)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i + start] = A[i]

    func = packed(kernel, simt)
    assert (len(updates(func)), len(stores(func))) == ((1, 0) if start % 2 else (0, 1))


def product(**transposed: bool) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((32, 32), T.int4), B: T.Tensor((32, 32), T.int4)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((32, 32), T.int4), T.alloc_shared((32, 32), T.int4)
            c = T.alloc_fragment((32, 32), T.int32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True, **transposed)

    return kernel


@pytest.mark.parametrize(
    ("options", "multiplied", "dtype", "depth"),
    [
        ({"transpose_B": True}, ("int4",), "uint8", 16),
        ({"transpose_B": True}, (), "int8", 32),
        ({}, ("int4",), "int8", 32),
    ],
)
def test_products_take_the_bytes_or_tiles_along_k(simt, options, multiplied, dtype, depth):
    ((a, b, _c),) = operands(packed(product(**options), simt, *multiplied), "tile.gemm")
    assert [str(region.source.dtype) for region in (a, b)] == [dtype] * 2
    assert extents(a) == extents(b) == [32, depth]


def test_rows_that_begin_within_a_byte_are_refused(simt):
    @T.prim_func
    def kernel(A: T.Tensor((4, 7), T.int4)):
        with T.Kernel(1, threads=32):
            T.clear(A)

    with pytest.raises(DataTypeUnsupportedError, match="axis 1 of A is 7 values of int4"):
        packed(kernel, simt)
