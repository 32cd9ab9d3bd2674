"""Copies of a pipeline that the tensor memory accelerator can make.

Such a copy fills a whole shared tile from a box of a tensor, or a box from a tile: innermost axis to innermost axis, at
most five axes, no conversion, zeros beyond the tensor's ends. Nothing but copies of the pipeline writes the tile, and
nothing outside of the pipeline's loop touches it. A box begins at a multiple of 16 bytes in its row, also outside of
the tensor, and one that is stored begins at no negative index: anything else ends the kernel with an illegal
instruction. Source: PTX ISA, "Tensors"; CUDA driver API, `cuTensorMapEncodeTiled`; CUDA C++ Programming Guide, "Tensor
Memory Accelerator"; the rule on where rows begin was found on an H200 (docs/verified.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.launch import EVICTIONS
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.copy import is_by_threads, pads_with_zeros
from tile_core.passes.accesses import strides
from tile_cuda.instructions.tensor_map import tensor_map

MOST_AXES = 5
MOST_BOX = 256
UNIT_BYTES = 16
MOST_INDICES = 2**31
"""Coordinates are int32."""


@dataclass(frozen=True)
class TensorCopy:
    """One such copy, in either direction: `source` is the region of the tensor, `target` the tile.

    `axes` are the tensor's axes that the tile's rows and columns run along; `tile` is the tile's order. Each of
    `parts` blocks of a cluster loads one part of the tile for all of them: some strips, or some rows of every strip.
    `keep` is how long the second-level cache should keep what is loaded, one of `EVICTIONS`.
    """

    call: OpCall
    source: ir.TensorRegion
    target: ir.Var
    axes: tuple[int, int]
    rows: int
    columns: int
    tile: SwizzledTile | None
    parts: int = 1
    keep: str = EVICTIONS[0]

    @property
    def tensor(self) -> ir.Var:
        """The tensor."""
        return self.source.source

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return as_dtype(str(self.target.dtype)).bits // 8

    @property
    def bytes(self) -> int:
        """Bytes that one copy moves, those beyond the tensor included."""
        return self.rows * self.columns * self.itemsize

    @property
    def strip(self) -> int:
        """Columns that one instruction moves."""
        return self.columns if self.tile is None else self.tile.strip

    @property
    def strips(self) -> int:
        """Strips of the whole tile."""
        return self.columns // self.strip

    @property
    def is_cut_in_strips(self) -> bool:
        """Whether a part is some strips."""
        return self.strips % self.parts == 0

    @property
    def part_strips(self) -> int:
        """Strips that a part consists of, or goes through."""
        return self.strips // self.parts if self.is_cut_in_strips else self.strips

    @property
    def part_rows(self) -> int:
        """Rows of a part."""
        return self.rows if self.is_cut_in_strips else self.rows // self.parts

    @property
    def box(self) -> tuple[int, ...]:
        """Extents of the box, innermost first."""
        rank = len(self.source.region)
        extents = [1] * rank
        extents[self.axes[0]] = self.part_rows
        extents[self.axes[1]] = self.strip
        return tuple(reversed(extents))

    def map(self) -> ir.Expr:
        """The description of the tensor, made on the host."""
        buffer = self.source.source
        return tensor_map(
            address(buffer),
            [extent.astype("int64") for extent in reversed(list(buffer.shape))],
            self.byte_strides(),
            box=self.box,
            dtype=str(buffer.dtype),
            swizzle=0 if self.tile is None else self.tile.span,
        )

    def byte_strides(self) -> list[ir.Expr]:
        """Bytes between neighbours along each axis but the innermost, inner axes first."""
        outer = list(reversed(strides(self.source.source)))[1:]
        return [stride.astype("int64") * tirx.IntImm("int64", self.itemsize) for stride in outer]

    def coordinates(self, strip: ir.Expr | int, row: ir.Expr | int = 0) -> list[ir.Expr]:
        """Where the box of one strip, from `row` on, begins, innermost first."""
        starts = [axis.min for axis in self.source.region]
        starts[self.axes[0]] = starts[self.axes[0]] + row
        starts[self.axes[1]] = starts[self.axes[1]] + strip * self.strip
        return [start if str(start.ty.dtype) == "int32" else start.astype("int32") for start in reversed(starts)]


def address(buffer: ir.Var) -> ir.Expr:
    """The address of a buffer's first element, also of one without elements."""
    return buffer.data


