"""Asynchrony written by hand: barriers with phases, copies that are waited for, roles of a block's threads.

A barrier counts arrivals and announced bytes. Its phases follow each other: the running one ends when all arrivals and
bytes are there, and the next begins at once. A wait names the parity of a phase, 0 or 1, and passes when that phase is
over, which the one of parity 1 is on a new barrier. Every thread that comes by arrives, or waits.

These ops have no portable lowering. A backend whose hardware has such barriers gives them one; the interpreter's
meaning is `interpreter/phases.py`, since a barrier is no array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tile_core.dtypes import DType
from tile_core.errors.ops import CopyShapeError, OpArgumentError, OpDTypeError
from tile_core.ir import regions
from tile_core.ir.regions import constant
from tile_core.ops.base import OpCall, Operand, TileOp

if TYPE_CHECKING:
    import numpy as np
    from tvm import ir

BARRIER = "shared.barrier"
"""The scope of barriers."""
CLUSTER_BARRIER = "shared.cluster_barrier"
"""The scope of barriers at which other blocks of the cluster arrive, too."""
ARRIVALS = "tile.arrive_count"
"""Annotation of their allocation: how many arrivals end a phase, for each."""
REGISTER_STEP, FEWEST_REGISTERS, MOST_REGISTERS = 8, 24, 256


def _check_barrier(call: OpCall) -> None:
    barrier = call.region("barrier")
    if regions.scope(barrier.source) not in (BARRIER, CLUSTER_BARRIER):
        raise OpArgumentError(
            f"{_name(call)}: {barrier.source.name} is no barrier", remedy="allocate it with T.alloc_barrier(arrivals)"
        )
    if any(constant(axis.extent) != 1 for axis in barrier.region):
        raise OpArgumentError(
            f"{_name(call)}: {barrier.source.name} holds several barriers",
            remedy=f"name one of them: {barrier.source.name}[i]",
        )


def _check_in_cluster(call: OpCall) -> None:
    _check_barrier(call)
    barrier = call.region("barrier").source
    if regions.scope(barrier) != CLUSTER_BARRIER:
        raise OpArgumentError(
            f"{_name(call)}: {barrier.name} is no barrier of the cluster",
            remedy="allocate it with T.alloc_cluster_barrier(arrivals)",
        )


def _check_load(call: OpCall) -> None:
    if "mask" in call.attrs:
        _check_in_cluster(call)
    _check_barrier(call)
    _check_sides(call, from_shared=False)


def _check_store(call: OpCall) -> None:
    _check_sides(call, from_shared=True)


def _check_send(call: OpCall) -> None:
    _check_in_cluster(call)
    src, dst = call.region("src"), call.region("dst")
    for region in (src, dst):
        if regions.scope(region.source) not in regions.SHARED:
            raise OpArgumentError(
                f"{_name(call)} of {region.source.name} in {regions.scope(region.source)} memory",
                remedy="it moves a shared tile to that of another block of the cluster",
            )
    _check_alike(call, src, dst)


def _check_sides(call: OpCall, *, from_shared: bool) -> None:
    src, dst = call.region("src"), call.region("dst")
    shared, tensor = (src, dst) if from_shared else (dst, src)
    if regions.scope(shared.source) not in regions.SHARED or regions.scope(tensor.source) != regions.GLOBAL:
        raise OpArgumentError(
            f"{_name(call)} from {regions.scope(src.source)} to {regions.scope(dst.source)} memory",
            remedy="it moves a tile between a tensor and shared memory; use T.copy elsewhere",
        )
    _check_alike(call, src, dst)


def _check_alike(call: OpCall, src: ir.TensorRegion, dst: ir.TensorRegion) -> None:
    if str(src.source.dtype) != str(dst.source.dtype):
        raise OpDTypeError(
            f"{_name(call)} from {src.source.dtype} to {dst.source.dtype}", remedy="it does not convert; use T.copy"
        )
    if _extents(src) != _extents(dst):
        raise CopyShapeError(
            f"{_name(call)}: a region of shape {_shape(src)} does not fit one of shape {_shape(dst)}",
            remedy="give both sides the same extents, apart from axes of extent 1",
        )


def _extents(region: ir.TensorRegion) -> list[int | None]:
    found = [constant(axis.extent) for axis in region.region]
    return [extent for extent in found if extent != 1]


def _shape(region: ir.TensorRegion) -> str:
    return f"({', '.join(str(axis.extent) for axis in region.region)})"


def _check_registers(call: OpCall) -> None:
    count = int(call.attrs["count"])
    if count % REGISTER_STEP or not FEWEST_REGISTERS <= count <= MOST_REGISTERS:
        raise OpArgumentError(
            f"{count} registers a thread",
            remedy=f"give a multiple of {REGISTER_STEP} from {FEWEST_REGISTERS} to {MOST_REGISTERS}",
        )


def _check_wait(call: OpCall) -> None:
    if int(call.attrs["pending"]) < 0:
        raise OpArgumentError(f"a wait for all but {int(call.attrs['pending'])} groups", remedy="give 0 or more")


def _check_nothing(_call: OpCall) -> None:
    """No operands, nothing to check."""


def _no_reference(_call: OpCall, _operands: Mapping[str, np.ndarray]) -> None:
    """The meaning is in `interpreter/phases.py`."""


def _name(call: OpCall) -> str:
    return call.op.name.removeprefix("tile.")


def itemsize(buffer: ir.Var) -> int:
    """Bytes of an element of a tile that such copies move."""
    return int(DType(str(buffer.dtype)).bits) // 8


_ONE = Operand("barrier", "rw")
BARRIER_ARRIVE = TileOp("tile.barrier_arrive", (_ONE,), _check_barrier, _no_reference)
BARRIER_ARRIVE_AT = TileOp(
    "tile.barrier_arrive_at", (_ONE, Operand("block", "value")), _check_in_cluster, _no_reference
)
BARRIER_EXPECT = TileOp("tile.barrier_expect", (_ONE, Operand("count", "value")), _check_barrier, _no_reference)
BARRIER_WAIT = TileOp("tile.barrier_wait", (_ONE, Operand("parity", "value")), _check_barrier, _no_reference)
BARRIER_ARRIVE_COPIES = TileOp("tile.barrier_arrive_copies", (_ONE,), _check_barrier, _no_reference)
BARRIER_ARRIVE_PRODUCTS = TileOp("tile.barrier_arrive_products", (_ONE,), _check_barrier, _no_reference)
"""One arrival when the products that are in flight, issued by the threads that come by, are done."""
BULK_LOAD = TileOp("tile.bulk_load", (Operand("src", "r"), Operand("dst", "w"), _ONE), _check_load, _no_reference)
BULK_STORE = TileOp("tile.bulk_store", (Operand("src", "r"), Operand("dst", "w")), _check_store, _no_reference)
BULK_SEND = TileOp(
    "tile.bulk_send",
    (Operand("src", "r"), Operand("dst", "w"), _ONE, Operand("block", "value")),
    _check_send,
    _no_reference,
)
"""From a shared tile to that of another block of the cluster, whose barrier gets an arrival and the bytes."""
BULK_COMMIT = TileOp("tile.bulk_commit", (), _check_nothing, _no_reference)
BULK_WAIT = TileOp("tile.bulk_wait", (), _check_wait, _no_reference)
ASYNC_FENCE = TileOp("tile.async_fence", (), _check_nothing, _no_reference)
SET_REGISTERS = TileOp("tile.set_registers", (), _check_registers, _no_reference)

ASYNCHRONOUS_OPS = (
    BARRIER_ARRIVE,
    BARRIER_ARRIVE_AT,
    BARRIER_EXPECT,
    BARRIER_WAIT,
    BARRIER_ARRIVE_COPIES,
    BARRIER_ARRIVE_PRODUCTS,
    BULK_LOAD,
    BULK_STORE,
    BULK_SEND,
    BULK_COMMIT,
    BULK_WAIT,
    ASYNC_FENCE,
    SET_REGISTERS,
)
