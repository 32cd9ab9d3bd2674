"""Indices are exact: their arithmetic is done in 64 bits, so an index that leaves int32 is outside of its tensor.

That is what `T.int32` indices mean on every target. What an index reads from memory, or gets through a cast or a
function, has its own dtype; names that were bound to arithmetic stand for that arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tvm import ir
from tvm.ir.prim import expr as E

from tile_core.dtypes import DType
from tile_core.interpreter import arithmetic
from tile_core.interpreter.evaluate import Evaluator, compile_expr, dtype_of, guarded_division
from tile_core.interpreter.scope import Scope, common

_WIDE = DType("int64")
EXACT = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Min, E.Max, E.LShift)
"""The nodes that are computed in 64 bits."""


def compile_index(expr: ir.Expr, scope: Scope) -> Evaluator:
    """The function that evaluates an index; a vector of indices is evaluated as it stands."""
    if dtype_of(expr) is not DType("int32") or not _is_arithmetic(expr, scope):
        return compile_expr(expr, scope)
    return _exact(expr, scope)


def _is_arithmetic(expr: ir.Expr, scope: Scope) -> bool:
    return isinstance(expr, EXACT) or (isinstance(expr, ir.Var) and expr in scope.names.arithmetic)


def _exact(expr: Any, scope: Scope) -> Evaluator:
    if isinstance(expr, E.IntImm):
        value = np.int64(expr.value)
        return lambda state: value
    if isinstance(expr, ir.Var) and expr in scope.names.arithmetic:
        return _named(expr, scope)
    if not isinstance(expr, EXACT):
        evaluate = compile_expr(expr, scope)
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
