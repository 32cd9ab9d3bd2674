"""Say in the report which instructions a kernel would use that its CPU lacks, and what it does instead.

The code is right on every CPU; what is missing only costs time, which nobody would find out otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.spans import from_tvm
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.ops.build import Tile
from tile_core.passes.base import PassContext
from tile_cpu.llvm.features import CpuFacts, facts_of
from tile_cpu.math.float32 import EXPANSIONS

_GEMM = "tile.gemm"
_FUSED = ("float32", "float64")


@dataclass(frozen=True)
class Lacking:
    """What the CPU does not have and what stands in for it."""

    what: str
    instead: str


_DOTS = {
    ("bfloat16", "float32"): ("bf16_dot", Lacking("dot products of bfloat16", "float32 products of converted tiles")),
    ("int8", "int32"): ("int8_dot", Lacking("dot products of int8", "int32 products of widened tiles")),
    ("uint8", "int32"): ("int8_dot", Lacking("dot products of int8", "int32 products of widened tiles")),
}
_NO_FMA = Lacking("a fused multiply-add", "a product and a sum, two instructions and two roundings")


@dataclass(frozen=True)
class ReportFallbacks:
    """`report["fallbacks"]` lists operation, line, what the CPU lacks and what is done instead; empty for most."""

    name: ClassVar[str] = "report_fallbacks"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function as it was."""
        facts = facts_of(context.capabilities)
        rows = [*_products(func, facts), *_functions(func, facts)]
        context.report["fallbacks"] = list({tuple(row.items()): row for row in rows}.values())
        return func


def _products(func: tirx.PrimFunc, facts: CpuFacts) -> Iterator[dict[str, Any]]:
    for stmt in visit.collect(func.body, S.Evaluate):
        if op_name(stmt) != _GEMM:
            continue
        call = view(stmt, OPS)
        a, b, c = (Tile(call.region(side)).dtype.name for side in "abc")
        fact, lacking = _DOTS.get((a, c), (None, None)) if a == b else (None, None)
        operation = f"gemm of {a}"
        if fact is not None and lacking is not None and not getattr(facts, fact):
            yield _row(operation, stmt.span, lacking)
        if c in _FUSED and not facts.fma:
            yield _row(operation, stmt.span, _NO_FMA)


def _functions(func: tirx.PrimFunc, facts: CpuFacts) -> Iterator[dict[str, Any]]:
    if facts.fma:
        return
    for call in visit.collect(func.body, ir.Call):
        name = str(call.op.name).rpartition(".")[2] if isinstance(call.op, ir.Op) else ""
        if name in EXPANSIONS:
            yield _row(name, call.span, _NO_FMA)


def _row(operation: str, span: Any, lacking: Lacking) -> dict[str, Any]:
    place = from_tvm(span)
    line = {"line": place.line} if place is not None else {}
    return {"operation": operation, **line, "lacks": lacking.what, "instead": lacking.instead}
