"""Barriers stand where one piece of parallel work touches what another wrote, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import ir, tirx
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.errors import DivergentBarrierError
from tile_core.ir import visit
from tile_core.ops.threads import called
from tile_core.passes.insert_barriers import BARRIER
from tile_core.passes.touched import CLEAN, Touched


def barriers(run_until: Any, func: Any) -> int:
    """How many barriers the program holds, also in the report."""
    result, context = run_until(func, "insert_barriers")
    calls = [call for call in visit.collect(result.body, ir.Call) if isinstance(call.op, ir.Op)]
    found = sum(str(call.op.name) == BARRIER for call in calls)
    assert found == context.report["barriers"]
    return found


def test_elementwise_needs_none(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(128):
                B[i] = A[i] + 1.0

    assert barriers(run_until, func) == 0


def test_write_then_read_of_a_shared_tile_needs_one(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((128,), T.float32)
            T.copy(A, s)
            for i in T.Parallel(128):
                B[i] = s[127 - i]

    assert barriers(run_until, func) == 1


def test_two_tiles_read_together_need_one(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((128,), T.float32)
            t = T.alloc_shared((128,), T.float32)
            T.copy(A, s)
            T.copy(A, t)
            for i in T.Parallel(128):
                B[i] = s[127 - i] + t[i]

    assert barriers(run_until, func) == 1


def test_a_loop_needs_one_before_it_overwrites(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((4, 128), T.float32), B: T.Tensor((4, 128), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((128,), T.float32)
            for k in T.serial(4):
                T.copy(A[k, :], s)
                for i in T.Parallel(128):
                    B[k, i] = s[127 - i]

    assert barriers(run_until, func) == 2


def test_a_branch_that_is_the_same_for_all_threads_may_hold_one(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32), n: T.int32):
        with T.Kernel(2, threads=64) as bx:
            s = T.alloc_shared((128,), T.float32)
            if bx + n > 1:
                T.copy(A, s)
                for i in T.Parallel(128):
                    B[i] = s[127 - i]

    assert barriers(run_until, func) == 1


def test_a_branch_on_the_thread_may_not(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((128,), T.float32)
            if tx < 31:
                T.copy(A, s)
                for i in T.Parallel(128):
                    B[i] = s[127 - i]

    with pytest.raises(DivergentBarrierError, match="31 of 64 threads") as caught:
        run_until(func, "insert_barriers")
    assert caught.value.span is not None


def test_a_branch_of_whole_warps_holds_barriers_of_its_own(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((128,), T.float32)
            if tx < 32:
                T.copy(A, s)
                for i in T.Parallel(128):
                    B[i] = s[127 - i]

    result, _context = run_until(func, "insert_barriers")
    named = [call for call in visit.collect(result.body, ir.Call) if called(call) == "tile.thread.named_barrier"]
    assert [int(call.attrs["arrive_count"]) for call in named] == [32]


def test_a_loop_that_only_reads_waits_once_before_it(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((128,), T.float32)
            f = T.alloc_fragment((128,), T.float32)
            T.copy(A, s)
            T.clear(f)
            for _step in T.serial(4):
                for i in T.Parallel(128):
                    f[i] = f[i] + s[127 - i]
            T.copy(f, B)

    assert barriers(run_until, func) == 1
    result, _context = run_until(func, "insert_barriers")
    loops = [loop for loop in visit.collect(result.body, S.For) if loop.kind == S.ForKind.SERIAL]
    inside = [call for loop in loops for call in visit.collect(loop.body, ir.Call) if isinstance(call.op, ir.Op)]
    assert loops
    assert not any(str(call.op.name) == BARRIER for call in inside)


def test_a_barrier_does_not_end_what_lingers() -> None:
    tile = tirx.decl_buffer((8,), "float32", "tile", scope="shared")
    write, read = Touched(writes=frozenset({tile})), Touched(reads=frozenset({tile}))
    flight = Touched(reads=frozenset({tile}), lingering=(frozenset({tile}),))
    assert not read.passed().conflicts(write)
    assert flight.passed().conflicts(write)
    assert (read | flight).passed() == flight


def test_a_wait_ends_the_oldest_pieces_that_linger() -> None:
    first, second = (tirx.decl_buffer((8,), "float32", name, scope="shared") for name in ("first", "second"))
    one, other = (Touched(reads=frozenset({tile}), lingering=(frozenset({tile}),)) for tile in (first, second))
    both = CLEAN.then(one).then(other)
    assert both.landed(2).passed().reads == {first, second}
    assert both.landed(1).passed().reads == {second}
    assert both.landed(0).passed() == CLEAN
    assert (both | one).landed(1).passed().reads == {first, second}, "one of two ways ends with each"


def test_many_pieces_that_linger_are_remembered() -> None:
    tiles = [tirx.decl_buffer((8,), "float32", f"tile{at}", scope="shared") for at in range(20)]
    state = CLEAN
    for tile in tiles:
        state = state.then(Touched(reads=frozenset({tile}), lingering=(frozenset({tile}),)))
    assert state.passed().reads == set(tiles)
    assert state.landed(3).passed().reads == set(tiles[-3:])


def test_what_continue_leaves_meets_the_next_iteration(run_until: Any) -> None:
    @T.prim_func
    def func(F: T.Tensor((6,), T.int32), C: T.Tensor((6, 128), T.int32), D: T.Tensor((6, 128), T.int32)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128,), T.int32)
            T.clear(s)
            for k in range(6):
                for i in T.Parallel(128):
                    C[k, i] = s[127 - i]
                for i in T.Parallel(128):
                    s[i] = i * k
                if F[k] == 1:
                    continue
                for i in T.Parallel(128):
                    D[k, i] = s[(i + 37) % 128]

    assert barriers(run_until, func) == 3


def test_what_break_leaves_meets_what_follows_the_loop(run_until: Any) -> None:
    @T.prim_func
    def func(F: T.Tensor((6,), T.int32), C: T.Tensor((128,), T.int32), D: T.Tensor((6, 128), T.int32)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128,), T.int32)
            for k in range(6):
                for i in T.Parallel(128):
                    s[i] = i * k
                if F[k] == 1:
                    break
                for i in T.Parallel(128):
                    D[k, i] = s[(i + 37) % 128]
            for i in T.Parallel(128):
                C[i] = s[127 - i]

    assert barriers(run_until, func) == 3


def test_the_condition_of_a_while_is_read_again(run_until: Any) -> None:
    @T.prim_func
    def func(F: T.Tensor((6,), T.int32)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128,), T.int32)
            n = T.alloc_var(T.int32)
            T.clear(s)
            while s[77] < 1000:
                for i in T.Parallel(128):
                    s[i] = s[i] + 200
                n += 1
                if F[n % 6] == 1:
                    continue
                for i in T.Parallel(128):
                    s[i] = s[i] + 1

    # Before the loop, before each update, and before the condition on both ways to it.
    assert barriers(run_until, func) == 5
