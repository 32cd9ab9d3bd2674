"""What a program's tiles take: bytes a block, bytes and registers a thread."""

from __future__ import annotations

import tile_core as tl
import tile_core.language as T
from tile_core.jit.footprint import footprint


@T.prim_func
def accumulate(A: T.Tensor((128, 128), "float16"), C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128):
        stages = T.alloc_shared((3, 128, 32), "float16")
        acc = T.alloc_fragment((128, 128), "float32")
        T.clear(acc)
        T.copy(A[0:128, 0:32], stages[0, :, :])
        T.copy(acc, C)


@T.prim_func
def odd_sizes(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=(4, 3)):
        nibbles = T.alloc_shared((5,), "int4")
        spread = T.alloc_fragment((25,), "float16")
        own = T.alloc_local((3,), "float64")
        total = T.alloc_var("int32", init=0)
        T.fill(spread, 0)
        T.fill(nibbles, 0)
        own[0] = 1.0
        A[0] = total


@T.prim_func
def threads_not_given(A: T.Tensor((8,), "int32")):
    with T.Kernel(1):
        tile = T.alloc_fragment((8,), "int32")
        T.copy(A, tile)
    with T.Kernel(1):
        other = T.alloc_shared((8,), "int64")
        T.copy(A, other)


def test_an_accumulator_of_128_by_128_over_128_threads():
    found = footprint(accumulate)
    assert found["fragment_bytes"] == 64 * 1024
    assert (found["bytes_a_thread"], found["registers_a_thread"]) == (512, 128)
    assert found["shared_bytes"] == 3 * 128 * 32 * 2
    assert found["buffers"] == [
        {"name": "stages", "scope": "shared.dyn", "dtype": "float16", "shape": [3, 128, 32], "bytes": 24576},
        {"name": "acc", "scope": "local.fragment", "dtype": "float32", "shape": [128, 128], "bytes": 65536},
    ]


def test_sizes_are_rounded_up_and_local_arrays_count_whole():
    found = footprint(odd_sizes)
    assert found["shared_bytes"] == 3
    # 50 bytes over 12 threads are 5 each; 24 bytes of its own array and 4 of the variable.
    assert (found["bytes_a_thread"], found["registers_a_thread"]) == (5 + 24 + 4, 9)


def test_without_threads_nothing_is_said_of_a_thread_and_the_largest_launch_counts():
    found = footprint(threads_not_given)
    assert (found["fragment_bytes"], found["shared_bytes"]) == (32, 64)
    assert "registers_a_thread" not in found


def test_the_report_has_it_on_every_target():
    for target in ("interpret", "cpu"):
        assert tl.compile(accumulate, target=target).report()["footprint"] == footprint(accumulate)
