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
from tile_core.interpreter import access, arithmetic
from tile_core.interpreter.arithmetic import Value
from tile_core.interpreter.calls import compile_call
from tile_core.interpreter.indices import compile_indices
from tile_core.interpreter.scope import Evaluator, Scope
from tile_core.interpreter.state import State
from tile_core.interpreter.values import choose, dtype_of, guarded_division, merge, no_meaning


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
    left, right = scope.expr(expr.a), scope.expr(expr.b)
    if type(expr) in arithmetic.DIVISIONS and not dtype.is_float:
        return guarded_division(function, left, right, scope, vector=dtype.is_vector)
    return lambda state: function(left(state), right(state))


def _not(expr: E.Not, scope: Scope) -> Evaluator:
    value = scope.expr(expr.a)
    return lambda state: np.logical_not(value(state))


def _bitwise_not(expr: E.BitwiseNot, scope: Scope) -> Evaluator:
    value = scope.expr(expr.a)
    return lambda state: np.invert(value(state))


def _cast(expr: E.Cast, scope: Scope) -> Evaluator:
    value = scope.expr(expr.value)
    convert = arithmetic.converter(dtype_of(expr.value).element, dtype_of(expr).element)
    return lambda state: convert(value(state))


def _let(expr: E.Let, scope: Scope) -> Evaluator:
    value = scope.expr(expr.value)
    slot = scope.declare(expr.var)
    body = scope.expr(expr.body)

    def evaluate(state: State) -> Value:
        state.values[slot] = value(state)
        return body(state)

    return evaluate


def _select(expr: E.Select, scope: Scope) -> Evaluator:
    condition, then, other = (scope.expr(part) for part in (expr.condition, expr.true_value, expr.false_value))
    vector = dtype_of(expr).is_vector and not dtype_of(expr.condition).is_vector

    def evaluate(state: State) -> Value:
        return merge(condition(state), then(state), other(state), vector=vector)

    return evaluate


_TRUE, _FALSE = np.True_, np.False_


def _and(expr: E.And, scope: Scope) -> Evaluator:
    return choose(scope.expr(expr.a), scope.expr(expr.b), lambda state: _FALSE)


def _or(expr: E.Or, scope: Scope) -> Evaluator:
    return choose(scope.expr(expr.a), lambda state: _TRUE, scope.expr(expr.b))


def _load(expr: TensorLoad, scope: Scope) -> Evaluator:
    storage, site = scope.storage(expr.source), scope.site(expr.source)
    index = compile_indices(expr.source, expr.indices, scope)
    if scope.vector:
        return lambda state: access.load_many(storage(state), [at(state) for at in index], state, site)
    return lambda state: access.load_one(storage(state), tuple([int(at(state)) for at in index]), state, site)


def _broadcast(expr: E.Broadcast, scope: Scope) -> Evaluator:
    value, lanes = scope.expr(expr.value), dtype_of(expr).lanes
    return lambda state: np.repeat(np.asarray(value(state))[..., None], lanes, axis=-1)


def _ramp(expr: E.Ramp, scope: Scope) -> Evaluator:
    base, stride = scope.expr(expr.base), scope.expr(expr.stride)
    steps = np.arange(dtype_of(expr).lanes).astype(dtype_of(expr).element.numpy)
    return lambda state: np.asarray(base(state))[..., None] + np.asarray(stride(state))[..., None] * steps


def _shuffle(expr: E.Shuffle, scope: Scope) -> Evaluator:
    parts = [(scope.expr(vector), dtype_of(vector).is_vector) for vector in expr.vectors]
    chosen = [int(index.value) for index in expr.indices]

    def evaluate(state: State) -> Value:
        vectors = [value(state) if vector else np.asarray(value(state))[..., None] for value, vector in parts]
        leading = np.broadcast_shapes(*(vector.shape[:-1] for vector in vectors))
        lanes = np.concatenate([np.broadcast_to(vector, (*leading, vector.shape[-1])) for vector in vectors], axis=-1)
        return lanes[..., chosen] if len(chosen) > 1 else lanes[..., chosen[0]]

    return evaluate


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
    ir.Call: compile_call,
}
