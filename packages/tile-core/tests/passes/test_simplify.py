"""What is simplified, and that floats and data are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.ir import launch, visit
from tile_core.passes.base import PassContext
from tile_core.passes.legalize_bounds import LegalizeBounds
from tile_core.passes.simplify import Simplify

FLOATS: dict[str, Callable[[Any], Any]] = {
    "x * 0": lambda x: x * 0.0,
    "x - x": lambda x: x - x,
    "x / x": lambda x: x / x,
    "x + 0": lambda x: x + 0.0,
    "x != x": lambda x: T.if_then_else(x != x, 1.0, 0.0),
    "x == x": lambda x: T.if_then_else(x == x, 1.0, 0.0),
    "not x < x": lambda x: T.Select(T.Not(x < x), 1.0, 0.0) if hasattr(T, "Not") else T.if_then_else(x < x, 1.0, 0.0),
}
DATA: dict[str, Callable[[Any], Any]] = {
    "x * 4 // 4": lambda x: x * 4 // 4,
    "x + 1 > x": lambda x: T.cast(x + 1 > x, "int32"),
    "x - x": lambda x: x - x,
}


def simplified(func: Any, context: PassContext) -> Any:
    return Simplify()(func, context)


def values(func: Any) -> list[Any]:
    return [store.value for store in visit.collect(func.body, S.BufferStore)]


@pytest.mark.parametrize("name", FLOATS)
def test_floats_stay_as_written(context: PassContext, name: str) -> None:
    expr = FLOATS[name]

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = expr(A[i])

    before, after = values(kernel), values(simplified(kernel, context))
    assert tvm_ffi.structural_equal(before, after, map_free_vars=True)


@pytest.mark.parametrize("name", DATA)
def test_values_of_tensors_wrap_and_stay_as_written(context: PassContext, name: str) -> None:
    expr = DATA[name]

    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = expr(A[i])

    before, after = values(kernel), values(simplified(kernel, context))
    assert tvm_ffi.structural_equal(before, after, map_free_vars=True)


def test_indices_become_short(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[(i * 4 + 3) // 4] = A[i + 1 - 1]

    func = simplified(kernel, context)
    (store,) = visit.collect(func.body, S.BufferStore)
    assert isinstance(store.indices[0], ir.Var)
    (load,) = visit.collect(func.body, ir.TensorLoad)
    assert isinstance(load.indices[0], ir.Var)


def test_arithmetic_on_memory_stays_in_indices_too(context: PassContext) -> None:
    """A guard and the index that it guards must agree, and both wrap."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), At: T.Tensor((64,), "int32"), Small: T.Tensor((64,), "uint8")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                A[At[i] * 4 // 4] = 0.0
                A[T.cast(Small[i], "int32") * 4 // 4] = 1.0

    wide, small = (store.indices[0] for store in visit.collect(simplified(kernel, context).body, S.BufferStore))
    assert isinstance(wide, tirx.FloorDiv)
    assert isinstance(small, tirx.Cast), "four times a uint8 does not wrap"


def test_a_comparison_of_a_name_from_memory_is_not_decided(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                x = A[i]
                if x + 1 > x:
                    A[i] = 1

    assert len(visit.collect(simplified(kernel, context).body, S.IfThenElse)) == 1


def test_a_decided_branch_goes_away(context: PassContext) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.serial(n):
                if i < n:
                    A[i] = 1.0
                else:
                    A[0] = 2.0

    func = simplified(kernel, context)
    assert not visit.collect(func.body, S.IfThenElse)
    assert [float(value.value) for value in values(func)] == [1.0]


def test_a_loop_without_iterations_goes_away_and_a_launch_does_not(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(0, 4) as (bx, by):
            for i in T.serial(0):
                A[bx + by + i] = 1.0

    func = simplified(kernel, context)
    assert not visit.collect(func.body, S.BufferStore)
    (nest,) = launch.launches(func.body)
    assert len(launch.from_stmt(nest).grid_vars) == 2


def test_a_guard_that_a_later_fact_proves_goes_away(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.serial(100):
                if T.if_then_else(i < 64, i, 0) < 64:
                    A[T.min(i, 63)] = 1.0

    func = simplified(LegalizeBounds()(kernel, context), context)
    assert context.report["guards"] == 0
    assert len(visit.collect(func.body, S.IfThenElse)) == 1


def test_lines_are_kept(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.serial(64):
                A[i * 1] = 1.0

    (store,) = visit.collect(simplified(kernel, context).body, S.BufferStore)
    (before,) = visit.collect(kernel.body, S.BufferStore)
    assert store.span.line == before.span.line
