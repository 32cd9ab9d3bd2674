"""Calls inside expressions: control, functions of scalars, atomics on elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import ir

from tile_core.dtypes import casts
from tile_core.errors.interpreter import BarrierMisuseError
from tile_core.interpreter import access, arithmetic, intrinsics
from tile_core.interpreter.arithmetic import Value
from tile_core.interpreter.barriers import block_problem
from tile_core.interpreter.indices import compile_indices
from tile_core.interpreter.scope import Evaluator, Scope
from tile_core.interpreter.state import State
from tile_core.interpreter.storage import Storage
from tile_core.interpreter.values import choose, dtype_of, no_meaning
from tile_core.interpreter.warps import compile_exchange, is_exchange
from tile_core.interpreter.words import compile_load, compile_store
from tile_core.ops.atomic import KINDS
from tile_core.ops.scalar import CAST, SCALARS
from tile_core.ops.words import LOAD, STORE


def compile_call(call: ir.Call, scope: Scope) -> Evaluator:
    """The function that evaluates a call.

    Raises:
        NoReferenceMeaningError: an operator without a meaning in numpy.
    """
    name = str(getattr(call.op, "name", call.op))
    if name in _SPECIAL:
        return _SPECIAL[name](call, scope)
    if is_exchange(name):
        return compile_exchange(call, scope)
    function = _function(name, call)
    if function is None:
        raise no_meaning(f"the operator {name}", scope.span)
    operands = [scope.expr(argument) for argument in call.args]
    return lambda state: function(*(operand(state) for operand in operands))


def _function(name: str, call: ir.Call) -> arithmetic.Function | None:
    if name in SCALARS:
        operand = dtype_of(call.args[0]).element
        reference = SCALARS[name].reference
        if SCALARS[name].result is not None:
            return reference
        numpy = dtype_of(call).element.numpy
        return arithmetic.rounded(lambda *values: np.asarray(reference(*values)).astype(numpy)[()], operand)
    if not call.args or not intrinsics.is_known(name):
        return None
    return intrinsics.function(name, dtype_of(call.args[0]).element, dtype_of(call).element)


def _if_then_else(call: ir.Call, scope: Scope) -> Evaluator:
    condition, then, other = (scope.expr(argument) for argument in call.args)
    return choose(condition, then, other, vector=dtype_of(call).is_vector)


def _passed_on(call: ir.Call, scope: Scope) -> Evaluator:
    return scope.expr(call.args[0])


def _reinterpret(call: ir.Call, scope: Scope) -> Evaluator:
    value = scope.expr(call.args[0])
    function = arithmetic.reinterpret(dtype_of(call.args[0]), dtype_of(call))
    return lambda state: function(value(state))


def _barrier(call: ir.Call, scope: Scope) -> Evaluator:
    """TVM's own barrier of the block."""
    del call
    place, span = scope.place, scope.span

    def evaluate(state: State) -> Value:
        problem = block_problem(state)
        if problem:
            raise BarrierMisuseError(
                f"{problem}{place.describe(state)}",
                remedy="move the barrier out of the condition on the thread index",
                span=span,
            )
        return np.int32(0)

    return evaluate


def _element(call: ir.Call, scope: Scope) -> Callable[[State], tuple[Storage, list[Any]]]:
    """The memory and the indices that the address in the first argument stands for."""
    address = call.args[0]
    if not (isinstance(address, ir.Call) and str(getattr(address.op, "name", "")) == "tirx.address_of"):
        raise no_meaning("an address that is not that of an element", scope.span)
    load = address.args[0]
    storage, index = scope.storage(load.source), compile_indices(load.source, load.indices, scope)
    return lambda state: (storage(state), [at(state) for at in index])


