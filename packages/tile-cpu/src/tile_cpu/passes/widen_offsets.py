"""Compute the offset of an element in 64 bits where a buffer is, or may be, too large for 32.

`FlattenBuffer` multiplies indices by strides in the type of the indices, so they are widened before it. Runs after
vectorisation: the passes before it see indices as the author wrote them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext

INT32_MAX = 2**31 - 1
_MASKED = ("tirx.masked_load", "tirx.masked_store")


@dataclass(frozen=True)
class WidenOffsets:
    """See the module's docstring."""

    name: ClassVar[str] = "widen_offsets"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (S.BufferStore, _store), (ir.TensorLoad, _load), (ir.Call, _call))


def _store(store: S.BufferStore, mutator: Any) -> S.Stmt:
    store = mutator.default_mutate(store)
    return rebuild.store(store, indices=_widened(store.buffer, store.indices))


def _load(load: ir.TensorLoad, mutator: Any) -> ir.Expr:
    load = mutator.default_mutate(load)
    return tirx.BufferLoad(load.source, _widened(load.source, load.indices), load.span)


def _call(call: ir.Call, mutator: Any) -> ir.Expr:
    call = mutator.default_mutate(call)
    if not (isinstance(call.op, ir.Op) and call.op.name in _MASKED):
        return call
    buffer, *rest = call.args
    at = 1 if call.op.name == "tirx.masked_store" else 0
    value, indices, mask = rest[:at], rest[at:-1], rest[-1]
    return ir.Call(call.op, [buffer, *value, *_widened(buffer, indices), mask], ret_ty=call.ty, span=call.span)


def _widened(buffer: ir.Var, indices: Any) -> list[ir.Expr]:
    return [_wide(index) for index in indices] if _is_large(buffer) else list(indices)


def _is_large(buffer: ir.Var) -> bool:
    """Whether an offset may not fit int32; the strides of a strided buffer are not bounded by its extents."""
    if len(buffer.strides):
        return True
    extents = [constant(extent) for extent in buffer.shape]
    if None in extents:
        return len(extents) > 1
    return math.prod(extent or 0 for extent in extents) > INT32_MAX


def _wide(index: ir.Expr) -> ir.Expr:
    dtype = index.ty.dtype
    if dtype.bits >= 64:
        return index
    if isinstance(index, E.Ramp):
        return E.Ramp(_wide(index.base), _wide(index.stride), index.lanes)
    if isinstance(index, E.Broadcast):
        return E.Broadcast(_wide(index.value), index.lanes)
    if isinstance(index, E.IntImm):
        return E.IntImm("int64", index.value)
    return E.Cast("int64" if dtype.lanes == 1 else f"int64x{dtype.lanes}", index)
