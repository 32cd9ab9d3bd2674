"""Expressions: each is compiled once into a Python function of the state, so that running it walks no IR.

A value is a numpy scalar, or inside an iteration space an array that broadcasts to the space. Sides that the language
does not evaluate (`if_then_else`, `and`, `or`) are evaluated under a narrower mask, so their loads are neither
performed nor checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import ir
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as E

from tile_core.dtypes import DType
from tile_core.errors.base import SourceSpan
from tile_core.errors.interpreter import DeviceDivisionError, NoReferenceMeaningError
from tile_core.interpreter import access, arithmetic
from tile_core.interpreter.arithmetic import Value
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.space import Array
from tile_core.interpreter.state import State

Evaluator = Callable[[State], Value]


def dtype_of(expr: ir.Expr) -> DType:
    """The dtype of an expression.

    Raises:
        NoReferenceMeaningError: text, an address, or anything else that is no number.
    """
    dtype = getattr(expr.ty, "dtype", None)
    if dtype is None:
        raise no_meaning(f"{expr}, which is no number", None)
    return DType(str(dtype) or "void")


def compile_expr(expr: ir.Expr, scope: Scope) -> Evaluator:
    """The function that evaluates `expr`.

    Raises:
        NoReferenceMeaningError: a node that the interpreter has no meaning for.
    """
    compiler = _COMPILERS.get(type(expr))
    if compiler is None:
        if type(expr) in arithmetic.ARITHMETIC or type(expr) in arithmetic.COMPARISON:
            return _binary(expr, scope)
        raise no_meaning(f"an expression of kind {type(expr).__name__}", scope.span)
    return compiler(expr, scope)


def no_meaning(what: str, span: SourceSpan | None) -> NoReferenceMeaningError:
    """The error for what numpy cannot express."""
    return NoReferenceMeaningError(
        f"the interpreter has no meaning for {what}",
        remedy="run the kernel on the backend it is written for",
        span=span,
    )


def _integer(expr: E.IntImm, _scope: Scope) -> Evaluator:
    value = np.asarray(int(expr.value)).astype(dtype_of(expr).numpy)[()]
    return lambda state: value


def _float(expr: E.FloatImm, _scope: Scope) -> Evaluator:
    value = arithmetic.converter(DType("float64"), dtype_of(expr))(np.float64(expr.value))
    return lambda state: value


def _var(expr: ir.Var, scope: Scope) -> Evaluator:
    return scope.read(expr)


def _binary(expr: Any, scope: Scope) -> Evaluator:
    dtype = dtype_of(expr.a)
    function = arithmetic.binary(type(expr), dtype.element)
    left, right = compile_expr(expr.a, scope), compile_expr(expr.b, scope)
    if type(expr) in arithmetic.DIVISIONS and not dtype.is_float:
        return guarded_division(function, left, right, scope, vector=dtype.is_vector)
    return lambda state: function(left(state), right(state))


def guarded_division(
    function: arithmetic.Function, left: Evaluator, right: Evaluator, scope: Scope, *, vector: bool = False
) -> Evaluator:
    """A division that refuses to divide by zero. Its evaluation raises DeviceDivisionError."""
    place, span = scope.place, scope.span

    def evaluate(state: State) -> Value:
        divisor = right(state)
        zero = np.asarray(divisor == 0)
        if zero.any():
            active = zero.any(axis=-1) if vector else zero
            active = active if state.mask is None else state.space.spread(active) & state.mask
            if active.any():
                lane = np.unravel_index(int(np.argmax(active)), active.shape)
                where = place.describe(state, [int(at) for at in lane])
                raise DeviceDivisionError(f"an integer is divided by zero{where}", remedy="guard it", span=span)
            divisor = np.where(zero, np.ones((), zero.dtype).astype(np.asarray(divisor).dtype), divisor)
        return function(left(state), divisor)

    return evaluate


def _not(expr: E.Not, scope: Scope) -> Evaluator:
    value = compile_expr(expr.a, scope)
    return lambda state: np.logical_not(value(state))


def _bitwise_not(expr: E.BitwiseNot, scope: Scope) -> Evaluator:
    value = compile_expr(expr.a, scope)
    return lambda state: np.invert(value(state))


def _cast(expr: E.Cast, scope: Scope) -> Evaluator:
    value = compile_expr(expr.value, scope)
    convert = arithmetic.converter(dtype_of(expr.value).element, dtype_of(expr).element)
    return lambda state: convert(value(state))


def _let(expr: E.Let, scope: Scope) -> Evaluator:
    value = compile_expr(expr.value, scope)
    slot = scope.declare(expr.var)
    body = compile_expr(expr.body, scope)

    def evaluate(state: State) -> Value:
        state.values[slot] = value(state)
        return body(state)

    return evaluate


def _select(expr: E.Select, scope: Scope) -> Evaluator:
    condition, then, other = (compile_expr(part, scope) for part in (expr.condition, expr.true_value, expr.false_value))
    vector = dtype_of(expr).is_vector and not dtype_of(expr.condition).is_vector

    def evaluate(state: State) -> Value:
        return _merge(condition(state), then(state), other(state), vector=vector)

    return evaluate


def _merge(condition: Value, then: Value, other: Value, *, vector: bool) -> Value:
    """Each value where it is chosen; `vector` says that a scalar condition chooses whole vectors."""
    if np.ndim(condition) == 0:
        return then if condition else other
    return np.where(condition[..., None] if vector else condition, then, other)


def under(state: State, condition: Array, evaluate: Evaluator) -> Value:
    """`evaluate` for the iterations where `condition` holds; `None` where there are none."""
    saved = state.mask
    condition = state.space.spread(condition)
    narrowed = condition if saved is None else saved & condition
    if not narrowed.any():
        return None
    state.mask = narrowed
    try:
        return evaluate(state)
    finally:
        state.mask = saved


def choose(condition: Evaluator, then: Evaluator, other: Evaluator, *, vector: bool = False) -> Evaluator:
    """A conditional that evaluates only the chosen side."""

    def evaluate(state: State) -> Value:
        chosen = condition(state)
        if np.ndim(chosen) == 0:
            return then(state) if chosen else other(state)
        yes, no = under(state, chosen, then), under(state, ~chosen, other)
        if yes is None or no is None:
            return yes if no is None else no
        return _merge(chosen, yes, no, vector=vector)

    return evaluate


_TRUE, _FALSE = np.True_, np.False_


def _and(expr: E.And, scope: Scope) -> Evaluator:
    return choose(compile_expr(expr.a, scope), compile_expr(expr.b, scope), lambda state: _FALSE)


def _or(expr: E.Or, scope: Scope) -> Evaluator:
    return choose(compile_expr(expr.a, scope), lambda state: _TRUE, compile_expr(expr.b, scope))


def _load(expr: TensorLoad, scope: Scope) -> Evaluator:
    from tile_core.interpreter.indices import compile_indices

    storage, site = scope.storage(expr.source), scope.site(expr.source)
    index = compile_indices(expr.source, expr.indices, scope)
    if scope.vector:
        return lambda state: access.load_many(storage(state), [at(state) for at in index], state, site)
    return lambda state: access.load_one(storage(state), tuple([int(at(state)) for at in index]), state, site)


def _broadcast(expr: E.Broadcast, scope: Scope) -> Evaluator:
    value, lanes = compile_expr(expr.value, scope), dtype_of(expr).lanes
    return lambda state: np.repeat(np.asarray(value(state))[..., None], lanes, axis=-1)


def _ramp(expr: E.Ramp, scope: Scope) -> Evaluator:
    base, stride = compile_expr(expr.base, scope), compile_expr(expr.stride, scope)
    steps = np.arange(dtype_of(expr).lanes).astype(dtype_of(expr).element.numpy)
    return lambda state: np.asarray(base(state))[..., None] + np.asarray(stride(state))[..., None] * steps


def _shuffle(expr: E.Shuffle, scope: Scope) -> Evaluator:
    parts = [(compile_expr(vector, scope), dtype_of(vector).is_vector) for vector in expr.vectors]
    chosen = [int(index.value) for index in expr.indices]

    def evaluate(state: State) -> Value:
        vectors = [value(state) if vector else np.asarray(value(state))[..., None] for value, vector in parts]
        leading = np.broadcast_shapes(*(vector.shape[:-1] for vector in vectors))
        lanes = np.concatenate([np.broadcast_to(vector, (*leading, vector.shape[-1])) for vector in vectors], axis=-1)
        return lanes[..., chosen] if len(chosen) > 1 else lanes[..., chosen[0]]

    return evaluate


def _call(expr: ir.Call, scope: Scope) -> Evaluator:
    from tile_core.interpreter.calls import compile_call

    return compile_call(expr, scope)


_COMPILERS: dict[type, Callable[[Any, Scope], Evaluator]] = {
    E.IntImm: _integer,
    E.FloatImm: _float,
    ir.Var: _var,
    E.Not: _not,
    E.BitwiseNot: _bitwise_not,
    E.Broadcast: _broadcast,
    E.Ramp: _ramp,
    E.Shuffle: _shuffle,
    E.Cast: _cast,
    E.Let: _let,
    E.Select: _select,
    E.And: _and,
    E.Or: _or,
    TensorLoad: _load,
    ir.Call: _call,
}
