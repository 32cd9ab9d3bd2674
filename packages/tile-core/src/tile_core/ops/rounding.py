"""Directed rounding to narrow floats, from round-to-nearest and the neighbour's bit pattern.

The value rounded to nearest is at most one step away from the value rounded toward zero, up or down. A step away from
zero is the bit pattern plus 1, a step toward zero minus 1; infinities are the steps beyond the largest finite values.
"""

from __future__ import annotations

from tvm import ir, tirx

from tile_core.dtypes import DType
from tile_core.ops.build import cast, dtype_of, number

FLOAT32 = DType("float32")


def directed_cast(value: ir.Expr, dtype: DType, rounding: str, *, saturate: bool) -> ir.Expr | None:
    """`value` converted with rounding `rz`, `rp` or `rm`; `None` for what has no expansion.

    That is another rounding, a source that float32 does not hold, a target without a sign or not of one or two bytes,
    and an 8-bit target that does not saturate.
    """
    source, form = dtype_of(value), dtype.float_format
    if rounding not in ("rz", "rp", "rm") or not source.is_float or source.bits > 32 or form is None or not form.signed:
        return None
    if dtype.bits not in (8, 16) or dtype.lanes != 1 or source.lanes != 1 or (dtype.bits == 8 and not saturate):
        return None
    wide = cast(value, FLOAT32)
    nearest = cast(wide, dtype)
    found = cast(nearest, FLOAT32)
    step = _step(rounding, wide, found)
    if dtype.bits == 8:
        # Beyond the largest finite value the nearest is that value, and stays.
        step = tirx.Select(tirx.GE(tirx.abs(wide), number(float(dtype.max), FLOAT32)), _bits(0), step)
    storage = f"uint{dtype.bits}"
    pattern = tirx.Cast("int32", tirx.reinterpret(storage, nearest))
    return tirx.reinterpret(dtype.tvm, tirx.Cast(storage, tirx.Add(pattern, step)))


def _step(rounding: str, exact: ir.Expr, found: ir.Expr) -> ir.Expr:
    """What to add to the bit pattern of `found`; all comparisons are false for NaN."""
    negative = tirx.LT(found, number(0, FLOAT32))
    if rounding == "rz":
        return tirx.Select(tirx.GT(tirx.abs(found), tirx.abs(exact)), _bits(-1), _bits(0))
    if rounding == "rp":
        return tirx.Select(tirx.LT(found, exact), tirx.Select(negative, _bits(-1), _bits(1)), _bits(0))
    positive = tirx.GT(found, number(0, FLOAT32))
    return tirx.Select(tirx.GT(found, exact), tirx.Select(positive, _bits(-1), _bits(1)), _bits(0))


def _bits(value: int) -> ir.Expr:
    return tirx.IntImm("int32", value)
