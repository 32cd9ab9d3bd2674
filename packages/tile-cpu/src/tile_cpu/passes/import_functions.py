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
from tile_cpu.llvm import bfloat16
from tile_cpu.llvm.features import facts_of
from tile_cpu.llvm.functions import Function, importing
from tile_cpu.llvm.scaling import rest, scale
from tile_cpu.llvm.trigonometry import QUADRANT, trigonometric
from tile_cpu.math.values import REST, SCALE
from tile_cpu.passes.map_grid import GRID
from tile_cpu.passes.mark_factors import MarkFactors

_EXPONENTS = {SCALE: scale, REST: rest}


@dataclass(frozen=True)
class ImportFunctions:
    """See the module's docstring. Runs after vectorisation."""

    name: ClassVar[str] = "import_functions"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        if not facts_of(context.capabilities).fma:
            return func
        factors = context.state.get(MarkFactors.name, frozenset())
        outside = _Calls(factors)

        def grid(loop: S.For, mutator: Any) -> S.Stmt:
            if GRID not in loop.annotations:
                return mutator.default_mutate(loop)
            return rebuild.loop(loop, body=_Calls(factors).rewritten(loop.body, loop.span))

        return func.with_body(outside.rewritten(func.body, func.span, (S.For, grid)), func.span)


class _Calls:
    """Rewrites the calls of a loop over blocks, or of what is around them, and collects the functions they need.

    `factors` are the tiles of bfloat16 that are rounded to as products read them.
    """

    def __init__(self, factors: frozenset[ir.Var]) -> None:
        self._factors = factors
        self._functions: list[Function] = []

    def rewritten(self, body: S.Stmt, span: ir.Span | None, *others: visit.Callback) -> S.Stmt:
        """`body` with its calls rewritten and the functions defined for it."""
        body = visit.mutate(body, *others, (ir.Call, self._call), (S.BufferStore, self._store))
        return importing(self._functions, body, span) if self._functions else body

    def _call(self, node: ir.Call, mutator: Any) -> ir.Expr:
        node = mutator.default_mutate(node)
        function = _function(node)
        return node if function is None else self._imported(function, str(node.ty.dtype), *node.args)

    def _store(self, stmt: S.BufferStore, mutator: Any) -> S.Stmt:
        stmt = mutator.default_mutate(stmt)
        value = stmt.value
        if stmt.buffer not in self._factors or not isinstance(value, tirx.Cast):
            return stmt
        if (value.ty.dtype, value.value.ty.dtype) != (bfloat16.ROUNDED, bfloat16.GIVEN):
            return stmt
        bits = self._imported(bfloat16.round_factors(), bfloat16.BITS, value.value)
        return rebuild.store(stmt, value=tirx.reinterpret(bfloat16.ROUNDED, bits))

    def _imported(self, function: Function, dtype: str, *arguments: ir.Expr) -> ir.Expr:
        self._functions.append(function)
        return tirx.call_pure_extern(dtype, function.symbol, *arguments)


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
