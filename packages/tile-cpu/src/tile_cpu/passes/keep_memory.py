"""Take the memory of large tiles from what the last call left (`pool/pool.ll`), not from TVM's runtime.

TVM allocates and frees a workspace wherever a function needs one, which for large ones means new pages from the
system, each of them zeroed, in every call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx

from tile_core.ir import visit
from tile_core.passes.base import PassContext

_TAKE = "TVMBackendAllocWorkspace"
_GIVE = "TVMBackendFreeWorkspace"


@dataclass(frozen=True)
class KeepMemory:
    """See the module's docstring. Runs after TVM made its calls; `split_host` defines those that stand instead."""

    name: ClassVar[str] = "keep_memory"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        del context
        return func.with_body(visit.mutate(func.body, (ir.Call, _call)), func.span)


def _call(call: ir.Call, mutator: Any) -> ir.Expr:
    call = mutator.default_mutate(call)
    name = str(call.op.name).rpartition(".")[2] if isinstance(call.op, ir.Op) else ""
    if name == _TAKE:
        _device_type, _device, size, *_element = call.args
        return tirx.call_extern(call.ty, "tile_take_memory", tirx.Cast("int64", size))
    if name == _GIVE:
        _device_type, _device, memory = call.args
        return tirx.call_extern("int32", "tile_give_memory", memory)
    return call
