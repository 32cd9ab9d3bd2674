"""One load for a whole cluster, and tiles sent from block to block: emulated, and on a GPU where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.emulator import EmulatedUnwrittenError
from tile_core.errors.interpreter import NoReferenceMeaningError
from tile_core.errors.ops import CopyShapeError, OpArgumentError

SM_90 = {"kind": "cuda", "arch": "sm_90"}
CHECKED = {"tile.emulate_check": True}
BLOCKS = 4


def aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Small whole float32 numbers at a multiple of 16 bytes."""
    room = np.empty(int(np.prod(shape)) * 4 + 16, "uint8")
    begin = -room.ctypes.data % 16
    array = room[begin : begin + int(np.prod(shape)) * 4].view("float32").reshape(shape)
    array[...] = np.random.default_rng(0).integers(-4, 5, shape)
    return array


def poisoned(shape: tuple[int, ...]) -> np.ndarray:
    array = aligned(shape)
    array[...] = np.nan
    return array


def check(program: Any, on_gpu: Any, a: np.ndarray, shape: tuple[int, ...], expected: np.ndarray) -> None:
    b = poisoned(shape)
    tl.compile(program, target=SM_90, execution="emulate", pass_configs=CHECKED)(a, b)
    assert (b == expected).all()
    for found in (on_gpu(program, a, poisoned(shape)) or ())[1:]:
        assert (found == expected).all()


def loaded(mask: int) -> Any:
    """B[block] = the sum of A's tiles."""

    @T.prim_func
    def kernel(A: T.Tensor((32, 5 * 32), "float32"), B: T.Tensor((BLOCKS, 32, 32), "float32")):
        with T.Kernel(BLOCKS, threads=128, cluster_dims=2) as bx:
            tile = T.alloc_shared((32, 32), "float32")
            total = T.alloc_fragment((32, 32), "float32")
            T.clear(total)
            for k in T.serial(5):
                T.copy_cluster(A[0:32, k * 32 : k * 32 + 32], tile, cluster_mask=mask)
                for i, j in T.Parallel(32, 32):
                    total[i, j] += tile[i, j]
            T.copy(total, B[bx, :, :])

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize("mask", [1, 2, 3])
def test_a_cluster_loads_a_tile_once(on_gpu: Any, mask: int) -> None:
    a = aligned((32, 5 * 32))
    check(loaded(mask), on_gpu, a, (BLOCKS, 32, 32), np.broadcast_to(a.reshape(32, 5, 32).sum(1), (BLOCKS, 32, 32)))


