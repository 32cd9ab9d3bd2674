"""Which loops are written out; `memory.unrolled_loops_of_every_kind` tests on every backend what they compute."""

from __future__ import annotations

from typing import Any

import pytest
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.errors.frontend import LoopArgumentError
from tile_core.ir import visit
from tile_core.passes.base import PassContext
from tile_core.passes.unroll_loops import UnrollLoops


def unrolled(loops: Any, context: PassContext) -> Any:
    """The function of the kernel whose body `loops(B, n)` writes, after the pass."""

    @T.prim_func
    def kernel(B: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            loops(B, n)

    return UnrollLoops()(kernel, context)


def _loops(func: Any) -> list[str]:
    kinds = (S.ForKind(int(loop.kind)) for loop in visit.collect(func.body, S.For))
    return [kind.name for kind in kinds if kind != S.ForKind.THREAD_BINDING]


def test_only_explicit_loops_are_written_out(context: PassContext) -> None:
    @T.macro
    def loops(B, n):
        for i in T.unroll(3, 9, 2, explicit=True):
            B[i] = i
        for i in T.unroll(4, unroll_factor=2):
            B[i] = i
        for i in T.unroll(n):
            B[i] = i

    func = unrolled(loops, context)
    assert _loops(func) == ["UNROLLED", "UNROLLED"]
    assert len(visit.collect(func.body, S.BufferStore)) == 5


def test_each_iteration_has_its_own_names(context: PassContext) -> None:
    @T.macro
    def loops(B, n):
        for i in T.unroll(3, explicit=True):
            mine = T.alloc_local((1,), "int32")
            mine[0] = n + i
            B[i] = mine[0]

    func = unrolled(loops, context)
    tiles = [stmt.buffer for stmt in visit.collect(func.body, S.AllocBuffer)]
    assert len(tiles) == 3
    assert not tiles[0].same_as(tiles[1])


def test_shared_tiles_are_not_multiplied(context: PassContext) -> None:
    @T.macro
    def loops(B, n):
        for i in T.unroll(3, explicit=True):
            s = T.alloc_shared((8,), "int32")
            T.copy(B[0:8], s)
            T.copy(s, B[8 * i])

    assert _loops(unrolled(loops, context)) == ["UNROLLED"]


def test_a_loop_that_would_become_too_long_is_refused(context: PassContext) -> None:
    @T.macro
    def loops(B, n):
        for i in T.unroll(100, explicit=True):
            for _ in T.unroll(100, explicit=True):
                B[0] = B[0] + i

    with pytest.raises(LoopArgumentError, match="over i becomes 10000 statements") as caught:
        unrolled(loops, context)
    assert caught.value.span is not None


def test_bounds_that_are_not_constant_are_refused() -> None:
    with pytest.raises(LoopArgumentError, match="not known while tracing"):

        @T.prim_func
        def kernel(B: T.Tensor((64,), "int32"), n: T.int32):
            with T.Kernel(1):
                for i in T.unroll(n, explicit=True):
                    B[i] = i
