"""`tile.fill`: set every element of a region to one value, converted to the buffer's dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm.tirx import stmt as S

from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Tile, dtype_of, parallel
from tile_core.ops.numerics import convert
from tile_core.ops.rules import inside

if TYPE_CHECKING:
    import numpy as np


def check(call: OpCall) -> None:
    """A constant region must be inside its buffer, also in `global` memory."""
    inside(call, Tile(call.region("dst")), also_global=True)


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """`dst[...] = value`."""
    value, dst = call.args["value"], Tile(call.region("dst"))
    operands["dst"][...] = convert(operands["value"], dtype_of(value), dst.dtype)


def lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    """A `PARALLEL` nest of stores."""
    dst = Tile(call.region("dst"))
    return parallel(dst.extents, lambda index: dst.store(call.args["value"], index, call.span), call.span)


FILL = TileOp(
    name="tile.fill",
    operands=(Operand("dst", "w"), Operand("value", "value")),
    check=check,
    reference=reference,
    lower=lower,
)