def gathered(*, waits: bool = True) -> Any:
    """B[cluster] = the sum of the tiles of its blocks, which send them to block 0 one after another."""

    @T.prim_func
    def kernel(A: T.Tensor((BLOCKS, 16, 32), "float32"), B: T.Tensor((BLOCKS // 2, 16, 32), "float32")):
        with T.Kernel(BLOCKS, threads=128, cluster_dims=2) as bx:
            own = T.alloc_shared((16, 32), "float32")
            parts = T.alloc_shared((2, 16, 32), "float32")
            arrived = T.alloc_cluster_barrier([1, 1])
            rank = T.block_rank_in_cluster()
            T.copy(A[bx, :, :], own)
            T.copy_cluster(own, parts[rank, :, :], dst_block=0, remote_barrier=arrived[rank])
            if rank == 0:
                if waits:
                    T.barrier_wait(arrived[0], 0)
                    T.barrier_wait(arrived[1], 0)
                for i, j in T.Parallel(16, 32):
                    B[bx // 2, i, j] = parts[0, i, j] + parts[1, i, j]

    return kernel


def swapped() -> Any:
    """B[block] = its own tile less twice that of the other block of its cluster."""

    @T.prim_func
    def kernel(A: T.Tensor((BLOCKS, 16, 32), "float32"), B: T.Tensor((BLOCKS, 16, 32), "float32")):
        with T.Kernel(BLOCKS, threads=128, cluster_dims=2) as bx:
            own = T.alloc_shared((16, 32), "float32")
            other = T.alloc_shared((16, 32), "float32")
            arrived = T.alloc_cluster_barrier(1)
            T.copy(A[bx, :, :], own)
            T.copy_cluster(own, other, dst_block=1 - T.block_rank_in_cluster(), remote_barrier=arrived[0])
            T.barrier_wait(arrived[0], 0)
            for i, j in T.Parallel(16, 32):
                B[bx, i, j] = own[i, j] - 2 * other[i, j]

    return kernel


@pytest.mark.emulate
def test_tiles_are_sent_to_another_block(on_gpu: Any) -> None:
    a = aligned((BLOCKS, 16, 32))
    other = a.reshape(BLOCKS // 2, 2, 16, 32)[:, ::-1].reshape(a.shape)
    check(swapped(), on_gpu, a, a.shape, a - 2 * other)


@pytest.mark.emulate
def test_tiles_are_gathered_by_one_of_the_blocks_that_send(on_gpu: Any) -> None:
    """On a GPU this is right too; memcheck takes a block that sends to itself for a mistake."""
    a = aligned((BLOCKS, 16, 32))
    check(gathered(), on_gpu, a, (BLOCKS // 2, 16, 32), a.reshape(BLOCKS // 2, 2, 16, 32).sum(1))


@pytest.mark.emulate
def test_a_missing_wait_is_found() -> None:
    a, b = aligned((BLOCKS, 16, 32)), poisoned((BLOCKS // 2, 16, 32))
    with pytest.raises(EmulatedUnwrittenError, match="parts"):
        tl.compile(gathered(waits=False), target=SM_90, execution="emulate", pass_configs=CHECKED)(a, b)


def test_it_compiles(build: Any) -> None:
    source = build(gathered(), ("sm_90",))
    assert "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes" in source
    assert ".multicast::cluster" in build(loaded(3), ("sm_90",))


def test_the_interpreter_says_that_blocks_run_in_turn() -> None:
    with pytest.raises(NoReferenceMeaningError, match="another one of its cluster"):
        tl.compile(gathered(), target="interpret")(aligned((BLOCKS, 16, 32)), poisoned((BLOCKS // 2, 16, 32)))


@pytest.mark.parametrize(
    ("kind", "names", "options"),
    [
        (OpArgumentError, "remote_barrier is missing", {"dst_block": 0}),
        (OpArgumentError, "dst_block is missing", {"remote_barrier": "full"}),
        (OpArgumentError, "cluster_mask beside dst_block", {"cluster_mask": 3, "dst_block": 0}),
        (OpArgumentError, "eviction_policy", {"eviction_policy": "evict_first"}),
        (OpArgumentError, "coalesced_width of a copy", {"cluster_mask": 3, "coalesced_width": 2}),
        (OpArgumentError, "is no barrier of the cluster", {"dst_block": 0, "remote_barrier": "block"}),
        (CopyShapeError, "is not sent whole", {"dst_block": 0, "remote_barrier": "full", "part": True}),
    ],
)
def test_arguments_are_checked(kind: type[Exception], names: str, options: dict[str, Any]) -> None:
    with pytest.raises(kind, match=names):

        @T.prim_func
        def kernel(A: T.Tensor((8,), "float32")):
            with T.Kernel(2, threads=128, cluster_dims=2) as _bx:
                a = T.alloc_shared((16, 32), "float32")
                b = T.alloc_shared((16, 32), "float32")
                full = T.alloc_cluster_barrier(1)
                block = T.alloc_barrier(1)
                barriers = {"full": full, "block": block}
                given = {
                    name: barriers.get(value, value) if isinstance(value, str) else value
                    for name, value in options.items()
                }
                part = given.pop("part", False)
                T.copy_cluster(a[0:8, 0:16] if part else a, b[0:8, 0:16] if part else b, **given)
