"""Barriers, copies by the tensor copy engine and roles of warpgroups, written by hand.

    full = T.alloc_barrier(128)
    with T.ws(0):
        T.tma_copy(A[0:64, 0:64], A_shared, barrier=full)
        T.barrier_arrive(full)
    with T.ws(1):
        T.barrier_wait(full, 0)
        T.copy(A_shared, B)

A name of TileLang's that means the same as another is the same function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from tvm import ir, tirx

from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.builder import Frame, current_builder
from tile_core.frontend.values import Buffer, Element, Region, unwrap
from tile_core.ir import regions, thread_groups
from tile_core.language._operands import buffer_of, emit, pair, region
from tile_core.language._scalars import common
from tile_core.language.allocate import barriers
from tile_core.language.kernel import KernelLaunchFrame
from tile_core.ops.asynchronous import BARRIER, CLUSTER_BARRIER, FEWEST_REGISTERS, MOST_REGISTERS, REGISTER_STEP
from tile_cuda.instructions.mbarrier import fence_barrier_init
from tile_cuda.language._instructions import issue

__all__ = [
    "WarpSpecialize",
    "WarpSpecializeFrame",
    "alloc_cluster_barrier",
    "annotate_consumer_reg_alloc",
    "annotate_producer_reg_dealloc",
    "barrier_arrive",
    "barrier_wait",
    "cp_async_barrier_noinc",
    "dec_max_nreg",
    "disable_warp_group_reg_alloc",
    "fence_proxy_async",
    "inc_max_nreg",
    "mbarrier_arrive",
    "mbarrier_arrive_expect_tx",
    "mbarrier_expect_tx",
    "mbarrier_wait_parity",
    "no_set_max_nreg",
    "ptx_arrive_cluster_barrier",
    "ptx_fence_barrier_init",
    "set_max_nreg",
    "tma_copy",
    "tma_store_arrive",
    "tma_store_wait",
    "ws",
]

WARPGROUP = 128
Barrier = Buffer | Element | Region
"""A barrier: an element of `T.alloc_barrier`, or the whole of one with a single count."""


def _barrier(value: Barrier, what: str) -> Any:
    buffer = buffer_of(value, f"{what}: mbarrier")
    if regions.scope(buffer.ir) not in (BARRIER, CLUSTER_BARRIER):
        raise OpArgumentError(
            f"{what}: {buffer.name} is no barrier", remedy="allocate it with T.alloc_barrier(arrivals)"
        )
    return region(value, f"{what}: mbarrier")


def _number(value: Any, what: str) -> ir.Expr:
    """An int, an expression, a variable or an element, as int32."""
    (operand,) = common(value)
    dtype = arith.dtype_of(operand)
    if not dtype.is_integer or dtype.lanes != 1:
        raise OpDTypeError(f"{what} of {dtype}", remedy="give an int, or an integer expression")
    number: ir.Expr = unwrap(operand)
    return number if str(number.ty.dtype) == "int32" else tirx.Cast("int32", number)


def alloc_cluster_barrier(arrive_count: int | Sequence[int]) -> Buffer:
    """`T.alloc_barrier` for barriers at which other blocks of the cluster arrive, too.

    The cluster meets before its blocks begin and before they end, so that no arrival comes too early or too late.

    Raises:
        AllocationError: as `T.alloc_barrier`.
    """
    return barriers(arrive_count, CLUSTER_BARRIER)


def ptx_arrive_cluster_barrier(mbarrier: Barrier, cta_id: Any) -> None:
    """`T.mbarrier_arrive(mbarrier, cta_id)`."""
    mbarrier_arrive(mbarrier, cta_id)


def mbarrier_arrive(mbarrier: Barrier, cta_id: Any = None) -> None:
    """Every thread that comes here arrives once at `mbarrier`, with `cta_id` at that of this block of the cluster.

    Raises:
        OpArgumentError: no barrier, or `cta_id` for one that is not made by `T.alloc_cluster_barrier`.

    Example:
        T.mbarrier_arrive(full[0])
    """
    place = _barrier(mbarrier, "mbarrier_arrive")
    if cta_id is None:
        emit("tile.barrier_arrive", {"barrier": place})
    else:
        emit("tile.barrier_arrive_at", {"barrier": place, "block": _number(cta_id, "mbarrier_arrive: cta_id")})


def barrier_arrive(mbarrier: Barrier) -> None:
    """Every thread that comes here arrives once at `mbarrier`. Raises as `T.mbarrier_arrive`."""
    mbarrier_arrive(mbarrier)


def mbarrier_expect_tx(mbarrier: Barrier, tx: Any) -> None:
    """Every thread that comes here announces `tx` bytes more for the running phase of `mbarrier`, without arriving."""
    place = _barrier(mbarrier, "mbarrier_expect_tx")
    emit("tile.barrier_expect", {"barrier": place, "count": _number(tx, "mbarrier_expect_tx: tx")})


def mbarrier_arrive_expect_tx(mbarrier: Barrier, tx: Any) -> None:
    """`T.mbarrier_expect_tx`, then `T.mbarrier_arrive`."""
    mbarrier_expect_tx(mbarrier, tx)
    mbarrier_arrive(mbarrier)


def mbarrier_wait_parity(mbarrier: Barrier, parity: Any) -> None:
    """Wait until the phase of `parity` (0 or 1) of `mbarrier` is over: of a new barrier, that of 1 is.

    Raises:
        OpArgumentError: no barrier. OpDTypeError: a parity that is no integer.

    Example:
        T.mbarrier_wait_parity(full[k % 3], k // 3 % 2)
    """
    place = _barrier(mbarrier, "mbarrier_wait_parity")
    emit("tile.barrier_wait", {"barrier": place, "parity": _number(parity, "mbarrier_wait_parity: parity")})


def barrier_wait(mbarrier: Barrier, parity: Any) -> None:
    """Wait until the phase of `parity` is over. As `T.mbarrier_wait_parity`."""
    mbarrier_wait_parity(mbarrier, parity)


def cp_async_barrier_noinc(barrier: Barrier) -> None:
    """Every thread that comes here arrives at `barrier` when its `T.async_copy` so far have landed."""
    emit("tile.barrier_arrive_copies", {"barrier": _barrier(barrier, "cp_async_barrier_noinc")})


def tma_copy(
    src: Any,
    dst: Any,
    *,
    barrier: Barrier | None = None,
    cluster_mask: int | None = None,
    leader_scope_threads: int | None = None,
    eviction_policy: str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Copy a tile between a tensor and shared memory by the tensor copy engine, without waiting for it.

    A load announces its bytes to `barrier` and signals them there when they have landed; the announcement is no
    arrival. A store is a group of its own, for `T.tma_store_wait`; what the block has written to `src` is seen by it.
    What is outside of the tensor reads as zeros and is not stored.

    Args:
        src, dst: a tensor and a shared tile, in one of the two orders: buffers, regions, or where a region starts.
        barrier: of a load.
        cluster_mask: a load by one block for all blocks of the cluster whose bits are set, to the same place and
            barrier of each; blocks without a bit load for themselves.
        leader_scope_threads: 128 within `T.ws`, or the block; one thread of these issues the copy.

    Raises:
        OpArgumentError, OpDTypeError, CopyShapeError: sides that it does not move, or a load without a barrier.
        DescriptorError: when the kernel is called with a tensor whose address or strides are no multiples of 16 bytes.
    """
    if eviction_policy is not None:
        raise OpArgumentError("tma_copy: eviction_policy is not implemented", remedy="leave it out")
    if cluster_mask is not None and not (isinstance(cluster_mask, int) and 0 < cluster_mask < 1 << 16):
        raise OpArgumentError(
            f"tma_copy: cluster_mask={cluster_mask!r}", remedy="give a bit for each block, at least one"
        )
    if leader_scope_threads is not None and (leader_scope_threads <= 0 or leader_scope_threads % 32):
        raise OpArgumentError(f"tma_copy: leader_scope_threads={leader_scope_threads}", remedy="give a multiple of 32")
    if annotations:
        raise OpArgumentError(f"tma_copy: annotations={dict(annotations)!r}", remedy="leave them out")
    source, target = pair(src, dst, "tma_copy")
    operands: dict[str, Any] = {"src": source, "dst": target}
    if regions.scope(source.source) in regions.SHARED:
        if barrier is not None or cluster_mask is not None:
            raise OpArgumentError(
                "tma_copy: a store has no barrier and no cluster_mask", remedy="wait for it with T.tma_store_wait()"
            )
        emit("tile.bulk_store", operands)
        return
    if barrier is None:
        raise OpArgumentError("tma_copy: a load without a barrier", remedy="give barrier=, and wait for its phase")
    mask = {} if cluster_mask is None else {"mask": cluster_mask}
    emit("tile.bulk_load", {**operands, "barrier": _barrier(barrier, "tma_copy")}, **mask)


def tma_store_arrive() -> None:
    """The stores of this thread since the last one are a group. `T.tma_copy` already makes one of each store."""
    emit("tile.bulk_commit", {})


def tma_store_wait(count: int = 0, read: bool = True) -> None:
    """Wait until all but the last `count` stores are done with reading their tiles; with `read=False`, with writing.

    Raises:
        OpArgumentError: a negative count.
    """
    emit("tile.bulk_wait", {}, pending=count, read=int(read))


def fence_proxy_async() -> None:
    """What this thread has written to shared memory is seen by copies and matrix instructions issued after it."""
    emit("tile.async_fence", {})


def ptx_fence_barrier_init() -> None:
    """Barriers that this thread has initialised are known to copies and to the cluster.

    Those of `T.alloc_barrier` are so from the beginning; this is for barriers that a `T.call_extern` initialises.
    """
    issue(fence_barrier_init(), "")


def set_max_nreg(reg_count: int, is_inc: int) -> None:
    """Every thread of this warpgroup has `reg_count` registers from here on: more where `is_inc`, else fewer.

    Raises:
        OpArgumentError: not a multiple of 8 from 24 to 256.
    """
    emit("tile.set_registers", {}, count=reg_count, increase=int(bool(is_inc)))


def inc_max_nreg(reg_count: int) -> None:
    """`T.set_max_nreg(reg_count, 1)`."""
    set_max_nreg(reg_count, 1)


def dec_max_nreg(reg_count: int) -> None:
    """`T.set_max_nreg(reg_count, 0)`."""
    set_max_nreg(reg_count, 0)


def no_set_max_nreg() -> None:
    """The compiler does not move registers between warpgroups of this kernel either."""
    current_builder().attributes["tile.keep_registers"] = 1


disable_warp_group_reg_alloc = no_set_max_nreg
"""As `T.no_set_max_nreg`."""


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """Registers of each thread that computes, where the compiler gives a block of 256 a warpgroup that copies.

    A wish: results never depend on it. A copying thread and two others have at most 504 together; the number that is
    not given follows from the other.

    Raises:
        OpArgumentError: not a multiple of 8 from 24 to 256. AnnotationError: when compiled, more than 504.
    """
    _annotate_registers("consumer", reg_count)


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """Registers of each thread that copies, as `T.annotate_consumer_reg_alloc`."""
    _annotate_registers("producer", reg_count)


def _annotate_registers(role: str, count: int) -> None:
    if count not in range(FEWEST_REGISTERS, MOST_REGISTERS + 1, REGISTER_STEP):
        raise OpArgumentError(
            f"{count!r} registers of a {role}",
            remedy=f"give a multiple of {REGISTER_STEP} from {FEWEST_REGISTERS} to {MOST_REGISTERS}",
        )
    current_builder().attributes[f"tile.{role}_registers"] = count


class WarpSpecializeFrame:
    """The region of some warpgroups, a context manager."""

    tile_opened_by = "with"

    def __init__(self, group: thread_groups.ThreadGroup) -> None:
        self.group = group
        self._stack = contextlib.ExitStack()
        self._frame: Frame | None = None

    def __str__(self) -> str:
        return "T.ws"

    def __enter__(self) -> None:
        self._frame = self._stack.enter_context(current_builder().frame(device=True))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        builder = current_builder()
        self._stack.__exit__(kind, error, trace)
        if error is None:
            assert self._frame is not None
            builder.emit(thread_groups.region(self.group, self._frame.body(builder.span)))


def ws(*warp_group_idx: int) -> WarpSpecializeFrame:
    """The region that only warpgroups of 128 threads with these numbers run: `with T.ws(0): ...`.

    Tiles and loops inside are divided among their threads; barriers that the compiler places are of them only. What
    warpgroups tell each other goes through `T.alloc_barrier`.

    Raises:
        OpArgumentError: no numbers, numbers that are no neighbours, or that the block does not have.
    """
    kernel: KernelLaunchFrame | None = current_builder().kernel
    numbers = sorted(warp_group_idx)
    if not numbers or not all(isinstance(number, int) for number in numbers):
        raise OpArgumentError(f"ws{warp_group_idx!r}", remedy="give the numbers of warpgroups: T.ws(0)")
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise OpArgumentError(f"ws{warp_group_idx!r}: these are no neighbours", remedy="open a region for each")
    threads = 0 if kernel is None else kernel.thread_extents[0]
    if kernel is None or kernel.thread_extents[1:] != (1, 1) or (numbers[-1] + 1) * WARPGROUP > threads:
        raise OpArgumentError(
            f"ws{warp_group_idx!r} in a block of {threads} threads",
            remedy="launch 128 threads a warpgroup: threads=256",
        )
    return WarpSpecializeFrame(thread_groups.ThreadGroup(numbers[0] * WARPGROUP, len(numbers) * WARPGROUP))


WarpSpecialize = ws
