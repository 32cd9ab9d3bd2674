"""The values that traced code handles, scalars and buffers, and what `T.float16(x)` does."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tile_core.dtypes import DType
from tile_core.errors.dtypes import DTypeCallError
from tile_core.frontend.buffers import Buffer, Element, Region, VarCell, wrap
from tile_core.frontend.exprs import Expr, Value, Var, as_number, is_device, pair, unwrap, unwrap_cast, unwrap_stored

__all__ = [
    "Buffer",
    "Element",
    "Expr",
    "Region",
    "Value",
    "Var",
    "VarCell",
    "as_number",
    "is_device",
    "make_value",
    "pair",
    "unwrap",
    "unwrap_cast",
    "unwrap_stored",
    "wrap",
]


def make_value(dtype: DType, *values: Any) -> Any:
    """`T.float16(x)` converts, `T.float32x2(a, b)` packs lanes, `T.float16()` is a fresh scalar parameter."""
    if not values:
        return Var(tirx.Var("value", dtype.tvm))
    if dtype.kind in ("handle", "void"):
        raise DTypeCallError(f"{dtype} has no values to convert", remedy="pass addresses with T.address_of")
    if len(values) == 1:
        return Expr(unwrap_cast(values[0], dtype))
    if len(values) != dtype.lanes:
        wanted = f"one value or {dtype.lanes}" if dtype.is_vector else "one value"
        raise DTypeCallError(f"{dtype}() takes {wanted}, got {len(values)}", remedy="give one value for each lane")
    lanes = [unwrap_cast(value, dtype.element) for value in values]
    return Expr(tirx.Shuffle(lanes, [tirx.IntImm("int32", lane) for lane in range(dtype.lanes)]))
