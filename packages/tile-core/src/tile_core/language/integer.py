"""Integer division and rounding.

On Python ints these give Python ints, so that the result still configures the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from tile_core.errors.frontend import DivisionByZeroError
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.positions import located
from tile_core.frontend.values import Expr
from tile_core.ir.regions import constant
from tile_core.language._scalars import common

__all__ = ["align_up", "cdiv", "ceildiv", "floordiv", "floormod", "index_to_coordinates", "truncdiv", "truncmod"]


@located
def ceildiv(lhs: Any, rhs: Any, span: Any = None) -> Any:
    """Lhs / rhs rounded up.

    Example:
        assert T.ceildiv(100, 32) == 4
    """
    if _both_int(lhs, rhs):
        return -(-lhs // _divisor("ceildiv", rhs))
    a, b = _integers("ceildiv", lhs, rhs)
    less_one = arith.binary("-", b, arith.constant(1, arith.dtype_of(b)))
    return Expr(arith.binary("//", arith.binary("+", a, less_one), b))


@located
def cdiv(lhs: Any, rhs: Any, span: Any = None) -> Any:
    """The short name of `T.ceildiv`: `T.cdiv(100, 32) == 4`."""
    return ceildiv(lhs, rhs)


@located
def align_up(x: Any, y: Any) -> Any:
    """The smallest multiple of y that is not below x: `T.align_up(100, 32) == 128`."""
    return ceildiv(x, y) * y


@located
def floordiv(a: Any, b: Any, span: Any = None) -> Any:
    """`a // b`, rounded down for all signs: `T.floordiv(-7, 2) == -4`."""
    return _divide("floordiv", "//", lambda x, y: x // y, a, b)


@located
def floormod(a: Any, b: Any, span: Any = None) -> Any:
    """`a % b`, with the sign of b: `T.floormod(-7, 2) == 1`."""
    return _divide("floormod", "%", lambda x, y: x % y, a, b)


@located
def truncdiv(a: Any, b: Any, span: Any = None) -> Any:
    """`a / b` rounded toward zero, as C divides integers: `T.truncdiv(-7, 2) == -3`."""
    return _divide("truncdiv", tirx.Div, _truncated, a, b)


@located
def truncmod(a: Any, b: Any, span: Any = None) -> Any:
    """The remainder of `truncdiv`, with the sign of a: `T.truncmod(-7, 2) == -1`."""
    return _divide("truncmod", tirx.Mod, lambda x, y: x - _truncated(x, y) * y, a, b)


@located
def index_to_coordinates(index: Any, shape: Any) -> list[Any]:
    """The coordinates of a row-major flat index in `shape`: `T.index_to_coordinates(7, (2, 4)) == [1, 3]`."""
    if not isinstance(shape, list | tuple):
        raise OpArgumentError(f"index_to_coordinates: the shape {shape!r}", remedy="give a tuple of extents")
    coordinates: list[Any] = []
    for extent in reversed(list(shape)):
        coordinates.insert(0, floormod(index, extent))
        index = floordiv(index, extent)
    return coordinates


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divide(name: str, node: Any, on_ints: Callable[[int, int], int], a: Any, b: Any) -> Any:
    if _both_int(a, b):
        return on_ints(a, _divisor(name, b))
    x, y = _integers(name, a, b)
    if constant(y) is not None:
        _divisor(name, constant(y))
    if isinstance(node, str):
        return Expr(arith.binary(node, x, y))
    left, right = constant(x), constant(y)
    if left is not None and right is not None:
        return Expr(arith.constant(on_ints(left, right), arith.dtype_of(x)))
    return Expr(node(x, y))


def _both_int(a: Any, b: Any) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in (a, b))


def _divisor(name: str, value: Any) -> int:
    if value == 0:
        raise DivisionByZeroError(f"T.{name} by the constant 0", remedy="check the extents")
    return int(value)


def _integers(name: str, a: Any, b: Any) -> list[Any]:
    operands = common(a, b)
    dtype = arith.dtype_of(operands[0])
    if not dtype.element.is_integer:
        raise OpDTypeError(f"T.{name} of {dtype}", remedy="it needs integers; of floats use T.floor(a / b)")
    return operands
