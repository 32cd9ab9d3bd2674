"""Loads for a whole cluster and arrivals in other blocks, by hand: emulated, and on a GPU where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.interpreter import NoReferenceMeaningError
from tile_core.errors.ops import OpArgumentError

SM_90 = {"kind": "cuda", "arch": "sm_90"}
STEPS = 5


def fed(mask: int, cluster: int = 2) -> Any:
    """B[block] = the sum of A's tiles, each loaded once for the blocks of `mask`, which hand it back to block 0."""
    members = [block for block in range(cluster) if mask >> block & 1]

    @T.prim_func
    def kernel(A: T.Tensor((32, STEPS * 32), "float32"), B: T.Tensor((4, 32, 32), "float32")):
        with T.Kernel(4, threads=128, cluster_dims=(cluster, 1, 1)) as bx:
            tile = T.alloc_shared((32, 32), "float32")
            full = T.alloc_cluster_barrier(128)
            empty = T.alloc_cluster_barrier(128 * len(members))
            total = T.alloc_fragment((32, 32), "float32")
            T.clear(total)
            for k in T.serial(STEPS):
                if T.block_rank_in_cluster() == members[0]:
                    T.barrier_wait(empty, k % 2 ^ 1)
                T.tma_copy(A[0:32, k * 32 : k * 32 + 32], tile, barrier=full, cluster_mask=mask)
                T.barrier_arrive(full)
                T.barrier_wait(full, k % 2)
                for i, j in T.Parallel(32, 32):
                    total[i, j] += tile[i, j]
                T.sync_threads()
                if mask >> T.block_rank_in_cluster() & 1 == 1:
                    T.mbarrier_arrive(empty, members[0])
            T.copy(total, B[bx, :, :])

    return kernel


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers at a multiple of 16 bytes, and a poisoned output."""
    room = np.empty(32 * STEPS * 32 * 4 + 16, "uint8")
    begin = -room.ctypes.data % 16
    a = room[begin : begin + 32 * STEPS * 32 * 4].view("float32").reshape(32, STEPS * 32)
    a[...] = np.random.default_rng(0).integers(-4, 5, a.shape)
    return a, np.full((4, 32, 32), np.nan, "float32")


@pytest.mark.emulate
@pytest.mark.parametrize(("mask", "cluster"), [(3, 2), (1, 2), (2, 2), (5, 4)])
def test_a_tile_is_loaded_once_for_several_blocks(on_gpu: Any, mask: int, cluster: int) -> None:
    a, b = operands()
    expected = a.reshape(32, STEPS, 32).sum(1)
    program = fed(mask, cluster)
    tl.compile(program, target=SM_90, execution="emulate", pass_configs={"tile.emulate_check": True})(a, b)
    assert (b == expected).all()
    for found in (on_gpu(program, *operands()) or ())[1:]:
        assert (found == expected).all()


def test_blocks_that_the_cluster_lacks_are_refused() -> None:
    with pytest.raises(OpArgumentError, match="a cluster of 2 does not have"):
        tl.compile(_beyond(), target=SM_90, execution="emulate")


def _beyond() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((32, 32), "float32")):
        with T.Kernel(2, threads=128, cluster_dims=(2, 1, 1)) as _bx:
            tile = T.alloc_shared((32, 32), "float32")
            full = T.alloc_cluster_barrier(128)
            T.tma_copy(A, tile, barrier=full, cluster_mask=7)

    return kernel


def test_the_interpreter_says_that_blocks_run_in_turn() -> None:
    with pytest.raises(NoReferenceMeaningError, match="another one of its cluster"):
        tl.compile(fed(3), target="interpret")(*operands())
