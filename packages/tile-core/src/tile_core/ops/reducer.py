"""Reducers: accumulators that many iterations contribute to, in scope `local.reducer`.

`tile.reducer_init` opens an epoch with a start value, `tile.reducer_finalize` ends it; in between, contributions are
stores `r[i] = combine(r[i], value)`, so that they may stand inside `T.Parallel`. The attribute `kind` (a key of
`ops.reduce.KINDS`) tells a backend that keeps one partial result a thread how to combine them. The start value takes
part once, not once a thread.

A block that runs as one program has one copy of the accumulator, so finalising does nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.ops import ReduceDTypeError, ReduceKindError, ReducerError
from tile_core.ir.regions import REDUCER
from tile_core.ir.visit import sequence
from tile_core.ops import fill
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.build import Tile, cast, number
from tile_core.ops.reduce import KINDS

if TYPE_CHECKING:
    import numpy as np

REDUCER_KINDS = ("sum", "max", "min", "bitand", "bitor", "bitxor")


def check_kind(kind: str, dtype: DType, name: str) -> None:
    """Refuse unknown kinds and bit operations on floats. Raises `ReduceKindError`, `ReduceDTypeError`."""
    if kind not in REDUCER_KINDS:
        raise ReduceKindError(f"reducer {name}: unknown op {kind!r}", remedy=f"use one of {', '.join(REDUCER_KINDS)}")
    if KINDS[kind].integral and dtype.is_float:
        raise ReduceDTypeError(
            f"reducer {name}: op {kind!r} needs integers or bool, not {dtype}", remedy="use an integer reducer"
        )


def identity(kind: str, dtype: DType) -> ir.Expr:
    """The value with which a reducer of this kind starts."""
    return number(KINDS[kind].identity(dtype), dtype)


def combined(kind: str, old: ir.Expr, value: ir.Expr, dtype: DType) -> ir.Expr:
    """The reducer's element after one contribution."""
    return KINDS[kind].combine(old, cast(value, dtype), True)


def _check(call: OpCall) -> None:
    dst = Tile(call.region("dst"))
    if dst.scope != REDUCER:
        raise ReducerError(
            f"{call.op.name.removeprefix('tile.')}: {dst.name} is {dst.scope} memory, not a reducer",
            remedy="allocate it with T.alloc_reducer",
            span=call.source_span,
        )
    check_kind(str(call.attrs["kind"]), dst.dtype, dst.name)


def _finalize_reference(_call: OpCall, _operands: Mapping[str, np.ndarray]) -> None:
    """Nothing: one program holds one copy."""


def _finalize_lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    return sequence([], call.span)


REDUCER_INIT = TileOp(
    "tile.reducer_init", (Operand("dst", "w"), Operand("value", "value")), _check, fill.reference, fill.lower
)
REDUCER_FINALIZE = TileOp(
    "tile.reducer_finalize", (Operand("dst", "rw"),), _check, _finalize_reference, _finalize_lower
)
