"""Descriptors in the host half: their memory, the call that makes them, and the refusal.

Bind(map, tile.descriptor(name, words…))
──▶  map = tile_describe(storage, words, name), which is null where the runtime refuses; DescriptorError then
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.device import DescriptorError
from tile_core.ir import descriptors, visit

DESCRIBE, ADDRESS = "tile_describe", "tile_address"
DESCRIBE_FAILED = "TileDescriptorFailed"
_FAILED = "a tensor could not be described for the device"
_INT64_ELEMENT = 17
"""`kInt64ArrayElem` of `tvm::tirx::builtin::TVMStructFieldKind`."""

tvm_ffi.register_error(DESCRIBE_FAILED, DescriptorError)


def address_of_data(buffer: ir.Var) -> ir.Expr:
    """The address of a tensor's first element as an int64, in host code."""
    # TVM's legalisers take no `reinterpret` of a pointer to a number.
    return tirx.call_extern("int64", ADDRESS, buffer.data)


def lower_descriptors(host: tirx.PrimFunc) -> tirx.PrimFunc:
    """`host` with every `tile.descriptor` made by the runtime on the stack."""
    return host.with_body(visit.mutate(host.body, (S.Bind, _bind)), host.span)


def _bind(bind: S.Bind, mutator: Any) -> S.Stmt:
    call = bind.value
    if not isinstance(call, ir.Call) or str(getattr(call.op, "name", "")) != "tile.descriptor":
        return mutator.default_mutate(bind)
    name, *given = call.args
    # Room to align the descriptor within.
    storage_room = tirx.tvm_stack_alloca("shape", (descriptors.BYTES + descriptors.ALIGNMENT) // 8)
    words_room = tirx.tvm_stack_alloca("shape", descriptors.WORDS)
    storage, words = (
        tirx.Var(f"{bind.var.name}_storage", storage_room.ty),
        tirx.Var(f"{bind.var.name}_words", words_room.ty),
    )
    made = ir.Call(ir.Op.get("tirx.call_extern"), [ir.StringImm(DESCRIBE), storage, words, name], ret_ty=bind.var.ty)
    failed = S.AssertStmt(E.Not(tirx.isnullptr(bind.var)), ir.StringImm(DESCRIBE_FAILED), [ir.StringImm(_FAILED)])
    parts = [
        S.Bind(storage, storage_room),
        S.Bind(words, words_room),
        *(S.Evaluate(tirx.tvm_struct_set(words, at, _INT64_ELEMENT, word)) for at, word in enumerate(given)),
        S.Bind(bind.var, made),
        failed,
    ]
    return visit.sequence(parts, bind.span)
