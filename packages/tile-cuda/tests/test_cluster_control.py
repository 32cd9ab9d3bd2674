"""Cluster launch control: blocks that take over the work of blocks that have not begun, emulated and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.emulator import EmulatedInstructionError
from tile_core.errors.ops import OpArgumentError
from tile_core.errors.passes import UnsupportedOnTargetError

SM_100 = {"kind": "cuda", "arch": "sm_100"}
CHECKED = {"tile.emulate_check": True}
MOST = 64


def walk(*, again: bool = False, blindly: bool = False) -> Any:
    """Block (x, y) writes which block does its work, and takes over others' until there are none."""

    @T.prim_func
    def kernel(Done: T.Tensor((3, 5), "int32"), Turns: T.Tensor((3, 5), "int32")):
        with T.Kernel(5, 3, threads=32) as (bx, by):
            answer = T.alloc_shared((4,), "uint32")
            answered = T.alloc_barrier(1)
            x = T.alloc_var("int32", bx)
            y = T.alloc_var("int32", by)
            goes_on = T.alloc_var("int32", 1)
            tx = T.get_thread_binding(0)
            for turn in T.serial(MOST):
                if goes_on == 1:
                    T.sync_threads()
                    if tx == 0:
                        T.mbarrier_arrive_expect_tx(answered, 16)
                        T.clc_try_cancel(answer, answered)
                        Done[y, x] = by * 5 + bx
                        Turns[y, x] = turn
                    T.mbarrier_wait_parity(answered, turn % 2)
                    if blindly:
                        x = T.cast(T.clc_get_first_ctaid_x(answer), "int32")
                    if T.clc_is_canceled(answer) == 1:
                        x = T.cast(T.clc_get_first_ctaid_x(answer), "int32")
                        y = T.cast(T.clc_get_first_ctaid_y(answer), "int32") + T.cast(
                            T.clc_get_first_ctaid_z(answer), "int32"
                        )
                    else:
                        goes_on = 1 if again else 0
                    # What was read of the answer is read before the next answer is written.
                    T.fence_proxy_async()

    return kernel


@pytest.mark.emulate
def test_every_block_is_done_once() -> None:
    done, turns = (np.full((3, 5), -1, "int32") for _ in range(2))
    tl.compile(walk(), target=SM_100, execution="emulate", pass_configs=CHECKED)(done, turns)
    assert (turns >= 0).all() and turns.max() > 0
    assert len({(int(block), int(turn)) for block, turn in zip(done.flat, turns.flat, strict=True)}) == 15


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("options", "names"),
    [({"again": True}, "asks for another cluster after"), ({"blindly": True}, "which cluster a request got")],
)
def test_mistakes_are_found(options: dict[str, bool], names: str) -> None:
    done, turns = (np.full((3, 5), -1, "int32") for _ in range(2))
    with pytest.raises(EmulatedInstructionError, match=names):
        tl.compile(walk(**options), target=SM_100, execution="emulate")(done, turns)


def multicast() -> Any:
    @T.prim_func
    def kernel(First: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=32, cluster_dims=2) as bx:
            answer = T.alloc_shared((4,), "uint32")
            answered = T.alloc_cluster_barrier(1)
            tx = T.get_thread_binding(0)
            if tx == 0:
                T.mbarrier_arrive_expect_tx(answered, 16)
            T.cluster_sync()
            if tx == 0 and T.block_rank_in_cluster() == 0:
                T.clc_try_cancel_multicast(answer, answered)
            T.mbarrier_wait_parity(answered, 0)
            if tx == 0:
                First[bx] = -1
                if T.clc_is_canceled(answer) == 1:
                    First[bx] = T.cast(T.clc_get_first_ctaid_x(answer), "int32")

    return kernel


@pytest.mark.emulate
def test_a_cluster_asks_for_another_one() -> None:
    first = np.full((8,), 77, "int32")
    tl.compile(multicast(), target=SM_100, execution="emulate", pass_configs=CHECKED)(first)
    assert first.tolist() == [2, 2, 77, 77, 6, 6, 77, 77]


def test_it_compiles(build: Any) -> None:
    assert "clusterlaunchcontrol.try_cancel.async" in build(walk(), ("sm_100", "sm_120"))
    assert "multicast::cluster::all" in build(multicast(), ("sm_100",))


@pytest.mark.parametrize(("arch", "kernel"), [("sm_90", walk), ("sm_120", multicast)])
def test_other_architectures_are_refused(arch: str, kernel: Any) -> None:
    with pytest.raises(UnsupportedOnTargetError, match="has no clc_try_cancel"):
        tl.compile(kernel(), target={"kind": "cuda", "arch": arch})


def test_the_answer_is_16_bytes_of_shared_memory() -> None:
    with pytest.raises(OpArgumentError, match="answer of shape"):

        @T.prim_func
        def small(A: T.Tensor((1,), "int32")):
            with T.Kernel(1, threads=32) as _bx:
                answer = T.alloc_shared((3,), "uint32")
                A[0] = T.clc_is_canceled(answer)
