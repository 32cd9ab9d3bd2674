"""Guards: where they are, where they are not, and what they compute is tested on the backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import ir, tirx
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.errors import VectorBoundsError
from tile_core.ir import visit
from tile_core.passes.base import PassContext
from tile_core.passes.legalize_bounds import LegalizeBounds, is_guard

Lowered = Callable[[Any], Any]


def guarded(func: Any, context: PassContext, **options: Any) -> Any:
    return LegalizeBounds(**options)(func, context)


def statement_guards(func: Any) -> list[Any]:
    return [branch for branch in visit.collect(func.body, S.IfThenElse) if is_guard(branch.condition)]


def load_guards(func: Any) -> list[Any]:
    calls = visit.collect(func.body, ir.Call)
    return [call for call in calls if call.op.name == "prim.if_then_else" and is_guard(call.args[0])]


def test_tiles_that_divide_their_tensor_have_no_guard(context: PassContext, lowered: Lowered) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((256, 128), "float32"), B: T.Tensor((256, 128), "float32")):
        with T.Kernel(2, 4) as (bx, by):
            tile = T.alloc_shared((64, 64), "float32")
            T.copy(A[by * 64, bx * 64], tile)
            T.copy(tile, B[by * 64, bx * 64])

    func = guarded(lowered(kernel), context, every_scope=True)
    assert context.report["guards"] == 0
    assert not statement_guards(func)
    assert not load_guards(func)


def test_a_statement_with_one_index_has_one_guard(context: PassContext, lowered: Lowered) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64)) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] + A[bx * 64 + i]

    func = guarded(lowered(kernel), context)
    (guard,) = statement_guards(func)
    assert not load_guards(func)
    assert context.report["guards"] == 1
    assert isinstance(guard.condition.args[0], tirx.LT), "the lower bound is proven, so it is not tested"


def test_the_condition_of_the_author_is_enough(context: PassContext, lowered: Lowered) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64)) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < n:
                    B[bx * 64 + i] = A[bx * 64 + i]

    guarded(lowered(kernel), context)
    assert context.report["guards"] == 0


def test_if_then_else_is_a_fact_for_its_sides(context: PassContext, lowered: Lowered) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((68,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(68):
                B[i] = T.if_then_else(i >= 4, A[i - 4], 0.0)

    guarded(lowered(kernel), context)
    assert context.report["guards"] == 0


def test_select_evaluates_both_sides_and_is_no_fact(context: PassContext, lowered: Lowered) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((68,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(68):
                B[i] = T.Select(i >= 4, A[i - 4], 0.0)

    func = guarded(lowered(kernel), context)
    assert len(load_guards(func)) == 1


def test_a_condition_that_reads_memory_is_no_fact(context: PassContext, lowered: Lowered) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for _i in T.serial(64):
                if A[0] < 64:
                    A[0] = 1000
                    B[A[0]] = 1

    func = guarded(lowered(kernel), context)
    assert len(statement_guards(func)) == 1


def test_negative_indices_are_outside(context: PassContext, lowered: Lowered) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = A[i - 2]

    func = guarded(lowered(kernel), context)
    (guard,) = load_guards(func)
    assert isinstance(guard.args[0].args[0], tirx.LE)
    assert float(guard.args[2].value) == 0.0


def test_an_index_from_memory_guards_its_own_load_too(context: PassContext, lowered: Lowered) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), At: T.Tensor((n,), "int32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = A[At[i]]

    func = guarded(lowered(kernel), context)
    outer = load_guards(func)[0]
    assert visit.collect(outer.args[0], ir.TensorLoad), "the condition reads the index"
    assert all(
        any(guard.args[1].same_as(load) for guard in load_guards(func))
        for load in visit.collect(func.body, ir.TensorLoad)
        if load.source.name == "At"
    )


def test_the_safe_value_is_what_a_load_outside_gives(context: PassContext, lowered: Lowered) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((60,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            T.annotate_safe_value({A: -99})
            for i in T.Parallel(64):
                B[i] = A[i]

    (guard,) = load_guards(guarded(lowered(kernel), context))
    assert int(guard.args[2].value) == -99


def test_an_atomic_outside_is_skipped(context: PassContext, lowered: Lowered) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                T.atomic_add(A[i], 1.0)

    (guard,) = statement_guards(guarded(lowered(kernel), context))
    assert isinstance(guard.then_case, S.Evaluate)


@pytest.mark.parametrize("every_scope", [False, True])
def test_tiles_are_guarded_where_the_target_asks(context: PassContext, lowered: Lowered, every_scope: bool) -> None:
    @T.prim_func
    def kernel(At: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((64,), "float32")
            for i in T.Parallel(64):
                tile[At[i]] = 1.0

    func = guarded(lowered(kernel), context, every_scope=every_scope)
    assert len(statement_guards(func)) == int(every_scope)


def test_a_hand_written_vector_must_be_provably_inside(context: PassContext) -> None:
    buffer = tirx.decl_buffer((64,), "float32", "A")
    i = tirx.Var("i", "int32")
    zeros = tirx.Broadcast(tirx.FloatImm("float32", 0.0), 4)

    def program(extent: int) -> Any:
        vector = tirx.Ramp(i * 4, tirx.IntImm("int32", 1), 4)
        store = S.BufferStore(buffer, zeros, [vector])
        loop = S.For(i, tirx.IntImm("int32", 0), tirx.IntImm("int32", extent), S.ForKind.SERIAL, store)
        return tirx.PrimFunc([buffer], loop)

    guarded(program(16), context)
    with pytest.raises(VectorBoundsError, match="A may leave axis 0, whose extent is 64"):
        guarded(program(17), context)


@pytest.mark.parametrize(
    ("dtype", "guards"), [("uint8", 0), ("int8", 1), ("uint32", 2), ("int64", 2), ("uint16", 1), ("int32", 2)]
)
def test_an_index_converted_from_memory_is_proven_only_by_what_its_dtype_holds(
    context: PassContext, lowered: Lowered, dtype: str, guards: int
) -> None:
    """int8 may be negative, uint16 may be too large, and the conversion of uint32 may give a negative number."""

    @T.prim_func
    def kernel(At: T.Tensor((64,), dtype), B: T.Tensor((256,), "float32")):
        with T.Kernel(1):
            for i in T.serial(64):
                B[T.cast(At[i], "int32")] = 1.0

    func = guarded(lowered(kernel), context)
    conditions = [guard.condition.args[0] for guard in statement_guards(func)]
    assert sum(2 if isinstance(condition, tirx.And) else 1 for condition in conditions) == guards


def test_sums_of_indices_from_memory_may_wrap(context: PassContext, lowered: Lowered) -> None:
    @T.prim_func
    def kernel(At: T.Tensor((64,), "int32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.serial(64):
                at = At[i]
                if at >= 0:
                    B[at + 1] = 1.0
                B[T.max(At[i], 0) + T.max(At[i], 0)] = 2.0

    for guard in statement_guards(guarded(lowered(kernel), context)):
        assert isinstance(guard.condition.args[0], tirx.And), "the lower bound is tested, too"
