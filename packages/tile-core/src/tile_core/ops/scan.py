"""`tile.scan`: inclusive prefix sum or maximum along one axis of a tile of any rank.

Attributes: `kind` ("sum", "max"), `dim`, `reverse`. Accumulation as in `ops/reduce.py`, converted once per element;
`max` propagates NaN. Source and destination may be one region (in place) or different buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.errors.ops import ReduceKindError, ScanShapeError
from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Cell, Tile, cast, number, parallel, serial, shape_text
from tile_core.ops.numerics import convert
from tile_core.ops.reduce import KINDS, accumulation_dtype, axis_of
from tile_core.ops.rules import equal_shapes, identical, inside, provably_disjoint, without

if TYPE_CHECKING:
    import numpy as np

SCANS = {"sum": "cumsum", "max": "cummax"}


def check(call: OpCall) -> None:
    """Kind, axis, shape and overlap rules."""
    src, dst, kind, dim = Tile(call.region("src")), Tile(call.region("dst")), str(call.attrs["kind"]), call.attrs["dim"]
    if kind not in SCANS:
        raise ReduceKindError(f"scan: unknown kind {kind!r}", remedy="use sum or max", span=call.source_span)
    problem = ""
    if not -src.rank <= int(dim) < src.rank:
        problem = f"dim={dim} is out of range for {src}, which has {src.rank} axes"
    elif not equal_shapes(src.extents, dst.extents):
        problem = f"{src} has shape {shape_text(src.extents)} but {dst} has {shape_text(dst.extents)}"
    elif src.buffer.same_as(dst.buffer) and not identical(src, dst) and not provably_disjoint(src, dst):
        problem = f"{src} and {dst} overlap without being the same region"
    if problem:
        raise ScanShapeError(
            f"{SCANS[kind]}: {problem}",
            remedy="scan in place or into a tile of the same shape",
            span=call.source_span,
        )
    inside(call, src, dst)


def reference(call: OpCall, operands: Mapping[str, np.ndarray]) -> None:
    """The scan in numpy, in the accumulation dtype."""
    import numpy as np

    src, dst, kind = Tile(call.region("src")), Tile(call.region("dst")), KINDS[str(call.attrs["kind"])]
    dtype, axis = accumulation_dtype(kind, src.dtype, dst.dtype), axis_of(call)
    values = convert(operands["src"], src.dtype, dtype)
    if call.attrs.get("reverse", 0):
        values = np.flip(values, axis)
    with np.errstate(all="ignore"):
        scanned = getattr(np, kind.ufunc(True)).accumulate(values, axis=axis, dtype=dtype.numpy)
    if call.attrs.get("reverse", 0):
        scanned = np.flip(scanned, axis)
    operands["dst"][...] = convert(scanned, dtype, dst.dtype)


def lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    """`PARALLEL` over the other axes, one running value each, serial along the scanned axis."""
    src, dst, kind = Tile(call.region("src")), Tile(call.region("dst")), KINDS[str(call.attrs["kind"])]
    dtype, axis = accumulation_dtype(kind, src.dtype, dst.dtype), axis_of(call)
    extent, reverse = src.extents[axis], bool(call.attrs.get("reverse", 0))

    def line(index: list[ir.Expr]) -> S.Stmt:
        total = Cell.new("acc", dtype)

        def step(at: ir.Expr) -> S.Stmt:
            place = [*index[:axis], extent - 1 - at if reverse else at, *index[axis:]]
            value = kind.combine(total.get(), cast(src.load(place), dtype), True)
            return sequence([total.set(value, call.span), dst.store(total.get(), place, call.span)], call.span)

        start = total.set(number(kind.identity(dtype), dtype), call.span)
        return sequence([total.declare(call.span), start, serial(extent, step, span=call.span)], call.span)

    return parallel(without(src.extents, axis), line, call.span)


SCAN = TileOp(
    name="tile.scan",
    operands=(Operand("src", "r"), Operand("dst", "w")),
    check=check,
    reference=reference,
    lower=lower,
)
