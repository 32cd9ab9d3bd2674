"""An estimate of the work of one block, for deciding whether a launch is worth waking other cores for."""

from __future__ import annotations

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.passes.ranges import LIKELY

PER_CALL = 8
"""A function counts like this many stored elements."""

_FREE = (LIKELY, "prim.if_then_else", "tirx.reinterpret", "tirx.address_of", "tirx.buffer_data")


def block_work(stmt: S.Stmt) -> int | None:
    """Elements stored by `stmt`, functions weighed in; `None` where loops have no constant extent."""
    if isinstance(stmt, S.While):
        return None
    if isinstance(stmt, S.BufferStore | S.Evaluate):
        return _expression(stmt.value) + 1
    if isinstance(stmt, S.For):
        extent, inner = constant(stmt.extent), block_work(stmt.body)
        return None if extent is None or inner is None else extent * inner
    if isinstance(stmt, S.IfThenElse):
        sides = [block_work(side) for side in visit.children(stmt)]
        return None if None in sides else max(side or 0 for side in sides)
    parts = [block_work(child) for child in visit.children(stmt)]
    return None if None in parts else sum(part or 0 for part in parts)


def _expression(expr: ir.Expr) -> int:
    calls = [call for call in visit.collect(expr, ir.Call) if getattr(call.op, "name", "") not in _FREE]
    return PER_CALL * len(calls)
