"""Contributions to a reducer: `r[i] = combine(r[i], value)` in scope `local.reducer`.

Any number of iterations may contribute to one element, so the statement is an update in the order of iterations rather
than a store; a reducer is read only after it is finalised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import ir
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.interpreter import access, arithmetic
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor
from tile_core.interpreter.state import State
from tile_core.interpreter.storage import Storage
from tile_core.ir.regions import REDUCER
from tile_core.ir.regions import scope as scope_of

_CALLS: dict[str, np.ufunc] = {
    "tile.max": np.maximum,
    "tile.min": np.minimum,
    "tile.maxnum": np.fmax,
    "tile.minnum": np.fmin,
}
_NODES: dict[type, np.ufunc] = {
    E.Add: np.add,
    E.Max: np.maximum,
    E.Min: np.minimum,
    E.BitwiseAnd: np.bitwise_and,
    E.BitwiseOr: np.bitwise_or,
    E.BitwiseXor: np.bitwise_xor,
    E.And: np.logical_and,
    E.Or: np.logical_or,
    E.NE: np.logical_xor,
}


def compile_contribution(stmt: S.BufferStore, scope: Scope) -> Executor | None:
    """The function that adds a contribution, `None` for a store that is none."""
    if scope_of(stmt.buffer) != REDUCER or not scope.vector:
        return None
    parts = _parts(stmt.value)
    if parts is None or not (isinstance(parts[1], TensorLoad) and parts[1].source.same_as(stmt.buffer)):
        return None
    combine, _, operand = parts
    dtype = DType(str(stmt.buffer.dtype))
    function = arithmetic.rounded(combine, dtype)
    value, storage = scope.expr(operand), scope.storage(stmt.buffer)
    index = [scope.expr(at) for at in stmt.indices]
    site = access.Site(scope.place, scope.span, logged=False)

    def run(state: State) -> None:
        _contribute(storage(state), [at(state) for at in index], value(state), function, combine, state, site)

    return run


def _parts(value: ir.Expr) -> tuple[np.ufunc, ir.Expr, ir.Expr] | None:
    """The operation and its operands, where a value combines two."""
    if type(value) in _NODES:
        return _NODES[type(value)], value.a, value.b
    name = str(getattr(value.op, "name", "")) if isinstance(value, ir.Call) else ""
    return (_CALLS[name], *value.args) if name in _CALLS else None


def _contribute(
    storage: Storage,
    index: list[Any],
    value: Any,
    function: arithmetic.Function,
    ufunc: np.ufunc,
    state: State,
    site: access.Site,
) -> None:
    found = access.locate(storage, index, state, site, "updated")
    access.require_written(storage, found, state, site)
    elements, iterations = access.numbered(storage, found, state)
    values = np.ascontiguousarray(state.space.spread(value)).reshape(-1)[iterations]
    data = storage.data.reshape(-1)
    assert np.shares_memory(data, storage.data)
    if function is ufunc and storage.dtype.family != "bfloat16":
        ufunc.at(data, elements, values)
        return
    for element, one in zip(elements.tolist(), values, strict=True):
        data[element] = function(data[element], one)
