"""A tile and a part of a tensor as boxes of the tensor copy engine.

A box is a rectangle of the tensor that lies in shared memory row by row. A tile in swizzled order is one box a strip;
one with more rows than a box may have is several, one below the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvm import ir, tirx

from tile_core.errors.ops import OpArgumentError
from tile_core.ir import regions
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant
from tile_core.ir.spans import from_tvm
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops.asynchronous import itemsize
from tile_core.passes.accesses import strides
from tile_cuda.instructions.tensor_map import ALIGNMENT, LARGEST_BOX, MOST_AXES, tensor_map
from tile_cuda.passes.tensor_copies import MOST_INDICES, address


@dataclass(frozen=True)
class Boxes:
    """The boxes of one copy: all of one shape, innermost axis first; where each is in the tile and in the tensor."""

    tensor: ir.Var
    tile: ir.Var
    box: tuple[int, ...]
    swizzle: int
    places: tuple[tuple[tuple[ir.Expr, ...], tuple[ir.Expr, ...]], ...]

    @property
    def bytes(self) -> int:
        """Bytes that all of them move, those outside of the tensor included."""
        return prod(self.box) * itemsize(self.tensor) * len(self.places)

    def map(self) -> ir.Expr:
        """The description of the tensor."""
        size = tirx.IntImm("int64", itemsize(self.tensor))
        outer = list(reversed(strides(self.tensor)))[1:]
        return tensor_map(
            address(self.tensor),
            [extent.astype("int64") for extent in reversed(list(self.tensor.shape))],
            [stride.astype("int64") * size for stride in outer],
            dtype=str(self.tensor.dtype),
            box=self.box,
            swizzle=self.swizzle,
        )


def boxes(tensor: ir.TensorRegion, tile: ir.TensorRegion, order: SwizzledTile | None, span: ir.Span | None) -> Boxes:
    """The boxes between a region of a tensor and one of shared memory, whose tile is in `order`.

    Raises:
        OpArgumentError: the engine does not move such a region.
    """
    extents = [constant(axis.extent) for axis in tensor.region]
    rows, lead = _tile_axes(tile, span)
    walked = [axis for axis, extent in enumerate(extents) if extent != 1]
    inner = len(extents) - 1
    size = itemsize(tensor.source)
    if None in extents or len(extents) > MOST_AXES or constant(list(strides(tensor.source))[-1]) != 1:
        raise _refusal(tensor, f"it takes constant extents and 1 to {MOST_AXES} axes, the last without stride", span)
    if not walked or walked[-1] != inner:
        raise _refusal(tensor, "it moves rows of several elements", span)
    if any((constant(extent) or 0) > MOST_INDICES for extent in tensor.source.shape):
        raise _refusal(tensor, f"an axis has at most {MOST_INDICES} indices", span)
    if _is_between_units(tensor.region[inner].min, size):
        raise _refusal(tensor, f"a row of it begins at a multiple of {ALIGNMENT} bytes, wherever it is", span)
    strip = rows[-1] if order is None else order.strip
    if strip > LARGEST_BOX or strip * size % ALIGNMENT:
        raise _refusal(tensor, f"rows are multiples of 16 bytes of at most {LARGEST_BOX} elements", span)
    edges = [1 if extent is None else extent for extent in extents]
    edges[inner] = strip
    outermost = walked[0]
    below = next(edge for edge in range(min(edges[outermost], LARGEST_BOX), 0, -1) if edges[outermost] % edge == 0)
    if outermost == inner:
        below = edges[outermost]
    if any(edge > LARGEST_BOX for axis, edge in enumerate(edges) if axis != outermost):
        raise _refusal(tensor, f"an edge has at most {LARGEST_BOX} elements", span)
    full = edges[outermost]
    edges[outermost] = below
    places = [
        _place(tensor, lead, len(rows), (outermost, row), (inner, column))
        for column in range(0, rows[-1], strip)
        for row in (range(0, full, below) if outermost != inner else [0])
    ]
    swizzle = 0 if order is None else order.span
    return Boxes(tensor.source, tile.source, tuple(reversed(edges)), swizzle, tuple(places))


def _is_between_units(start: ir.Expr, size: int) -> bool:
    """Whether an index of elements of `size` bytes is known to be no multiple of 16 bytes."""
    found = Analyzer().modular_set(start)
    return int(found.coeff) * size % ALIGNMENT == 0 and int(found.base) * size % ALIGNMENT != 0


def _tile_axes(tile: ir.TensorRegion, span: ir.Span | None) -> tuple[list[int], list[ir.Expr]]:
    """The extents of the axes that are moved whole, and the starts of those before them, of which one index is."""
    extents = [constant(extent) for extent in tile.source.shape]
    lead = []
    axes = list(zip(tile.region, extents, strict=True))
    while axes and constant(axes[0][0].extent) == 1:
        lead.append(axes.pop(0)[0].min)
    for axis, extent in axes:
        if extent is None or constant(axis.min) != 0 or constant(axis.extent) != extent:
            raise _refusal(tile, "of a shared tile it moves the last axes whole", span)
    return [extent for _axis, extent in axes if extent is not None] or [1], lead


def _place(
    tensor: ir.TensorRegion, lead: list[ir.Expr], moved: int, row: tuple[int, int], column: tuple[int, int]
) -> tuple[tuple[ir.Expr, ...], tuple[ir.Expr, ...]]:
    zeros = [tirx.IntImm("int32", 0) for _axis in range(moved)]
    if moved > 1:
        zeros[0] = tirx.IntImm("int32", row[1])
    zeros[-1] = tirx.IntImm("int32", column[1])
    starts = [axis.min for axis in tensor.region]
    for axis, shift in {row, column} if row[0] != column[0] else {column}:
        starts[axis] = starts[axis] + shift
    at = [start if str(start.ty.dtype) == "int32" else start.astype("int32") for start in reversed(starts)]
    return (*lead, *zeros), tuple(at)


def _refusal(region: ir.TensorRegion, why: str, span: ir.Span | None) -> OpArgumentError:
    shape = ", ".join(str(axis.extent) for axis in region.region)
    where = "shared memory" if regions.scope(region.source) in regions.SHARED else "a tensor"
    return OpArgumentError(
        f"the tensor copy engine does not move the region ({shape}) of {region.source.name} in {where}: {why}",
        remedy="use T.copy, or a tile that the engine moves",
        span=from_tvm(span),
    )
