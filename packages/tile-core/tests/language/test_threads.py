"""Barriers, exchanges between threads, vectors, pointers and pass-through names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tvm import ir

import tile_core.language as T
from tile_core.errors import NotPortableError, OpArgumentError, OpDTypeError
from tile_core.interpreter import Program
from tile_core.ir.visit import collect
from tile_core.ops.threads import NEEDS_THREADS


def names(kernel: Any) -> list[str]:
    return [str(call.op.name) for call in collect(kernel.body, ir.Call) if isinstance(call.op, ir.Op)]


def test_barriers_change_nothing_for_one_program() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((4,), "int32")
            T.async_copy(A, tile)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.sync_warp()
            T.copy(tile, B)

    a, b = torch.arange(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    Program(kernel)(a, b)
    assert torch.equal(a, b)


EXCHANGES = {
    "tile.shfl_sync": lambda v: T.shfl_sync(v, 0),
    "tile.shfl_xor": lambda v: T.shfl_xor(v, 1),
    "tile.shfl_up": lambda v: T.shfl_up(v, 1),
    "tile.shfl_down": lambda v: T.shfl_down(v, 1, width=16),
    "tile.any_sync": lambda v: T.any_sync(v > 0),
    "tile.all_sync": lambda v: T.all_sync(v > 0),
    "tile.ballot_sync": lambda v: T.ballot(v > 0),
    "tile.activemask": lambda v: T.activemask(),
    "tile.syncthreads_and": lambda v: T.syncthreads_and(v > 0),
    "tile.syncthreads_or": lambda v: T.syncthreads_or(v),
    "tile.syncthreads_count": lambda v: T.syncthreads_count(v > 0),
    "tile.warp_reduce_sum": T.warp_reduce_sum,
    "tile.warp_reduce_max": T.warp_reduce_max,
    "tile.warp_reduce_min": T.warp_reduce_min,
    "tile.warp_reduce_bitand": T.warp_reduce_bitand,
    "tile.warp_reduce_bitor": T.warp_reduce_bitor,
}


def test_the_table_is_complete() -> None:
    of_a_dialect = {"tile.match_all_sync", "tile.match_any_sync"}
    assert EXCHANGES.keys() == NEEDS_THREADS - of_a_dialect


@pytest.mark.parametrize("name", EXCHANGES)
def test_an_exchange_runs_once(name: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            value = EXCHANGES[name](A[0])
            A[1] = value
            A[2] = value

    assert names(kernel).count(name) == 1


@pytest.mark.parametrize("function", [T.syncthreads_and, T.any_sync, T.warp_reduce_bitor])
def test_a_float_predicate_is_refused(function: Any) -> None:
    with pytest.raises(OpDTypeError, match="float32"):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                A[0] = function(A[1])


def test_vectors() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            steps = T.Ramp(5, 2, 4)
            A[0] = T.extract_lane(steps, 3)
            A[1] = T.extract_lane(T.broadcast(T.int32(7), 2), 1)
            A[2] = T.extract_lane(T.Shuffle([steps], [2, 0]), 0)
            A[3] = T.extract_lane(T.add2(T.Broadcast(T.float32(1.5), 2), T.Broadcast(T.float32(2.5), 2)), 1)

    script = kernel.script()
    assert "T.Ramp(5, 2, 4)" in script
    assert script.count("T.Shuffle") == 5
    assert "T.Broadcast(T.float32(1.5), 2) + T.Broadcast(T.float32(2.5), 2)" in script


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: T.extract_lane(T.Broadcast(T.int32(1), 2), 2), "lane 2"),
        (lambda: T.Broadcast(1, 0), "lanes=0"),
        (lambda: T.address_of(3), "3"),
        (lambda: T.access_ptr(3, "x"), "'x'"),
    ],
)
def test_wrong_lanes_and_addresses(build: Any, word: str) -> None:
    with pytest.raises(OpArgumentError, match=word):
        build()


def test_names_pass_through() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            A[0] = T.Add(A[1], A[2])
            T.evaluate(T.call_extern("int32", "touch", T.address_of(A[1]), 3))
            A[3] = T.call_pure_extern("int32", "twice", A[2])
            T.assume(A[0] > 0)

    script = kernel.script()
    assert 'call_extern("int32", "touch", T.address_of(A[1]), 3)' in script
    assert 'call_pure_extern("int32", "twice", A[2])' in script


def test_shuffles_of_tvm_are_those_of_the_language() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            B[0, tx] = T.tvm_warp_shuffle(0xFFFFFFFF, A[tx], tx ^ 5, 32, 32)
            B[1, tx] = T.tvm_warp_shuffle_up(T.tvm_warp_activemask(), A[tx], 3, 16, 32)
            B[2, tx] = T.tvm_warp_shuffle_down(0xFFFFFFFF, A[tx], 1, 32, 32)
            B[3, tx] = T.popcount(T.tvm_warp_activemask())

    a, b, lane = torch.randn(32), torch.full((4, 32), torch.nan), torch.arange(32)
    Program(kernel)(a, b)
    above = torch.where(lane % 16 < 3, lane, lane - 3)
    assert torch.equal(b, torch.stack([a[lane ^ 5], a[above], a[(lane + 1).clamp(max=31)], torch.full((32,), 32.0)]))


@pytest.mark.parametrize(
    "name", ["If", "attr", "gemm_sp", "WSSchedule", "thread_return", "import_source", "tvm_struct_get"]
)
def test_refused_names_say_why(name: str) -> None:
    with pytest.raises(NotPortableError, match=name) as caught:
        {"gemm_sp": lambda: T.gemm_sp(1, 2, 3, 4)}.get(name, getattr(T, name))()
    assert caught.value.remedy