def _atomic_update(call: ir.Call, scope: Scope) -> Evaluator:
    element, operand = _element(call, scope), scope.expr(call.args[1])
    site = access.Site(scope.place, scope.span, logged=False)
    dtype = dtype_of(call.args[1])
    combine = arithmetic.rounded(getattr(np, KINDS[str(call.attrs["kind"])]), dtype)
    backwards = scope.options.reversed_order

    def evaluate(state: State) -> Value:
        storage, index = element(state)
        value = operand(state)
        if scope.vector:
            return _update_many(storage, index, value, combine, state, site, backwards=backwards)
        old = access.load_one(storage, tuple(int(at) for at in index), state, site)
        access.store_one(storage, tuple(int(at) for at in index), combine(old, value), state, site)
        return old

    return evaluate


def _update_many(
    storage: Storage,
    index: list[Any],
    value: Value,
    combine: arithmetic.Function,
    state: State,
    site: access.Site,
    *,
    backwards: bool,
) -> Value:
    """One update an iteration, in the order of iterations or backwards; the elements before each."""
    found = access.locate(storage, index, state, site, "updated")
    result = np.full(state.space.shape, storage.safe, storage.data.dtype)
    if not storage.data.size:
        return result
    access.require_written(storage, found, state, site)
    elements, iterations = access.numbered(storage, found, state)
    values = np.ascontiguousarray(state.space.spread(value)).reshape(-1)[iterations]
    olds = np.empty(elements.size, storage.data.dtype)
    # Rounds of distinct elements: the first use of every element, then the second, and so on.
    remaining = np.arange(elements.size)[:: -1 if backwards else 1]
    while remaining.size:
        _, first = np.unique(elements[remaining], return_index=True)
        now = remaining[np.sort(first)]
        places = np.unravel_index(elements[now], storage.data.shape)
        olds[now] = storage.data[places]
        storage.data[places] = combine(olds[now], values[now])
        remaining = remaining[~np.isin(remaining, now)]
    result.reshape(-1)[iterations] = olds
    return result


def _atomic_load(call: ir.Call, scope: Scope) -> Evaluator:
    element = _element(call, scope)
    site = access.Site(scope.place, scope.span, logged=False)

    def evaluate(state: State) -> Value:
        storage, index = element(state)
        if scope.vector:
            return access.load_many(storage, index, state, site)
        return access.load_one(storage, tuple(int(at) for at in index), state, site)

    return evaluate


def _atomic_store(call: ir.Call, scope: Scope) -> Evaluator:
    element, operand = _element(call, scope), scope.expr(call.args[1])
    site = access.Site(scope.place, scope.span, logged=False)

    def evaluate(state: State) -> Value:
        storage, index = element(state)
        if scope.vector:
            access.store_many(storage, index, operand(state), state, site)
        else:
            access.store_one(storage, tuple(int(at) for at in index), operand(state), state, site)
        return np.int32(0)

    return evaluate


def _cast(call: ir.Call, scope: Scope) -> Evaluator:
    """A conversion with a rounding mode."""
    value, *rest = (scope.expr(argument) for argument in call.args)
    source, target = dtype_of(call.args[0]), dtype_of(call)
    rounding, saturate = str(call.attrs["rounding"]), bool(call.attrs["saturate"])

    def evaluate(state: State) -> Value:
        random = None if not rest else np.asarray(rest[0](state))
        values = np.asarray(value(state))
        return casts.cast(values, source, target, rounding=rounding, saturate=saturate, random_bits=random)[()]

    return evaluate


_SPECIAL: dict[str, Callable[[ir.Call, Scope], Evaluator]] = {
    "prim.if_then_else": _if_then_else,
    "prim.likely": _passed_on,
    "tile.atomic_load": _atomic_load,
    "tile.atomic_rmw": _atomic_update,
    "tile.atomic_store": _atomic_store,
    LOAD: compile_load,
    STORE: compile_store,
    CAST: _cast,
    "tirx.reinterpret": _reinterpret,
    "tirx.tvm_storage_sync": _barrier,
}


def is_expression(call: ir.Call) -> bool:
    """Whether a call in statement position is an expression that is evaluated for its effect, not a tile op."""
    name = str(getattr(call.op, "name", call.op))
    return name in _SPECIAL or name in SCALARS or is_exchange(name)
