"""Integer index expressions evaluated over whole numpy arrays at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from tvm import ir, tirx

Table: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
"""`numpy.typing` would say it shorter, and takes longer to import than all layouts."""

BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
    tirx.BitwiseAnd: np.bitwise_and,
    tirx.BitwiseOr: np.bitwise_or,
    tirx.BitwiseXor: np.bitwise_xor,
    tirx.LShift: np.left_shift,
    tirx.RShift: np.right_shift,
}


def _truncated_division(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def evaluate(expr: ir.Expr, values: Mapping[ir.Var, Any]) -> Any:
    """The value of an integer expression; `values` gives an array (or int) for each of its variables.

    Raises `TypeError` on a node that is no index arithmetic.
    """
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    if isinstance(expr, ir.Var):
        return values[expr]
    operands = BINARY.get(type(expr))
    if operands is not None:
        return operands(evaluate(expr.a, values), evaluate(expr.b, values))
    if isinstance(expr, tirx.Div):
        return _truncated_division(evaluate(expr.a, values), evaluate(expr.b, values))
    if isinstance(expr, tirx.Not):
        return np.logical_not(evaluate(expr.a, values))
    if isinstance(expr, tirx.Cast):
        return evaluate(expr.value, values)
    if isinstance(expr, tirx.Select):
        choices = (expr.condition, expr.true_value, expr.false_value)
        return np.where(*(evaluate(choice, values) for choice in choices))
    if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name == "prim.if_then_else":
        return np.where(*(evaluate(argument, values) for argument in expr.args))
    raise TypeError(f"{type(expr).__name__} in an index expression: {expr}")


def grid(shape: Sequence[int]) -> list[Table]:
    """One int64 array per axis, holding that axis's index at every point of `shape`."""
    return [np.ascontiguousarray(axis) for axis in np.indices(tuple(shape), dtype=np.int64)]


def tabulate(variables: Sequence[ir.Var], exprs: Sequence[ir.Expr], shape: Sequence[int]) -> list[Table]:
    """Each expression at every point of `shape`."""
    values = dict(zip(variables, grid(shape), strict=True))
    return [np.broadcast_to(np.asarray(evaluate(expr, values), dtype=np.int64), tuple(shape)) for expr in exprs]
