"""Reducers: accumulators that the iterations of `T.Parallel` contribute to.

    total = T.alloc_reducer((rows,), "float32", op="sum")
    T.reducer_init(total)
    for i, j in T.Parallel(rows, columns):
        T.reducer_update(total[i], x[i, j])
    T.finalize_reducer(total)

The order is checked while tracing: contributions stand between init and finalise.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir

from tile_core.errors.ops import OpArgumentError, ReducerError
from tile_core.frontend.builder import Builder, current_builder
from tile_core.frontend.values import Buffer, Element, VarCell, unwrap, unwrap_stored, wrap
from tile_core.language._operands import attributes, emit, is_positive_int, pair, region, whole_buffer
from tile_core.ops import reducer as ops

__all__ = ["finalize_reducer", "reducer_init", "reducer_update"]


@dataclass
class _State:
    kind: str
    open: bool = False


_states: weakref.WeakKeyDictionary[Builder, dict[ir.Var, _State]] = weakref.WeakKeyDictionary()


def declare(buffer: Buffer, kind: str) -> None:
    """Register a new reducer with the function being traced."""
    ops.check_kind(kind, buffer.dtype, buffer.name)
    _states.setdefault(current_builder(), {})[buffer.ir] = _State(kind)


def _state(buffer: Buffer, what: str) -> _State:
    state = _states.get(current_builder(), {}).get(buffer.ir)
    if state is None:
        raise ReducerError(f"{what}: {buffer.name} is no reducer", remedy="allocate it with T.alloc_reducer")
    return state


def start(buffer: Buffer, value: Any) -> None:
    """Open an epoch that starts with `value`."""
    state = _state(buffer, "reducer_init")
    state.open = True
    start_value = ops.identity(state.kind, buffer.dtype) if value is None else unwrap_stored(value, buffer.dtype)
    args = {"dst": region(buffer, "reducer_init"), "value": start_value}
    emit("tile.reducer_init", args, kind=state.kind)


def reducer_init(reducer: Any, init: Any = None) -> None:
    """Open an epoch: the reducer starts as `init`, or as the identity of its operation.

    Raises:
        ReducerError: not a reducer.

    Example:
        most = T.alloc_reducer((1,), "float32", op="max")
        T.reducer_init(most, 50.0)
        for i in T.Parallel(64):
            T.reducer_update(most[0], X[i])
        T.finalize_reducer(most)
        assert most[0] == 63.0
    """
    start(whole_buffer(reducer, "reducer_init"), init)


def reducer_update(target: Any, value: Any) -> None:
    """Contribute `value` to an element of a reducer, `T.reducer_update(r[i], x)`.

    Raises:
        ReducerError: not a reducer, or outside of an epoch. OpArgumentError: not an element.

    Example:
        total = T.alloc_reducer((1,), "float32", op="sum")
        T.reducer_init(total)
        for i in T.Parallel(64):
            T.reducer_update(total[0], X[i])
        T.finalize_reducer(total)
    """
    if not isinstance(target, Element | VarCell):
        raise OpArgumentError(f"reducer_update: {target!r} is no element", remedy="write T.reducer_update(r[i], value)")
    state = _state(target.buffer, "reducer_update")
    if not state.open:
        raise ReducerError(
            f"reducer_update: {target.buffer.name} has no open epoch", remedy="call T.reducer_init before the loop"
        )
    buffer = target.buffer
    indices = target.indices if isinstance(target, Element) else (0,)
    combined = ops.combined(state.kind, target.ir, unwrap(value), buffer.dtype)
    buffer.store(indices, wrap(combined))


def finalize_reducer(
    reducer: Any, dst: Any = None, batch: int = 1, annotations: Mapping[str, Any] | None = None
) -> None:
    """End the epoch: the reducer now holds the combined values, which are also copied to `dst` if given.

    Args:
        batch: outputs that targets with threads combine at once; a hint for speed.

    Raises:
        ReducerError: not a reducer, or no open epoch. OpArgumentError: `batch` below 1.

    Example:
        total = T.alloc_reducer((1,), "float32", op="sum")
        T.reducer_init(total)
        for i in T.Parallel(64):
            total[0] += X[i]
        T.finalize_reducer(total)
        assert total[0] == 2016.0
    """
    buffer = whole_buffer(reducer, "finalize_reducer")
    state = _state(buffer, "finalize_reducer")
    if not is_positive_int(batch):
        raise OpArgumentError(f"finalize_reducer: batch={batch!r}", remedy="give an int of at least 1")
    if not state.open:
        raise ReducerError(
            f"finalize_reducer: {buffer.name} has no open epoch", remedy="call T.reducer_init (or T.clear) first"
        )
    state.open = False
    args = {"dst": region(buffer, "finalize_reducer")}
    emit("tile.reducer_finalize", args, **attributes(annotations, kind=state.kind, batch=batch))
    if dst is not None:
        src, into = pair(buffer, dst, "finalize_reducer")
        emit("tile.copy", {"src": src, "dst": into})
