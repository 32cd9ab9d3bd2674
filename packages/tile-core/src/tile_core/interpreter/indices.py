"""Indices are exact: their arithmetic is done in 64 bits, so an index that leaves int32 is outside of its tensor.

That is what `T.int32` indices mean on every target. What is computed from memory or from arguments is data, which wraps
in its dtype, unless the axis or a constant of the index is so large that devices compute in 64 bits as well. What an
index gets through a cast or a function has its own dtype; names that were bound to arithmetic stand for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import ir
from tvm.ir.prim import expr as E

from tile_core.dtypes import DType
from tile_core.interpreter import arithmetic
from tile_core.interpreter.scope import Evaluator, Scope, common
from tile_core.interpreter.values import dtype_of, guarded_division
from tile_core.ir import visit
from tile_core.ir.regions import constant

_WIDE = DType("int64")
HUGE = 2**30
"""Longer axes and larger constants are computed with in 64 bits."""
EXACT = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Min, E.Max, E.LShift, E.BitwiseAnd, E.BitwiseOr, E.BitwiseXor)
"""The nodes that are computed in 64 bits."""


def compile_indices(buffer: ir.Var, indices: Sequence[ir.Expr], scope: Scope) -> list[Evaluator]:
    """The functions that evaluate the indices of an access; a vector of indices is evaluated as it stands."""
    return [_index(at, extent, scope) for at, extent in zip(indices, buffer.shape, strict=True)]


def _index(expr: ir.Expr, extent: ir.Expr, scope: Scope) -> Evaluator:
    if dtype_of(expr) is not DType("int32") or not _is_arithmetic(expr, scope):
        return scope.expr(expr)
    if is_data(expr, scope) and not (_is_long(extent) or _is_steep(expr, scope)):
        return scope.expr(expr)
    return _exact(expr, scope)


def is_data(expr: ir.Expr, scope: Scope) -> bool:
    """Whether a value is computed from memory or from arguments that are no sizes."""
    loads = bool(visit.collect(expr, ir.TensorLoad))
    return loads or any(var in scope.names.data for var in visit.collect(expr, ir.Var))


def _is_long(extent: ir.Expr) -> bool:
    size = constant(extent)
    return dtype_of(extent) is _WIDE if size is None else size > HUGE


def _is_steep(expr: Any, scope: Scope) -> bool:
    """Whether an index has a huge constant or a shift."""
    if isinstance(expr, E.IntImm):
        return abs(int(expr.value)) > HUGE
    if isinstance(expr, ir.Var):
        return expr in scope.names.arithmetic and _is_steep(scope.names.arithmetic[expr], scope)
    if isinstance(expr, E.LShift):
        return True
    return isinstance(expr, EXACT) and (_is_steep(expr.a, scope) or _is_steep(expr.b, scope))


def _is_arithmetic(expr: ir.Expr, scope: Scope) -> bool:
    return isinstance(expr, EXACT) or (isinstance(expr, ir.Var) and expr in scope.names.arithmetic)


def _exact(expr: Any, scope: Scope) -> Evaluator:
    if isinstance(expr, E.IntImm):
        value = np.int64(expr.value)
        return lambda state: value
    if isinstance(expr, ir.Var) and expr in scope.names.arithmetic:
        return _named(expr, scope)
    if not isinstance(expr, EXACT):
        evaluate = scope.expr(expr)
        return lambda state: np.asarray(evaluate(state)).astype(np.int64)[()]
    function = arithmetic.binary(type(expr), _WIDE)
    left, right = _exact(expr.a, scope), _exact(expr.b, scope)
    if type(expr) in arithmetic.DIVISIONS:
        return guarded_division(function, left, right, scope)
    return lambda state: function(left(state), right(state))


def _named(var: ir.Var, scope: Scope) -> Evaluator:
    """The arithmetic that a name was bound to. It is the name that all threads have to agree on, not its parts."""
    value = _exact(scope.names.arithmetic[var], replace(scope, collective=False))
    slot = scope.names.values.get(var)
    if not (scope.collective and slot in scope.names.by_thread):
        return value
    span, name = scope.span, str(var.name)
    return lambda state: common(value(state), name, span)
