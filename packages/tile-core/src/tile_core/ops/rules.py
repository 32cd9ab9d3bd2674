"""Shape and bounds rules shared by ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvm import ir

from tile_core.errors.ops import OperandOverlapError, RegionBoundsError
from tile_core.ir.regions import GLOBAL, constant
from tile_core.ops.base import OpCall
from tile_core.ops.build import Tile, same, shape_text, simplify


def inside(call: OpCall, *tiles: Tile, also_global: bool = False) -> None:
    """Refuse regions with constant bounds outside their buffer.

    `global` regions may reach beyond their tensor, since reads there give the safe value and writes are skipped, unless
    `also_global`.

    Raises `RegionBoundsError`.
    """
    for tile in tiles:
        if tile.scope == GLOBAL and not also_global:
            continue
        for axis, (start, extent) in enumerate(zip(tile.starts, tile.extents, strict=True)):
            low, high = constant(simplify(start)), constant(simplify(start + extent))
            size = constant(tile.buffer.shape[axis])
            if (low is not None and low < 0) or (high is not None and size is not None and high > size):
                raise RegionBoundsError(
                    f"{call.op.name.removeprefix('tile.')}: {tile} is outside {tile.name}, whose shape is "
                    f"{shape_text(tile.buffer.shape)}: axis {axis} ends at {high}",
                    remedy="make the region end at the buffer's end, or allocate a larger tile",
                    span=call.source_span,
                )


def without(items: Sequence[ir.Expr], axis: int) -> list[ir.Expr]:
    """`items` without the one at `axis`."""
    return [item for position, item in enumerate(items) if position != axis]


def equal_shapes(a: Sequence[ir.Expr], b: Sequence[ir.Expr]) -> bool:
    """Whether two lists of extents agree, as far as can be proven."""
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def apart(call: OpCall, dst: Tile, *sources: Tile) -> None:
    """Refuse a destination that may share elements with a source. Raises `OperandOverlapError`."""
    for src in sources:
        if src.buffer.same_as(dst.buffer) and not provably_disjoint(src, dst):
            raise OperandOverlapError(
                f"{call.op.name.removeprefix('tile.')}: the destination {dst} may overlap the source {src}",
                remedy="write the result into a tile of its own",
                span=call.source_span,
            )


def provably_disjoint(a: Tile, b: Tile) -> bool:
    """Whether two regions of one buffer share no element."""
    return any(_apart(a, b, axis) or _apart(b, a, axis) for axis in range(a.rank))


def _apart(a: Tile, b: Tile, axis: int) -> bool:
    gap = constant(simplify(b.starts[axis] - a.starts[axis] - a.extents[axis]))
    return gap is not None and gap >= 0


def identical(a: Tile, b: Tile) -> bool:
    """Whether two regions of one buffer are the same elements in the same order."""
    return equal_shapes(a.starts, b.starts) and equal_shapes(a.extents, b.extents)


def significant(extents: Sequence[ir.Expr]) -> Iterator[int]:
    """The axes whose extent is not the constant 1."""
    return (axis for axis, extent in enumerate(extents) if constant(extent) != 1)
