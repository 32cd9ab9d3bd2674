"""Keep LLVM from merging a narrowing of integers into the masked store that follows.

LLVM 22's code generator for x86 turns a masked store of narrowed integers into one instruction. If it then finds
out that the mask holds a single lane, it stores that lane alone, in the width that it had before: for one int16 of an
int32, four bytes. The IR is right:

    %t = trunc nuw <16 x i32> %w to <16 x i16>
    call void @llvm.masked.store(<16 x i16> %t, ptr %p, <16 x i1> <i1 true, i1 false, …>)   ; mov %eax, (%rdi)

Wrong code takes a `trunc` that LLVM cannot move elsewhere and a mask that it can compute, such as that of a loop whose
last vector holds one element. So a computed integer passes a fence on its way to a masked store. It costs nothing:
narrowing and storing are two steps of the merged instruction as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx

from tile_core.ir import visit
from tile_core.passes.base import PassContext
from tile_cpu.llvm.fences import fence
from tile_cpu.llvm.functions import Function, importing

MASKED_STORE = "tirx.masked_store"


@dataclass(frozen=True)
class FenceMaskedStores:
    """See the module's docstring. Runs once no value of a narrow float is left."""

    name: ClassVar[str] = "fence_masked_stores"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        del context
        functions: list[Function] = []

        def call(node: ir.Call, mutator: Any) -> ir.Expr:
            node = mutator.default_mutate(node)
            if not isinstance(node.op, ir.Op) or node.op.name != MASKED_STORE:
                return node
            buffer, value, *rest = node.args
            function = _needed(value)
            if function is None:
                return node
            functions.append(function)
            fenced = tirx.call_pure_extern(str(value.ty.dtype), function.symbol, value)
            return ir.Call(node.op, [buffer, fenced, *rest], node.attrs, span=node.span, ret_ty=node.ty)

        body = visit.mutate(func.body, (ir.Call, call))
        return func.with_body(importing(functions, body, func.span) if functions else body, func.span)


def _needed(value: ir.Expr) -> Function | None:
    """The fence for the value of a masked store; `None` where there is nothing narrowed in it."""
    dtype = value.ty.dtype
    name = str(dtype).removesuffix(f"x{dtype.lanes}")
    if not name.startswith(("int", "uint")) or isinstance(value, ir.TensorLoad):
        return None
    return fence(name, int(dtype.bits), int(dtype.lanes))
