"""Programs that are refused, with what the message names and the line it points at."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tvm import ir, tirx
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core import errors
from tile_core.ir import launch
from tile_core.passes.base import PassContext
from tile_core.passes.check_semantics import CheckSemantics


def _line_of(mark: str) -> int:
    """The line of this file that ends with the comment `# mark`."""
    lines = inspect.getsource(inspect.getmodule(_line_of)).splitlines()  # type: ignore[arg-type]
    (line,) = (number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))
    return line


def refused(func: Any, context: PassContext, error: type[errors.TileError], *words: str, mark: str = "") -> None:
    with pytest.raises(error) as caught:
        CheckSemantics()(func, context)
    for word in words:
        assert re.search(word, caught.value.message), caught.value.message
    assert caught.value.remedy
    if mark:
        assert caught.value.span is not None
        assert caught.value.span.line == _line_of(mark)


def _program(body: Callable[[ir.Var], S.Stmt], *, launched: bool) -> tirx.PrimFunc:
    """A program over A(8, 4) that the front end would not make."""
    buffer = tirx.decl_buffer((8, 4), "float32", "A")
    stmt = body(buffer)
    if launched:
        names = [tirx.Var(name, "int32") for name in ("bx", "tx", "ty", "tz")]
        one, threads = (tirx.IntImm("int32", 1),), (names[1], names[2], names[3])
        nest = launch.Launch((names[0],), one, threads, (1, 1, 1), False, "", (1, 1, 1), stmt)
        stmt = nest.to_stmt()
    return tirx.PrimFunc([buffer], stmt)


def _element(buffer: ir.Var, column: int) -> list[ir.Expr]:
    return [tirx.IntImm("int32", 7), tirx.IntImm("int32", column)]


ONE = tirx.FloatImm("float32", 1.0)


@pytest.mark.parametrize("column", [4, -1])
def test_a_constant_index_outside(context: PassContext, column: int) -> None:
    def store(buffer: ir.Var) -> S.Stmt:
        return S.BufferStore(buffer, ONE, _element(buffer, column))

    def load(buffer: ir.Var) -> S.Stmt:
        return S.BufferStore(buffer, tirx.BufferLoad(buffer, _element(buffer, column)), _element(buffer, 0))

    for body in (store, load):
        func = _program(body, launched=True)
        refused(func, context, errors.IndexOutOfRangeError, f"index {column}", "axis 1 of A", "extent is 4")


def test_an_index_of_a_symbolic_axis_is_not_judged(context: PassContext) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            A[1000] = 1.0

    CheckSemantics()(kernel, context)


def test_a_region_that_starts_outside(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((32,), "float32")
            T.copy(A[64:96], tile)  # region outside

    refused(kernel, context, errors.RegionOutOfRangeError, "region of A", "starts at 64", mark="region outside")


def test_a_region_that_sticks_out_at_the_end_is_guarded_instead(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((60,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((64,), "float32")
            T.copy(A[0:64], tile)

    CheckSemantics()(kernel, context)


def test_a_thread_index_without_threads(context: PassContext, simt: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            A[T.get_thread_binding()] = 1.0  # thread index

    refused(kernel, context, errors.ThreadIndexError, "axis x", mark="thread index")
    CheckSemantics()(kernel, simt)


def test_shared_memory_above_the_limit(context: PassContext, simt: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            large = T.alloc_shared((32, 8), "float32")
            small = T.alloc_shared((1,), "float32")
            T.clear(large)
            T.clear(small)

    refused(kernel, simt, errors.SharedMemoryLimitError, "1028 bytes", "limit is 1024", "large 1024, small 4")
    CheckSemantics()(kernel, context)


def test_a_tensor_outside_of_every_kernel(context: PassContext) -> None:
    def store(buffer: ir.Var) -> S.Stmt:
        return S.BufferStore(buffer, ONE, _element(buffer, 0))

    refused(_program(store, launched=False), context, errors.HostAccessError, "A is used outside")
    CheckSemantics()(_program(store, launched=True), context)


@pytest.mark.parametrize("kind", [S.ForKind.PARALLEL, S.ForKind.VECTORIZED])
@pytest.mark.parametrize("control", [S.Break, S.Continue])
def test_leaving_a_loop_whose_iterations_run_at_once(context: PassContext, kind: S.ForKind, control: Any) -> None:
    def loop(kind: S.ForKind, body: S.Stmt) -> S.Stmt:
        return S.For(tirx.Var("i", "int32"), tirx.IntImm("int32", 0), tirx.IntImm("int32", 4), kind, body)

    refused(_program(lambda _: loop(kind, control()), launched=True), context, errors.LoopControlError, "same time")
    inner = loop(S.ForKind.SERIAL, control())
    CheckSemantics()(_program(lambda _: loop(kind, inner), launched=True), context)


def test_local_memory_indexed_by_a_parallel_variable(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            mine = T.alloc_local((64,), "float32")
            for i in T.Parallel(64):
                mine[i] = A[i]  # local in parallel

    refused(kernel, context, errors.ParallelStorageError, "mine", "parallel variable i", mark="local in parallel")


def test_a_fragment_indexed_by_a_symbolic_parallel_variable(context: PassContext, simt: PassContext) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            mine = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(n):
                mine[i] = A[i]

    refused(kernel, simt, errors.ParallelStorageError, "fragment mine", "extent n")
    CheckSemantics()(kernel, context)


def test_a_tile_operation_inside_of_parallel(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((64,), "float32")
            for i in T.Parallel(64):
                A[i] = 1.0
                T.clear(tile)  # operation in parallel

    refused(kernel, context, errors.ParallelNestError, "tile operation fill", "over i", mark="operation in parallel")


def test_parallel_loops_nest_perfectly_or_not_at_all(context: PassContext) -> None:
    @T.prim_func
    def imperfect(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                A[i, 0] = 1.0
                for j in T.Parallel(64):  # imperfect nest
                    A[i, j] = 1.0

    refused(imperfect, context, errors.ParallelNestError, "not perfectly nested", mark="imperfect nest")

    @T.prim_func
    def perfect(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                for j in T.Parallel(64):
                    A[i, j] = 1.0

    CheckSemantics()(perfect, context)

    @T.prim_func
    def triangle(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                for j in T.Parallel(i):  # no box
                    A[i, j] = 1.0

    refused(triangle, context, errors.ParallelNestError, "not perfectly nested", mark="no box")


def test_a_pipelined_loop_inside_of_parallel(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                for k in T.Pipelined(4, num_stages=2):
                    A[i] = A[i] + T.cast(k, "float32")

    refused(kernel, context, errors.ParallelNestError, "T.Pipelined")


def test_printing_a_scalar_inside_of_parallel_is_allowed(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                T.print(A[i])

    CheckSemantics()(kernel, context)


@T.prim_func
def exchanging(A: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        A[0] = T.warp_reduce_sum(A[1])  # exchange


@T.prim_func
def exchanging_in_parallel(A: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            A[i] = T.shfl_xor(A[i], 1)  # exchange in parallel


def test_an_exchange_needs_threads(context: PassContext, simt: PassContext) -> None:
    refused(exchanging, context, errors.ThreadIndexError, "warp_reduce_sum exchanges", mark="exchange")
    assert CheckSemantics()(exchanging, simt) is exchanging


@T.prim_func
def exchanging_beyond_a_warp(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=128):
        A[0] = T.shfl_sync(A[1], 0, 64)  # beyond a warp


def test_a_shuffle_is_within_a_warp(simt: PassContext) -> None:
    words = ("shfl_sync: width=64", "a warp of this target has 32 lanes")
    refused(exchanging_beyond_a_warp, simt, errors.OpArgumentError, *words, mark="beyond a warp")
    wide = replace(simt, capabilities=replace(simt.capabilities, warp_size=64))
    assert CheckSemantics()(exchanging_beyond_a_warp, wide) is exchanging_beyond_a_warp


def test_an_exchange_is_no_iteration_of_a_parallel_loop(simt: PassContext) -> None:
    words = ("shfl_xor", "over i")
    refused(exchanging_in_parallel, simt, errors.ParallelNestError, *words, mark="exchange in parallel")
