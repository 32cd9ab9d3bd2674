"""Compute sin and cos of float32 vectors by functions in LLVM IR.

TVM's code generator calls the C library once a lane. Scalars keep calling it, and so do vectors on machines without a
fused multiply-add, on which the reduction of the argument rests.
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
from tile_cpu.llvm.trigonometry import QUADRANT, trigonometric
from tile_cpu.passes.map_grid import GRID


@dataclass(frozen=True)
class ImportFunctions:
    """See the module's docstring. Runs after vectorisation."""

    name: ClassVar[str] = "import_functions"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        if not facts_of(context.capabilities).fma:
            return func
        return visit.mutate(func, (S.For, _grid))


def _grid(loop: S.For, mutator: Any) -> S.Stmt:
    if GRID not in loop.annotations:
        return mutator.default_mutate(loop)
    functions: list[Function] = []

    def call(node: ir.Call, inner: Any) -> ir.Expr:
        node = inner.default_mutate(node)
        name = str(node.op.name).rpartition(".")[2] if isinstance(node.op, ir.Op) else ""
        lanes = int(node.ty.dtype.lanes) if isinstance(node.ty, ir.PrimType) else 1
        if name not in QUADRANT or lanes == 1 or node.ty.dtype != f"float32x{lanes}":
            return node
        function = trigonometric(name, lanes)
        functions.append(function)
        return tirx.call_pure_extern(str(node.ty.dtype), function.symbol, *node.args)

    body = visit.mutate(loop.body, (ir.Call, call))
    return rebuild.loop(loop, body=importing(functions, body, loop.span) if functions else body)
