"""Which nests and fragments are tied, how they are mapped, and what has to move to shared memory."""

from __future__ import annotations

from typing import Any

import pytest

import tile_core.language as T
from tile_core.layouts.mapping import FlatMapping, SplitMapping


def plan_of(run_until: Any, func: Any) -> tuple[dict[str, Any], list[str]]:
    """Mappings of the fragments by name, and the names of those in shared memory."""
    _func, context = run_until(func, "infer_layouts")
    plan = context.state["infer_layouts"]
    return {str(buffer.name): place.mapping for buffer, place in plan.fragments.items()}, [
        str(buffer.name) for buffer in plan.shared
    ]


def test_elementwise_fragments_are_dealt_in_vectors(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((2048,), T.float16), B: T.Tensor((2048,), T.float16)):
        with T.Kernel(1, threads=256):
            f = T.alloc_fragment((2048,), T.float16)
            T.copy(A, f)
            for i in T.Parallel(2048):
                f[i] = f[i] * f[i]
            T.copy(f, B)

    mappings, shared = plan_of(run_until, func)
    assert mappings == {"f": FlatMapping((2048,), 256, 8)}
    assert not shared


def test_vectors_shrink_before_threads_idle(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((512,), T.float16)):
        with T.Kernel(1, threads=256):
            f = T.alloc_fragment((512,), T.float16)
            T.copy(A, f)
            T.copy(f, A)

    mappings, _shared = plan_of(run_until, func)
    assert mappings["f"] == FlatMapping((512,), 256, 2)


def test_a_reduced_tile_keeps_a_row_within_a_warp(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((64, 128), T.float32), B: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((64, 128), T.float32)
            total = T.alloc_fragment((64,), T.float32)
            T.copy(A, x)
            T.reduce_sum(x, total, dim=1)
            T.copy(total, B)

    mappings, shared = plan_of(run_until, func)
    assert not shared
    x, total = mappings["x"], mappings["total"]
    assert isinstance(x, SplitMapping)
    assert x.axis_threads[1] <= 32
    assert x.axis_threads[1] & (x.axis_threads[1] - 1) == 0
    assert (total.axis_threads, total.strides) == (x.axis_threads[:1], x.strides[:1])


def test_one_long_row_takes_the_whole_block(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((1000,), T.float32), B: T.Tensor((1,), T.float32)):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((1000,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(A, x)
            T.reduce_sum(x, total)
            B[0] = total[0]

    mappings, shared = plan_of(run_until, func)
    assert not shared
    assert mappings["x"].axis_threads == (96,)


@pytest.mark.parametrize("kind", ["transposed", "shifted", "serial"])
def test_what_no_layout_satisfies_moves_to_shared_memory(run_until: Any, kind: str) -> None:
    @T.prim_func
    def func(A: T.Tensor((16, 16), T.float32), B: T.Tensor((16, 16), T.float32)):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((16, 16), T.float32)
            T.copy(A, f)
            if kind == "transposed":
                for i, j in T.Parallel(16, 16):
                    B[i, j] = f[i, j] + f[j, i]
            elif kind == "shifted":
                for i, j in T.Parallel(16, 16):
                    B[i, j] = f[(i + 1) % 16, j]
            else:
                for i in T.serial(16):
                    B[i, i] = f[i, 0]

    mappings, shared = plan_of(run_until, func)
    assert shared == ["f"]
    assert "f" not in mappings


def test_a_loop_over_part_of_a_fragment_is_tied(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((256,), T.float32)):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((256,), T.float32)
            for i in T.Parallel(256):
                f[i] = 1.0
            for i in T.Parallel(100):
                f[i] = 5.0
            T.copy(f, A)

    mappings, shared = plan_of(run_until, func)
    assert not shared
    assert mappings["f"].extents == (256,)


def test_a_scalar_that_spare_threads_would_lack_is_shared(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((5,), T.float32), B: T.Tensor((1,), T.float32)):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((5,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(A, x)
            T.reduce_max(x, total)
            B[0] = total[0]

    _mappings, shared = plan_of(run_until, func)
    # Its reduction then runs as loops, which read all of `x` from one thread.
    assert shared == ["x", "total"]


def test_axes_that_never_meet_have_the_same_threads(run_until: Any) -> None:
    @T.prim_func
    def func(A: T.Tensor((16, 32), T.float32), B: T.Tensor((16, 64), T.float32), C: T.Tensor((16, 64), T.float32)):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((16, 32), T.float32)
            b = T.alloc_fragment((16, 64), T.float32)
            total = T.alloc_fragment((16,), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.reduce_sum(a, total, dim=1)
            for i, j in T.Parallel(16, 64):
                b[i, j] = b[i, j] * total[i]
            T.copy(b, C)

    mappings, shared = plan_of(run_until, func)
    assert not shared
    a, b, total = mappings["a"], mappings["b"], mappings["total"]
    assert (a.axis_threads, a.strides) == (b.axis_threads, b.strides)
    assert total.axis_threads == a.axis_threads[:1]
    assert a.registers * 64 == 16 * 32
    assert b.registers * 64 == 16 * 64


def test_a_product_is_dealt_in_squarest_pieces(run_until: Any) -> None:
    @T.prim_func
    def func(C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64, 16), T.float32)
            b = T.alloc_shared((16, 64), T.float32)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(a)
            T.clear(b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    from tile_core.plugins.threads import THREAD_OP_LOWERINGS

    mappings, _shared = plan_of(lambda program, last: run_until(program, last, THREAD_OP_LOWERINGS), func)
    c = mappings["c"]
    assert isinstance(c, SplitMapping)
    assert c.steps[0] == c.steps[1] * c.vector == 8
