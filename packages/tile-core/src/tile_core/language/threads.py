"""Barriers, votes and exchanges between threads.

A barrier is right on every target. What exchanges values between threads needs a target whose blocks have threads;
the compiler refuses it elsewhere (`tile_core.ops.threads`).
"""

from __future__ import annotations

from typing import Any

from tvm import ir

from tile_core.dtypes import DType
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Var, unwrap
from tile_core.ir.ops import tile_op
from tile_core.language._operands import attributes, emit
from tile_core.language._scalars import common, require

__all__ = [
    "activemask",
    "all_sync",
    "any_sync",
    "ballot",
    "ballot_sync",
    "ptx_commit_group",
    "ptx_wait_group",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "sync_grid",
    "sync_threads",
    "sync_warp",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
]

FULL_MASK = 0xFFFFFFFF
_WIDTHS = (1, 2, 4, 8, 16, 32, 64)


def sync_threads(barrier_id: int | None = None, arrive_count: int | None = None) -> None:
    """Wait until every thread of the block is here, and see what each has written.

    Args:
        barrier_id, arrive_count: a named barrier and how many threads it counts, on targets that have them.

    Raises:
        OpArgumentError: no such barrier, or a count without one.

    Example:
        tx = T.get_thread_binding()
        tile[0, tx] = X[tx]
        T.sync_threads()
        X[tx] = tile[0, 31 - tx]
    """
    emit("tile.sync_threads", {}, **attributes(None, barrier_id=barrier_id, arrive_count=arrive_count))


def sync_warp(mask: int | None = None) -> None:
    """Wait until the threads of the warp are here, and see what each has written.

    Args:
        mask: one bit for each lane that waits; all lanes without it.

    Example:
        T.sync_warp()
    """
    emit("tile.sync_warp", {}, **attributes(None, mask=mask))


def sync_grid() -> None:
    """Wait until every block of the grid is here, and see what each has written.

    For targets that launch all blocks at once; the driver refuses a grid of more blocks than the device holds.

    Example:
        X[0] = 1.0
        T.sync_grid()
    """
    emit("tile.sync_grid", {})


def exchange(name: str, dtype: DType, *args: ir.Expr) -> Var:
    """Run the exchange `tile.<name>` here, once, and give its value a name; for dialects."""
    builder = current_builder()
    call = ir.Call(tile_op(f"tile.{name}"), list(args), ret_ty=ir.PrimType(dtype.tvm), span=builder.span)
    return Var(builder.bind(name, call))


def _predicate(name: str, value: Any) -> ir.Expr:
    operand = unwrap(value)
    dtype = arith.dtype_of(operand)
    if not (dtype.is_integer or dtype.is_bool):
        raise OpDTypeError(f"T.{name} of {dtype}", remedy="give a bool or an integer")
    return arith.truth(operand)


def lane_mask(mask: Any) -> ir.Expr:
    """A mask of lanes as an expression."""
    return unwrap(mask, DType("uint32"))


def syncthreads_and(predicate: Any) -> Var:
    """A block barrier whose value is whether the predicate holds in every thread.

    Example:
        tx = T.get_thread_binding()
        assert T.syncthreads_and(tx < 32)
    """
    return exchange("syncthreads_and", DType("bool"), _predicate("syncthreads_and", predicate))


def syncthreads_or(predicate: Any) -> Var:
    """A block barrier whose value is whether the predicate holds in any thread.

    Example:
        tx = T.get_thread_binding()
        assert T.syncthreads_or(tx == 7)
    """
    return exchange("syncthreads_or", DType("bool"), _predicate("syncthreads_or", predicate))


def syncthreads_count(predicate: Any) -> Var:
    """A block barrier whose value is the number of threads in which the predicate holds, as int32.

    Example:
        tx = T.get_thread_binding()
        assert T.syncthreads_count(tx < 7) == 7
    """
    return exchange("syncthreads_count", DType("int32"), _predicate("syncthreads_count", predicate))


def _shuffle(name: str, value: Any, lane: Any, width: int, mask: Any) -> Var:
    (operand,) = common(value)
    if width not in _WIDTHS:
        raise OpArgumentError(f"T.{name}: width={width!r}", remedy=f"use one of {', '.join(map(str, _WIDTHS))}")
    int32 = DType("int32")
    return exchange(name, arith.dtype_of(operand), operand, unwrap(lane, int32), unwrap(width, int32), lane_mask(mask))


def shfl_sync(value: Any, srcLane: Any, width: int = 32, mask: int = 0xFFFFFFFF) -> Var:
    """The `value` of lane `srcLane` of each group of `width` lanes.

    Args:
        value: what every lane gives: a number of at most 64 bits.
        srcLane: the lane within the group, modulo `width`.
        width: 1, 2, 4, 8, 16, 32 or 64, at most the target's warp.
        mask: one bit for each lane that takes part; every lane of it must be here.

    Raises:
        OpArgumentError: another width.

    Example:
        tx = T.get_thread_binding()
        first = T.shfl_sync(X[tx], 0)
        assert first == 0.0
    """
    return _shuffle("shfl_sync", value, srcLane, width, mask)


