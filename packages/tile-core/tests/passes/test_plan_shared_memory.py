"""Places of shared tiles: bytes are shared by tiles that do not live together, and the limit is kept."""

from __future__ import annotations

from typing import Any

from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.passes.plan_shared_memory import OFFSET


def places(run_until: Any, func: Any) -> tuple[dict[str, int], int]:
    """Offsets by name, and the bytes of the launch."""
    result, context = run_until(func, "plan_shared_memory")
    (loop,) = launch_ir.launches(result.body)
    allocs = visit.collect(result.body, S.AllocBuffer)
    found = {str(alloc.buffer.name): int(alloc.annotations[OFFSET]) for alloc in allocs if OFFSET in alloc.annotations}
    used = launch_ir.from_stmt(loop).shared_bytes
    assert context.report["shared_bytes"] == used
    return found, used


def test_tiles_that_live_together_lie_apart(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((100,), T.float32), B: T.Tensor((100,), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((100,), T.float32)
            t = T.alloc_shared((100,), T.float32)
            T.copy(A, s)
            T.copy(A, t)
            for i in T.Parallel(100):
                B[i] = s[99 - i] + t[i]

    found, used = places(run_until, func)
    assert sorted(found.values()) == [0, 512]
    assert used == 912


def test_all_lanes_of_a_vector_take_bytes(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((64,), T.float32x4), B: T.Tensor((64,), T.float32x4)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), T.float32x4)
            t = T.alloc_shared((64,), T.float32x4)
            for i in T.Parallel(64):
                s[i] = A[i]
                t[i] = A[i]
            for i in T.Parallel(64):
                B[i] = s[63 - i] + t[63 - i]

    found, used = places(run_until, func)
    assert sorted(found.values()) == [0, 1024]
    assert used == 2048


def test_tiles_that_do_not_share_bytes(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((100,), T.float32), B: T.Tensor((100,), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((100,), T.float32)
            t = T.alloc_shared((100,), T.float32)
            T.copy(A, s)
            for i in T.Parallel(100):
                B[i] = s[99 - i]
            T.copy(B, t)
            for i in T.Parallel(100):
                A[i] = t[99 - i]

    found, used = places(run_until, func)
    assert set(found.values()) == {0}
    assert used == 400


def test_a_tile_filled_before_a_loop_lives_through_it(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((100,), T.float32), B: T.Tensor((4, 100), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((100,), T.float32)
            t = T.alloc_shared((100,), T.float32)
            T.copy(A, s)
            for k in T.serial(4):
                for i in T.Parallel(100):
                    B[k, i] = s[99 - i]
                T.copy(A, t)
                for i in T.Parallel(100):
                    B[k, i] += t[99 - i]

    found, _used = places(run_until, func)
    assert len(set(found.values())) == 2


def test_conditions_and_bounds_are_uses(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((4,), T.int32), B: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32):
            for_branch = T.alloc_shared((4,), T.int32)
            for_loop = T.alloc_shared((4,), T.int32)
            between = T.alloc_shared((4,), T.int32)
            T.copy(A, for_branch)
            T.copy(A, for_loop)
            T.copy(A, between)
            T.copy(between, B)
            if for_branch[0] > 1:
                B[0] = 1
            for i in T.serial(for_loop[1]):
                B[1] = i

    found, _ = places(run_until, func)
    assert len(set(found.values())) == 3


def test_a_tile_that_nothing_uses_is_dropped(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32):
            T.alloc_shared((4,), T.int32)
            A[0] = 1

    result, _ = run_until(func, "plan_shared_memory")
    assert not visit.collect(result.body, S.AllocBuffer)


def test_what_one_piece_of_work_reads_and_writes_lies_apart(run_until: Any) -> None:
    """Each thread loads a vector and stores it elsewhere, and no barrier is between what two of them do."""

    @T.prim_func
    def func(A: T.Tensor((64, 32), T.float32), B: T.Tensor((64, 32), T.float32)):
        with T.Kernel(1, threads=512):
            s = T.alloc_shared((64, 32), T.float32)
            t = T.alloc_shared((64, 32), T.float32)
            T.copy(A, s)
            for i, j in T.Parallel(64, 32):
                t[i, j] = s[63 - i, j]
            for i, j in T.Parallel(64, 32):
                B[i, j] = t[63 - i, 31 - j]

    found, used = places(run_until, func)
    assert len(set(found.values())) == 2
    assert used == 2 * 64 * 32 * 4
