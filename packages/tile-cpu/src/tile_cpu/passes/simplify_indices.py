"""Write vector indices as ramps again.

TVM's `FlattenBuffer` leaves `Broadcast(0) + Ramp(0, 1, n)` where an index is constant. The code generator takes only a
`Ramp` for consecutive; anything else it accesses lane by lane, and a masked access then gets a malformed mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.transform import Pass
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.analyzer import Analyzer
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_cpu.passes.affine import lanes_of

# Calls whose last argument but one is an index with lanes.
_MASKED = ("tirx.masked_load", "tirx.masked_store")


@dataclass(frozen=True)
class SimplifyIndices:
    """Simplify the vector indices of every access; scalar ones are left alone. Runs on flattened buffers."""

    name: ClassVar[str] = "simplify_indices"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        body = visit.mutate(func.body, (S.BufferStore, _store), (ir.TensorLoad, _load), (ir.Call, _call))
        return func.with_body(body, func.span)


def simplify_indices() -> Pass:
    """The same as a pass of TVM, to stand behind `FlattenBuffer`."""
    return tirx.transform.prim_func_pass(lambda func, module, context: SimplifyIndices()(func), opt_level=0)


def _simplified(indices: Any) -> list[ir.Expr]:
    return [index if lanes_of(index) == 1 else Analyzer().simplify(index) for index in indices]


def _store(store: S.BufferStore, mutator: Any) -> S.Stmt:
    store = mutator.default_mutate(store)
    return rebuild.store(store, indices=_simplified(store.indices))


def _load(load: ir.TensorLoad, mutator: Any) -> ir.Expr:
    load = mutator.default_mutate(load)
    return tirx.BufferLoad(load.source, _simplified(load.indices))


def _call(call: ir.Call, mutator: Any) -> ir.Expr:
    call = mutator.default_mutate(call)
    if not (isinstance(call.op, ir.Op) and call.op.name in _MASKED):
        return call
    *first, index, mask = call.args
    return ir.Call(call.op, [*first, *_simplified([index]), mask], call.attrs, span=call.span, ret_ty=call.ty)
