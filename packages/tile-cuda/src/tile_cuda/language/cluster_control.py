"""Cluster launch control (sm_100 and later): blocks that are done take over the work of blocks that have not begun.

    answer = T.alloc_shared((4,), "uint32")
    answered = T.alloc_barrier(1)
    if tx == 0:
        T.mbarrier_arrive_expect_tx(answered, 16)
        T.clc_try_cancel(answer, answered)
    T.mbarrier_wait_parity(answered, turn % 2)
    if T.clc_is_canceled(answer) == 0:
        T.loop_break()
    block = T.clc_get_first_ctaid_x(answer)

It is printed, compiled for sm_100a and emulated; it has not run on hardware.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.values import VarCell
from tile_core.ir import regions
from tile_core.language.allocate import alloc_var
from tile_core.ops.asynchronous import BARRIER, CLUSTER_BARRIER
from tile_cuda.instructions.cluster_control import ANSWER_BYTES
from tile_cuda.instructions.cluster_control import clc_first_block as first_block
from tile_cuda.instructions.cluster_control import clc_is_canceled as is_canceled
from tile_cuda.instructions.cluster_control import clc_try_cancel as try_cancel
from tile_cuda.language._instructions import issue, place

__all__ = [
    "clc_get_first_ctaid_x",
    "clc_get_first_ctaid_y",
    "clc_get_first_ctaid_z",
    "clc_is_canceled",
    "clc_try_cancel",
    "clc_try_cancel_multicast",
]


def clc_try_cancel(result: Any, mbarrier: Any) -> None:
    """Every thread that comes here, which should be one, asks to take over a cluster that has not begun.

    Args:
        result: where 16 bytes of shared memory begin, at a multiple of 16, for the answer.
        mbarrier: gets the 16 bytes, which the author announces; the answer may be read behind its phase.

    Raises:
        OpArgumentError: other memory, fewer bytes, or no barrier.
        UnsupportedOnTargetError: when compiled for an architecture without it.
    """
    _request("clc_try_cancel", result, mbarrier, multicast=False)


def clc_try_cancel_multicast(result: Any, mbarrier: Any) -> None:
    """As `T.clc_try_cancel`, with the answer to the same places of all blocks of this cluster (sm_100a)."""
    _request("clc_try_cancel_multicast", result, mbarrier, multicast=True)


def _request(what: str, result: Any, mbarrier: Any, *, multicast: bool) -> None:
    buffer, index = place(mbarrier, f"{what}: mbarrier", (BARRIER, CLUSTER_BARRIER))
    issue(try_cancel(_answer(what, result), tirx.address_of(tirx.BufferLoad(buffer.ir, index)), multicast=multicast))


def _answer(what: str, result: Any) -> ir.Expr:
    buffer, index = place(result, f"{what}: result", regions.SHARED)
    extents = [extent for extent in buffer.shape if isinstance(extent, int)]
    size = buffer.dtype.bits // 8
    for extent in extents:
        size *= extent
    if size < ANSWER_BYTES or len(extents) < buffer.ndim:
        raise OpArgumentError(
            f"{what}: {buffer.name} of shape {buffer.shape} and {buffer.dtype}",
            remedy='give 16 bytes of shared memory: T.alloc_shared((4,), "uint32")',
        )
    return tirx.address_of(tirx.BufferLoad(buffer.ir, index))


def clc_is_canceled(result: Any) -> VarCell:
    """1 where the answer at `result` grants a cluster, else 0, as int32. Raises as `T.clc_try_cancel`."""
    found = alloc_var("int32", 0)
    issue(is_canceled(_answer("clc_is_canceled", result), _cell(found)), "r")
    return found


def _first_block(result: Any, axis: int) -> VarCell:
    found = alloc_var("uint32", 0)
    issue(first_block(_answer(f"clc_get_first_ctaid_{'xyz'[axis]}", result), _cell(found), axis=axis), "r")
    return found


def _cell(found: VarCell) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(found.buffer.ir, [tirx.IntImm("int32", 0)]))


def clc_get_first_ctaid_x(result: Any) -> VarCell:
    """blockIdx.x of the first block of the granted cluster, as uint32. Raises as `T.clc_try_cancel`."""
    return _first_block(result, 0)


def clc_get_first_ctaid_y(result: Any) -> VarCell:
    """blockIdx.y of the first block of the granted cluster, as uint32. Raises as `T.clc_try_cancel`."""
    return _first_block(result, 1)


def clc_get_first_ctaid_z(result: Any) -> VarCell:
    """blockIdx.z of the first block of the granted cluster, as uint32. Raises as `T.clc_try_cancel`."""
    return _first_block(result, 2)
