"""The bits of the constant 0, read as any dtype, are its 0.

TVM's code generator for LLVM takes the reinterpretation of the constant 0 for a null pointer, and fails on numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx

from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.passes.base import PassContext

REINTERPRET = "tirx.reinterpret"


@dataclass(frozen=True)
class FoldZeroBits:
    """See the module's docstring."""

    name: ClassVar[str] = "fold_zero_bits"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        del context
        return func.with_body(visit.mutate(func.body, (ir.Call, _call)), func.span)


def _call(call: ir.Call, mutator: Any) -> ir.Expr:
    call = mutator.default_mutate(call)
    if not (isinstance(call.op, ir.Op) and call.op.name == REINTERPRET and isinstance(call.ty, ir.PrimType)):
        return call
    if constant(call.args[0]) != 0 or int(call.ty.dtype.lanes) != 1:
        return call
    dtype = str(call.ty.dtype)
    return tirx.FloatImm(dtype, 0.0) if "float" in dtype else tirx.IntImm(dtype, 0)
