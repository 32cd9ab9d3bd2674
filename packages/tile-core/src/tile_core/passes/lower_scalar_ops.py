"""Expand the pure scalar functions of `ops/scalar.py` into plain nodes, except those that the target prints itself.

Operands that are not names or constants are bound first: an expansion names its operands several times, and nested
ones would grow exponentially. A long chain such as `max(max(max(a, b), c), d)` becomes a tree for the same reason: what
LLVM makes of the expansions doubles with each level. The order of a maximum's operands decides nothing but the sign of
a zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.errors.passes import UnsupportedOnTargetError
from tile_core.ir import visit
from tile_core.ir.spans import from_tvm
from tile_core.ops.scalar import ASSOCIATIVE, CAST, SCALARS, expand_call
from tile_core.passes.base import PassContext

SHORT_CHAIN = 4
"""Operands of a chain that stays as it is."""


@dataclass(frozen=True)
class LowerScalarOps:
    """`native` are names of scalar ops that stay calls, for a backend that has them in hardware."""

    native: frozenset[str] = frozenset()
    name: ClassVar[str] = "lower_scalar_ops"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (ir.Call, lambda call, mutator: self._expand(call, mutator, context)))

    def _expand(self, call: ir.Call, mutator: Any, context: PassContext) -> ir.Expr:
        name = str(call.op.name) if isinstance(call.op, ir.Op) else ""
        rewritten = mutator.default_mutate(_balanced(call) if name in ASSOCIATIVE else call)
        if name in self.native or (name not in SCALARS and name != CAST):
            return rewritten
        names: list[tuple[ir.Var, ir.Expr]] = []
        operands = []
        for argument in rewritten.args:
            if not isinstance(argument, ir.Var | E.FloatImm | E.IntImm):
                var = tirx.Var(f"operand{len(names)}", str(argument.ty.dtype))
                names.append((var, argument))
                argument = var
            operands.append(argument)
        expanded = expand_call(rewritten, operands)
        if expanded is None and name in SCALARS:
            kind = getattr(context.target, "kind", "")
            raise UnsupportedOnTargetError(
                f"the target {kind!r} has no instruction for {name.removeprefix('tile.')}",
                remedy="compile for a target that has it, or write the portable form",
                span=from_tvm(call.span),
            )
        if expanded is None:
            return rewritten
        result = mutator.mutate(expanded)
        for var, value in reversed(names):
            result = E.Let(var, value, result)
        return result


def _balanced(call: ir.Call) -> ir.Expr:
    """A chain of calls of one associative function as its first operand and a tree of the others."""
    operands = _chained(call)
    if len(operands) <= SHORT_CHAIN:
        return call
    level = operands[1:]
    while len(level) > 1:
        pairs = [_again(call, level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return _again(call, operands[0], level[0])


def _chained(call: ir.Call) -> list[ir.Expr]:
    """The operands of a chain that goes down on the left, first to last."""
    last: list[ir.Expr] = []
    node: ir.Expr = call
    while isinstance(node, ir.Call) and node.op.same_as(call.op) and len(node.args) == len(call.args):
        node, operand = node.args
        last.append(operand)
    return [node, *reversed(last)]


def _again(call: ir.Call, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return ir.Call(call.op, [a, b], ret_ty=call.ty, span=call.span)