def shfl_xor(value: Any, delta: Any, width: int = 32, mask: int = 0xFFFFFFFF) -> Var:
    """The `value` of the lane whose number differs by the bits of `delta`. Arguments and errors as `T.shfl_sync`.

    Example:
        tx = T.get_thread_binding()
        assert T.shfl_xor(tx, 1) == tx ^ 1
    """
    return _shuffle("shfl_xor", value, delta, width, mask)


def shfl_up(value: Any, delta: Any, width: int = 32, mask: int = 0xFFFFFFFF) -> Var:
    """The `value` of the lane `delta` below; the lowest lanes keep theirs. As `T.shfl_sync` else.

    Example:
        tx = T.get_thread_binding()
        assert T.shfl_up(tx, 4) == T.if_then_else(tx >= 4, tx - 4, tx)
    """
    return _shuffle("shfl_up", value, delta, width, mask)


def shfl_down(value: Any, delta: Any, width: int = 32, mask: int = 0xFFFFFFFF) -> Var:
    """The `value` of the lane `delta` above; the highest lanes keep theirs. As `T.shfl_sync` else.

    Example:
        tx = T.get_thread_binding()
        assert T.shfl_down(tx, 4) == T.if_then_else(tx < 28, tx + 4, tx)
    """
    return _shuffle("shfl_down", value, delta, width, mask)


def any_sync(predicate: Any, mask: int = 0xFFFFFFFF) -> Var:
    """Whether the predicate holds in any lane of `mask`.

    Example:
        tx = T.get_thread_binding()
        assert T.any_sync(tx == 5)
    """
    return exchange("any_sync", DType("bool"), _predicate("any_sync", predicate), lane_mask(mask))


def all_sync(predicate: Any, mask: int = 0xFFFFFFFF) -> Var:
    """Whether the predicate holds in every lane of `mask`.

    Example:
        tx = T.get_thread_binding()
        assert T.all_sync(tx < 32)
    """
    return exchange("all_sync", DType("bool"), _predicate("all_sync", predicate), lane_mask(mask))


def ballot_sync(predicate: Any, mask: int = 0xFFFFFFFF) -> Var:
    """One bit for each lane of `mask` in which the predicate holds, as uint64.

    Example:
        tx = T.get_thread_binding()
        assert T.popcount(T.ballot_sync(tx < 5)) == 5
    """
    return exchange("ballot_sync", DType("uint64"), _predicate("ballot_sync", predicate), lane_mask(mask))


def ballot(predicate: Any) -> Var:
    """`T.ballot_sync` with all lanes.

    Example:
        tx = T.get_thread_binding()
        assert T.popcount(T.ballot(tx < 5)) == 5
    """
    return ballot_sync(predicate, FULL_MASK)


def activemask() -> Var:
    """One bit for each lane that runs this statement, as uint64.

    Example:
        assert T.activemask() == 0xFFFFFFFF
    """
    return exchange("activemask", DType("uint64"))


def _warp_reduce(kind: str, value: Any) -> Var:
    (operand,) = common(value)
    return exchange(f"warp_reduce_{kind}", arith.dtype_of(operand), operand)


def _warp_reduce_bits(kind: str, value: Any) -> Var:
    require(f"warp_reduce_{kind}", value, lambda dtype: dtype.is_integer or dtype.is_bool, "an integer")
    return _warp_reduce(kind, value)


def warp_reduce_sum(value: Any) -> Var:
    """The sum of `value` over the warp, in every lane, as a tree: lanes 16 apart are added first, neighbours last.

    Example:
        tx = T.get_thread_binding()
        assert T.warp_reduce_sum(tx) == 496
    """
    return _warp_reduce("sum", value)


def warp_reduce_max(value: Any) -> Var:
    """The maximum of `value` over the warp, in every lane.

    Example:
        tx = T.get_thread_binding()
        assert T.warp_reduce_max(tx) == 31
    """
    return _warp_reduce("max", value)


def warp_reduce_min(value: Any) -> Var:
    """The minimum of `value` over the warp, in every lane.

    Example:
        tx = T.get_thread_binding()
        assert T.warp_reduce_min(tx) == 0
    """
    return _warp_reduce("min", value)


def warp_reduce_bitand(value: Any) -> Var:
    """The bitwise and of an integer over the warp, in every lane.

    Example:
        tx = T.get_thread_binding()
        assert T.warp_reduce_bitand(tx) == 0
    """
    return _warp_reduce_bits("bitand", value)


def warp_reduce_bitor(value: Any) -> Var:
    """The bitwise or of an integer over the warp, in every lane.

    Example:
        tx = T.get_thread_binding()
        assert T.warp_reduce_bitor(tx) == 31
    """
    return _warp_reduce_bits("bitor", value)


def ptx_commit_group() -> None:
    """Close a group of the asynchronous copies issued so far.

    Example:
        T.async_copy(A[0, 0], tile)
        T.ptx_commit_group()
        T.ptx_wait_group(0)
    """
    emit("tile.commit_group", {})


def ptx_wait_group(num: int) -> None:
    """Wait until at most `num` groups of asynchronous copies are unfinished.

    Example:
        T.async_copy(A[0, 0], tile)
        T.ptx_commit_group()
        T.ptx_wait_group(0)  # `tile` is there
    """
    emit("tile.wait_group", {}, **attributes(None, count=num))
