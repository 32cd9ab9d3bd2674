"""The limits of a dtype as constants."""

from __future__ import annotations

from typing import Any

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.positions import located
from tile_core.frontend.values import Expr

__all__ = ["infinity", "max_value", "min_value"]


@located
def infinity(dtype: Any, span: Any = None) -> Expr:
    """Positive infinity of a float dtype.

    Raises:
        OpDTypeError: the dtype has none, such as an integer or float8_e4m3fn.

    Example:
        T.fill(row, -T.infinity("float32"))
    """
    target = as_dtype(dtype)
    if not target.has_infinity:
        raise OpDTypeError(f"{target} has no infinity", remedy=f'use T.max_value("{target}")')
    return Expr(arith.constant(float("inf"), target))


@located
def max_value(dtype: Any, span: Any = None) -> Expr:
    """The largest finite value of a dtype: `T.max_value("int8") == 127`."""
    target = as_dtype(dtype)
    return Expr(arith.constant(target.max, target))


@located
def min_value(dtype: Any, span: Any = None) -> Expr:
    """The smallest finite value of a dtype: the most negative one where it is signed. `T.min_value("int8") == -128`."""
    target = as_dtype(dtype)
    return Expr(arith.constant(target.min, target))
