"""`tile.transpose`: swap the last two axes of a tile while moving it, converting each element like a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm.tirx import stmt as S

from tile_core.errors.ops import TransposeShapeError
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Tile, parallel, shape_text
from tile_core.ops.numerics import convert
from tile_core.ops.rules import equal_shapes, inside

if TYPE_CHECKING:
    import numpy as np


def check(call: OpCall) -> None:
    """At least two axes, swapped shapes, two buffers."""
    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    problem = ""
    if src.rank < 2:
        problem = f"{src} has {src.rank} axis; at least two are needed"
    elif not equal_shapes([*src.extents[:-2], src.extents[-1], src.extents[-2]], dst.extents):
        problem = f"{src} has shape {shape_text(src.extents)} and {dst} has shape {shape_text(dst.extents)}"
    elif src.buffer.same_as(dst.buffer):
        problem = f"source and destination are both {src.name}"
    if problem:
        raise TransposeShapeError(
            f"transpose: {problem}",
            remedy="allocate the destination with the source's last two axes swapped",
            span=call.source_span,
        )
    inside(call, src, dst)


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """`dst[..., j, i] = src[..., i, j]`."""
    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    operands["dst"][...] = convert(operands["src"].swapaxes(-1, -2), src.dtype, dst.dtype)


def lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    """A `PARALLEL` nest over the destination, so that stores are the contiguous side."""
    src, dst = Tile(call.region("src")), Tile(call.region("dst"))
    return parallel(
        dst.extents,
        lambda index: dst.store(src.load([*index[:-2], index[-1], index[-2]]), index, call.span),
        call.span,
    )


TRANSPOSE = TileOp(
    name="tile.transpose",
    operands=(Operand("src", "r"), Operand("dst", "w")),
    check=check,
    reference=reference,
    lower=lower,
)
