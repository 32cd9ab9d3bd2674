"""Copies between a tensor and a tile that a copy engine of an AI core can make: a box of some rows.

An engine moves bytes, so both sides have one dtype. Rows begin at multiples of 32 bytes of the unified buffer, and are
multiples of 32 bytes long: an engine fills the rest of a block of 32 bytes with anything. (CANN, C API,
`asc_copy_gm2ub_align` and `asc_copy_ub2gm_align` for architecture 3510; that the strides go from the beginning of a row
to that of the next is the code of its implementation, `copy_gm_to_ubuf_align_v2`.)
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions
from tile_core.ir.ops import tile_op
from tile_core.ops.base import OpCall
from tile_core.ops.build import Tile
from tile_core.ops.copy import is_by_threads
from tile_core.ops.rules import significant
from tile_core.ops.threads import THREAD_PREFIX
from tile_core.passes.accesses import strides
from tile_core.passes.insert_barriers import ACCESS

ENGINE_COPY = f"{THREAD_PREFIX}engine_copy"
"""A copy by an engine: the addresses of its first elements, tile and tensor. See `EngineCopy` for its attributes."""
BLOCK_BYTES = 32
MOST_ROWS, MOST_BYTES = 4095, 2097151


@dataclass(frozen=True)
class EngineCopy:
    """`rows` rows of `row_bytes` bytes; the strides are bytes from one row to the next.

    `loads`: from the tensor to the tile.
    """

    call: OpCall
    tile: Tile
    tensor: Tile
    loads: bool
    rows: int
    row_bytes: int
    tile_stride: int
    tensor_stride: int

    def inside(self) -> list[ir.Expr]:
        """What must hold for the copied box to lie within the tensor."""
        return inside(self.tensor)

    def to_stmt(self) -> S.Stmt:
        """The call that stands for it."""
        attrs = {
            "loads": int(self.loads),
            "rows": self.rows,
            "row_bytes": self.row_bytes,
            "tile_stride": self.tile_stride,
            "tensor_stride": self.tensor_stride,
            ACCESS: "rw",
        }
        addresses = [_address(self.tile), _address(self.tensor)]
        made = ir.Call(tile_op(ENGINE_COPY), addresses, attrs=attrs, ret_ty="void", span=self.call.span)
        return S.Evaluate(made, self.call.span)


def inside(tensor: Tile) -> list[ir.Expr]:
    """What must hold for a region to lie within its tensor."""
    found: list[ir.Expr] = []
    for axis, extent in zip(tensor.region.region, tensor.buffer.shape, strict=True):
        start, end = axis.min, axis.min + axis.extent
        found.append(E.LE(E.IntImm(start.ty, 0), start))
        wide = extent if str(extent.ty.dtype) == str(end.ty.dtype) else extent.astype(str(end.ty.dtype))
        found.append(E.LE(end, wide))
    return found


def box(tensor: Tile, tile: Tile) -> tuple[int, int, int] | None:
    """Elements from a row of a tensor's region to the next, rows and columns, for a tile of two axes."""
    axes = [list(significant(side.extents)) for side in (tensor, tile)]
    extents = [
        [regions.constant(side.extents[axis]) for axis in found]
        for side, found in zip((tensor, tile), axes, strict=True)
    ]
    if [len(found) for found in axes] != [2, 2] or extents[0] != extents[1] or None in extents[0]:
        return None
    steps = [regions.constant(step) for step in strides(tensor.buffer)]
    stride, unit = (steps[axis] for axis in axes[0])
    if stride is None or unit != 1:
        return None
    return stride, extents[0][0] or 0, extents[0][1] or 0


def engine_copy(call: OpCall) -> EngineCopy | None:
    """`call`, a `tile.copy`, as an engine makes it; `None` where none can, or it would convert."""
    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    loads = src.scope == regions.GLOBAL
    tensor, tile = (src, dst) if loads else (dst, src)
    if is_by_threads(call) or tensor.scope != regions.GLOBAL or tile.scope not in regions.SHARED:
        return None
    if str(src.buffer.dtype) != str(dst.buffer.dtype) or int(src.buffer.dtype.bits) < 8:
        return None
    axes = _axes(tensor, tile)
    if axes is None:
        return None
    itemsize = int(tile.buffer.dtype.bits) // 8
    (rows, tensor_stride, tile_stride), row = axes
    row_bytes, tensor_stride, tile_stride = row * itemsize, tensor_stride * itemsize, tile_stride * itemsize
    start = _constant_start(tile)
    fits = rows <= MOST_ROWS and 0 < row_bytes <= MOST_BYTES and start is not None
    if not fits or any(count % BLOCK_BYTES for count in (row_bytes, tile_stride, (start or 0) * itemsize)):
        return None
    return EngineCopy(call, tile, tensor, loads, rows, row_bytes, tile_stride, tensor_stride)


def _axes(tensor: Tile, tile: Tile) -> tuple[tuple[int, int, int], int] | None:
    """Rows with their strides in elements, tensor and tile, and the elements of a row."""
    sides = [list(significant(side.extents)) for side in (tensor, tile)]
    steps = [[regions.constant(step) for step in strides(side.buffer)] for side in (tensor, tile)]
    if len(sides[0]) != len(sides[1]):
        return None
    merged: list[tuple[int, int, int]] = []
    for tensor_axis, tile_axis in zip(*sides, strict=True):
        extent = regions.constant(tensor.extents[tensor_axis])
        step, other = steps[0][tensor_axis], steps[1][tile_axis]
        if extent is None or extent != regions.constant(tile.extents[tile_axis]) or step is None or other is None:
            return None
        if merged and merged[-1][1:] == (extent * step, extent * other):
            extent *= merged.pop()[0]
        merged.append((extent, step, other))
    if not merged or merged[-1][1:] != (1, 1) or len(merged) > 2:
        return None
    return (merged[0] if len(merged) == 2 else (1, 0, 0)), merged[-1][0]


def _constant_start(tile: Tile) -> int | None:
    """The flat element at which a region of a tile begins."""
    starts = [regions.constant(axis.min) for axis in tile.region.region]
    steps = [regions.constant(step) for step in strides(tile.buffer)]
    if None in starts or None in steps:
        return None
    return sum(
        start * step for start, step in zip(starts, steps, strict=True) if start is not None and step is not None
    )


def _address(tile: Tile) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(tile.buffer, [axis.min for axis in tile.region.region]))


def bytes_of_tile(call: ir.Call) -> int:
    """The bytes of the tile from the first that a copy touches to the last."""
    attrs = call.attrs
    return int(attrs["tile_stride"]) * (int(attrs["rows"]) - 1) + int(attrs["row_bytes"])
