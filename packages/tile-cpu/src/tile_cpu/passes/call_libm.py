"""Call the C library for functions that TVM's code generator does not have, or computes by formulas that lose digits.

Measured against the C library: TVM's `atanh` is off by thousands of ulp in float32, its float64 `tanh` of a small
number is 0, and its float64 `exp10` multiplies the exponent by a rounded constant. The library is in every process,
so the compiled object needs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.ir import visit
from tile_core.passes.base import PassContext

_SINGLE = {"tirx.sinh": "sinhf", "tirx.cosh": "coshf", "tirx.atanh": "atanhf"}
_DOUBLE = {"tirx.sinh": "sinh", "tirx.cosh": "cosh", "tirx.atanh": "atanh", "tirx.tanh": "tanh"}
_SYMBOLS = {"float32": _SINGLE, "float64": _DOUBLE}


@dataclass(frozen=True)
class CallLibm:
    """See the module's docstring."""

    name: ClassVar[str] = "call_libm"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (ir.Call, _call))


def _call(call: ir.Call, mutator: Any) -> ir.Expr:
    call = mutator.default_mutate(call)
    if not isinstance(call.op, ir.Op) or not isinstance(call.ty, ir.PrimType):
        return call
    name, dtype = str(call.op.name), str(call.ty.dtype)
    if name == "tirx.exp10" and dtype == "float64":
        return tirx.call_pure_extern(dtype, "pow", E.FloatImm(dtype, 10.0), *call.args)
    symbol = _SYMBOLS.get(dtype, {}).get(name)
    return call if symbol is None else tirx.call_pure_extern(dtype, symbol, *call.args)