def tensor_copy(stmt: S.Stmt, parameters: frozenset[ir.Var]) -> TensorCopy | None:
    """The copy that `stmt` is, its tile in row-major order; `None` for anything else."""
    if op_name(stmt) != "tile.copy":
        return None
    call = view(stmt, OPS)
    src, dst = call.region("src"), call.region("dst")
    if src.source not in parameters or regions.scope(dst.source) != regions.SHARED[0] or not regions.is_whole(dst):
        return None
    if str(src.source.dtype) != str(dst.source.dtype) or not pads_with_zeros(call):
        return None
    return _boxed(call, src, dst)


def _boxed(call: OpCall, tensor: ir.TensorRegion, tile: ir.TensorRegion) -> TensorCopy | None:
    itembits = as_dtype(str(tile.source.dtype)).bits
    shape = [regions.constant(axis.extent) for axis in tile.region]
    extents = [regions.constant(axis.extent) for axis in tensor.region]
    walked = [axis for axis, extent in enumerate(extents) if extent != 1]
    if is_by_threads(call) or len(shape) != 2 or len(walked) != 2 or len(extents) > MOST_AXES:
        return None
    if itembits not in (8, 16, 32):
        return None
    rows, columns = shape
    if [extents[axis] for axis in walked] != [rows, columns] or walked[1] != len(extents) - 1:
        return None
    if any((regions.constant(extent) or 0) > MOST_INDICES for extent in tensor.source.shape):
        return None
    inner = list(strides(tensor.source))[-1]
    if regions.constant(inner) != 1 or rows is None or columns is None or rows > MOST_BOX:
        return None
    return TensorCopy(call, tensor, tile.source, (walked[0], walked[1]), rows, columns, None)


def boxed_store(call: OpCall, tile: SwizzledTile, facts: Analyzer) -> TensorCopy | None:
    """The copy of a whole tile to a tensor whose strides are known multiples of 16 bytes; `None` for any other."""
    src, dst = call.region("src"), call.region("dst")
    copy = _boxed(call, dst, src)
    if copy is None or not begins_at_unit(copy, facts) or not _begins_inside(copy, facts):
        return None
    outer = [regions.constant(stride) for stride in list(strides(copy.tensor))[:-1]]
    known = all(stride is not None and stride * copy.itemsize % UNIT_BYTES == 0 for stride in outer)
    return replace(copy, tile=tile) if known else None


def begins_at_unit(copy: TensorCopy, facts: Analyzer) -> bool:
    """Whether the box is known to begin at a multiple of 16 bytes in its row."""
    found = facts.modular_set(copy.source.region[copy.axes[1]].min)
    return all(int(part) * copy.itemsize % UNIT_BYTES == 0 for part in (found.coeff, found.base))


def _begins_inside(copy: TensorCopy, facts: Analyzer) -> bool:
    """Whether no index at which the box begins is negative."""
    starts = [axis.min for axis in copy.source.region]
    return all(facts.can_prove(E.GE(start, E.IntImm(start.ty, 0))) for start in starts)


def fits(copy: TensorCopy) -> bool:
    """Whether the innermost box is one that the hardware takes."""
    inner = copy.strip * copy.itemsize
    return inner % UNIT_BYTES == 0 and copy.strip <= MOST_BOX


def never_fits(copy: TensorCopy) -> bool:
    """Whether a stride that is known already is none that a tensor map can say: the host would always refuse it."""
    known = (regions.constant(stride) for stride in list(strides(copy.tensor))[:-1])
    return any(stride is not None and stride * copy.itemsize % UNIT_BYTES for stride in known)


def touched(stmt: S.Stmt) -> frozenset[ir.Var]:
    """Every buffer that occurs under `stmt`."""
    found = {load.source for load in visit.collect(stmt, ir.TensorLoad)}
    found |= {store.buffer for store in visit.collect(stmt, S.BufferStore)}
    found |= {region.source for region in visit.collect(stmt, ir.TensorRegion)}
    return frozenset(found)
