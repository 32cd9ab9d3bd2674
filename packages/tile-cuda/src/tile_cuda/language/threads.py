"""Which lane, warp and warp group a thread is, and exchanges that only this dialect has.

A thread's place is arithmetic on its indices, so it means the same on every target whose blocks have threads.
"""

from __future__ import annotations

from typing import Any

from tile_core.dtypes import DType
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Expr, Var
from tile_core.language._operands import emit
from tile_core.language._scalars import common
from tile_core.language.launch_queries import get_thread_bindings
from tile_core.language.threads import exchange, lane_mask, shfl_sync

__all__ = [
    "get_lane_idx",
    "get_warp_group_idx",
    "get_warp_idx",
    "get_warp_idx_sync",
    "match_all_sync",
    "match_any_sync",
    "named_barrier_arrive",
    "shuffle_elect",
]

WARP_SIZE = 32
WARPS_PER_GROUP = 4


def _thread() -> Expr:
    """The linear index of the thread, x fastest."""
    x, y, z = get_thread_bindings()
    width, height, depth = current_builder().kernel.thread_extents
    index: Expr = x
    if height > 1:
        index = index + y * width
    if depth > 1:
        index = index + z * (width * height)
    return index


def _count(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise OpArgumentError(f"{name}={value!r}", remedy="give an int of at least 1")
    return value


def get_lane_idx(warp_size: int | None = None) -> Expr:
    """The lane of this thread in its warp of `warp_size` (32) threads, as int32.

    Raises:
        OpArgumentError: a size that is no positive int.

    Example:
        lane = T.get_lane_idx()
    """
    return _thread() % _count("warp_size", warp_size, WARP_SIZE)


def get_warp_idx(warp_size: int | None = None) -> Expr:
    """The warp of this thread in its block, as int32. Raises as `T.get_lane_idx`."""
    return _thread() // _count("warp_size", warp_size, WARP_SIZE)


def get_warp_idx_sync(warp_size: int | None = None) -> Var:
    """`T.get_warp_idx`, taken from lane 0 so that the compiler sees that a warp agrees; all lanes come here."""
    return shfl_sync(get_warp_idx(warp_size), 0)


def get_warp_group_idx(warp_size: int | None = None, warps_per_group: int | None = None) -> Expr:
    """The warp group of this thread: `warps_per_group` (4) warps each, as int32.

    Raises:
        OpArgumentError: as `T.get_lane_idx`, or `warps_per_group` without `warp_size`.
    """
    if warps_per_group is not None and warp_size is None:
        raise OpArgumentError("warps_per_group without warp_size", remedy="give both")
    size = _count("warp_size", warp_size, WARP_SIZE) * _count("warps_per_group", warps_per_group, WARPS_PER_GROUP)
    return _thread() // size


def shuffle_elect(thread_extent: int) -> Expr:
    """Whether this thread is the elected one of its group of `thread_extent` threads, the first; 0 means the block.

    Raises:
        OpArgumentError: an extent that is no int of at least 0.

    Example:
        if T.shuffle_elect(128):
            B[0] = total
    """
    if not isinstance(thread_extent, int) or isinstance(thread_extent, bool) or thread_extent < 0:
        raise OpArgumentError(f"thread_extent={thread_extent!r}", remedy="give a number of threads, or 0 for the block")
    return _thread() == 0 if thread_extent == 0 else _thread() % thread_extent == 0


def _match(name: str, value: Any, mask: Any) -> Var:
    (operand,) = common(value)
    dtype = arith.dtype_of(operand)
    if dtype.lanes != 1 or dtype.bits > 64:
        raise OpDTypeError(f"T.{name} of {dtype}", remedy="give a scalar of at most 64 bits")
    return exchange(name, DType("uint32"), operand, lane_mask(mask))


def match_any_sync(value: Any, mask: int = 0xFFFFFFFF) -> Var:
    """The lanes of `mask` whose `value` has the same bits as this lane's, one bit each, as uint32.

    Raises:
        OpDTypeError: a vector.
    """
    return _match("match_any_sync", value, mask)


def match_all_sync(value: Any, mask: int = 0xFFFFFFFF) -> Var:
    """`mask` where all its lanes have the same bits in `value`, else 0, as uint32. Raises as `T.match_any_sync`."""
    return _match("match_all_sync", value, mask)


def named_barrier_arrive(barrier_id: int, thread_count: int) -> None:
    """Count this thread at a named barrier and go on; those at `T.sync_threads(barrier_id, thread_count)` wait for it.

    Args:
        barrier_id: 0 to 15.
        thread_count: how many threads arrive in all, those that wait included; a multiple of the warp size.

    Raises:
        OpArgumentError: no such barrier or count.
    """
    emit("tile.named_barrier_arrive", {}, barrier_id=barrier_id, arrive_count=thread_count)
