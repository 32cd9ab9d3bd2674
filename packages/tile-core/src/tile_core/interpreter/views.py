"""Other shapes and dtypes of memory that exists: `T.view`, `T.reshape`, `T.make_tensor`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import ir
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.interpreter.arguments import as_array
from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor
from tile_core.interpreter.space import Array
from tile_core.interpreter.state import State
from tile_core.interpreter.storage import Storage, safe_value
from tile_core.interpreter.values import no_meaning
from tile_core.ir.regions import scope as scope_of

_DATA = "tirx.buffer_data"


def compile_view(stmt: S.DeclBuffer, scope: Scope) -> Executor:
    """The function that makes a buffer another view of memory.

    Raises:
        NoReferenceMeaningError: memory that is neither a buffer's nor a pointer's.
    """
    buffer = stmt.buffer
    slot, dtype, where = scope.buffer(buffer), DType(str(buffer.dtype)), scope_of(buffer)
    shape = [scope.expr(extent) for extent in buffer.ty.shape]
    strides = [scope.expr(stride) for stride in buffer.ty.strides]
    base = _base(stmt.data, dtype, scope)
    if isinstance(stmt.data, ir.Call) and str(getattr(stmt.data.op, "name", "")) == _DATA:
        scope.names.views[buffer] = stmt.data.args[0]

    def run(state: State) -> None:
        extents = tuple(int(extent(state)) for extent in shape)
        steps = tuple(int(stride(state)) for stride in strides)
        origin = base(state, extents, steps)
        data = _reshaped(_retyped(origin, dtype, scope), origin, extents, steps, scope)
        written = None
        if origin.written is not None:
            written = _shared_mask(origin, data, extents, steps)
        state.buffers[slot] = Storage(
            str(buffer.name),
            dtype,
            where,
            data,
            written,
            origin.space,
            safe_value(dtype, 0),
            origin.undefined,
            origin=origin if not steps and data.size == origin.data.size else None,
        )

    return run


Base = Callable[[State, tuple[int, ...], tuple[int, ...]], Storage]


def _base(data: ir.Expr, dtype: DType, scope: Scope) -> Base:
    if isinstance(data, ir.Call) and str(getattr(data.op, "name", "")) == _DATA:
        storage = scope.storage(data.args[0])
        return lambda state, extents, strides: storage(state)
    pointer = _pointer(data, scope)

    def memory(state: State, extents: tuple[int, ...], strides: tuple[int, ...]) -> Storage:
        return Storage("memory", dtype, "global", _memory(pointer(state), dtype, _reach(extents, strides)), None)

    return memory


def _pointer(data: ir.Expr, scope: Scope) -> Callable[[State], Any]:
    if isinstance(data, ir.Var):
        return scope.read(data)
    if isinstance(data, ir.Call) and str(getattr(data.op, "name", "")) == "tirx.reinterpret":
        return scope.expr(data.args[0])
    raise no_meaning("memory that is neither a buffer's nor a pointer's", scope.span)


def _reach(extents: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one that a view can touch, the last included."""
    if 0 in extents:
        return 0
    if not strides:
        return int(np.prod(extents, dtype=np.int64))
    return 1 + sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))


def _memory(pointer: Any, dtype: DType, count: int) -> Array:
    """`count` elements at an address, or of a tensor that was passed for it."""
    if not isinstance(pointer, int | np.integer):
        flat = as_array(pointer).reshape(-1)
        return flat.view(np.uint8).view(dtype.numpy)[:count]
    if not count:
        return np.empty(0, dtype.numpy)
    raw = (ctypes.c_uint8 * (count * dtype.numpy.itemsize)).from_address(int(pointer))
    return np.frombuffer(raw, np.uint8).view(dtype.numpy)


def _retyped(origin: Storage, dtype: DType, scope: Scope) -> Array:
    data = origin.data
    if origin.dtype is dtype or data.dtype == dtype.numpy:
        return data
    if min(origin.dtype.bits, dtype.bits) < 8:
        raise no_meaning(f"a view of {origin.dtype} as {dtype}", scope.span)
    rank = len(origin.space.shape)
    flat = np.ascontiguousarray(data).reshape(*data.shape[:rank], -1)
    if not np.shares_memory(flat, data) and data.size:
        raise no_meaning(f"a view of {origin.name}, which is not contiguous, as {dtype}", scope.span)
    return flat.view(dtype.numpy)


def _reshaped(data: Array, origin: Storage, extents: tuple[int, ...], strides: tuple[int, ...], scope: Scope) -> Array:
    lanes = origin.space.shape
    if strides:
        flat = data.reshape(-1)
        steps = [stride * flat.itemsize for stride in strides]
        if lanes:
            raise no_meaning("a strided view of a variable that every thread has of its own", scope.span)
        return np.lib.stride_tricks.as_strided(flat, extents, steps)
    shaped = data.reshape(*lanes, *extents)
    if data.size and not np.shares_memory(shaped, origin.data):
        raise no_meaning(f"another shape of {origin.name}, which is not contiguous", scope.span)
    return shaped


def _shared_mask(origin: Storage, data: Array, extents: tuple[int, ...], strides: tuple[int, ...]) -> Array | None:
    """The same marks under the other shape. Views of another width are not tracked, and their origin no longer is."""
    assert origin.written is not None
    if not strides and origin.written.size == data.size:
        return origin.written.reshape(*origin.space.shape, *extents)
    origin.written = None
    return None
