"""Compute with float32 vectors by functions in LLVM IR: sin, cos, and single instructions in exponentials.

For sin and cos, TVM's code generator calls the C library once a lane. Scalars keep calling it, and so do vectors on
machines without a fused multiply-add, on which the reduction of the argument rests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import facts_of
from tile_cpu.llvm.functions import Function, importing
from tile_cpu.llvm.scaling import rest, scale
from tile_cpu.llvm.trigonometry import QUADRANT, trigonometric
from tile_cpu.math.values import REST, SCALE
from tile_cpu.passes.map_grid import GRID

_EXPONENTS = {SCALE: scale, REST: rest}


@dataclass(frozen=True)
class ImportFunctions:
    """See the module's docstring. Runs after vectorisation."""

    name: ClassVar[str] = "import_functions"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        if not facts_of(context.capabilities).fma:
            return func
        outside = _Calls()
        body = visit.mutate(func.body, (S.For, _grid), (ir.Call, outside.call))
        return func.with_body(outside.imported(body, func.span), func.span)


class _Calls:
    """Rewrites the calls of a loop over blocks, or of what is around them, and collects the functions they need."""

    def __init__(self) -> None:
        self._functions: list[Function] = []

    def call(self, node: ir.Call, mutator: Any) -> ir.Expr:
        node = mutator.default_mutate(node)
        function = _function(node)
        if function is None:
            return node
        self._functions.append(function)
        return tirx.call_pure_extern(str(node.ty.dtype), function.symbol, *node.args)

    def imported(self, body: S.Stmt, span: ir.Span | None) -> S.Stmt:
        """`body` with the functions defined for it."""
        return importing(self._functions, body, span) if self._functions else body


def _grid(loop: S.For, mutator: Any) -> S.Stmt:
    if GRID not in loop.annotations:
        return mutator.default_mutate(loop)
    inside = _Calls()
    body = visit.mutate(loop.body, (ir.Call, inside.call))
    return rebuild.loop(loop, body=inside.imported(body, loop.span))


def _function(node: ir.Call) -> Function | None:
    """What computes a call, `None` where that is not an imported function."""
    if not isinstance(node.op, ir.Op) or not isinstance(node.ty, ir.PrimType):
        return None
    lanes = int(node.ty.dtype.lanes)
    if node.op.name in _EXPONENTS:
        return _EXPONENTS[node.op.name](lanes)
    name = str(node.op.name).rpartition(".")[2]
    single = lanes > 1 and node.ty.dtype == f"float32x{lanes}"
    return trigonometric(name, lanes) if single and name in QUADRANT else None
