"""Replace the transcendental functions of float32 by arithmetic.

On vectors TVM's code generator calls the C library once a lane; the expansions of `tile_cpu.math` stay in registers.
They stand in scalar code as well, so that a remainder gives the same bits as the main part. Narrower floats compute
in float32; float64 keeps the C library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx

from tile_core.ir import visit
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import CpuFacts, facts_of
from tile_cpu.math.float32 import EXPANSIONS
from tile_cpu.math.values import Formula, Value

_NARROW = ("float16", "bfloat16")
POWER = "pow"
_NAMESPACES = ("tirx", "prim")


@dataclass(frozen=True)
class ExpandMath:
    """See the module's docstring."""

    name: ClassVar[str] = "expand_math"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        facts = facts_of(context.capabilities)

        def call(node: ir.Call, mutator: Any) -> ir.Expr:
            node = mutator.default_mutate(node)
            name = _function(node)
            if name == POWER:
                result = power(*node.args)
            else:
                result = None if name is None else expanded(name, node.args[0], facts)
            return node if result is None else result

        return func.with_body(visit.mutate(func.body, (ir.Call, call)), func.span)


def _function(node: ir.Call) -> str | None:
    """The name of the function that `node` calls, where it has an expansion."""
    namespace, _, name = str(node.op.name).partition(".") if isinstance(node.op, ir.Op) else ("", "", "")
    return name if namespace in _NAMESPACES and (name in EXPANSIONS or name == POWER) else None


def power(base: ir.Expr, exponent: ir.Expr) -> ir.Expr | None:
    """`base` to a small constant power as products, within 1.5 units in the last place; `None` for any other power."""
    dtype = str(base.ty.dtype)
    if dtype not in ("float32", "float64") or not isinstance(exponent, tirx.FloatImm):
        return None
    formula = Formula(fused=False)
    x = formula.let("x", Value(base, formula))
    products = {0.0: x.like(1.0), 1.0: x, 2.0: x * x, 3.0: x * x * x, -1.0: 1.0 / x}
    product = products.get(float(exponent.value))
    return None if product is None else formula.close(product)


def expanded(name: str, argument: ir.Expr, facts: CpuFacts) -> ir.Expr | None:
    """`name(argument)` as arithmetic; `None` for a dtype without expansion."""
    dtype = str(argument.ty.dtype)
    if dtype in _NARROW:
        wide = expanded(name, tirx.Cast("float32", argument), facts)
        return None if wide is None else tirx.Cast(dtype, wide)
    if dtype != "float32":
        return None
    formula = Formula(facts.fma, facts.scales)
    x = formula.let("x", Value(argument, formula))
    return formula.close(EXPANSIONS[name](formula, x))
