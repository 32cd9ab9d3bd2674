"""What is known of the indices of a launch: the ranges of blocks and loop counters, and the values of names."""

from __future__ import annotations

from tvm import ir
from tvm.ir.prim import expr as E
from tvm.sym.analyzer import ConstIntBound
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.analyzer import Analyzer

INT32_END = 2**31


def index_facts(launch: launch_ir.Launch) -> Analyzer:
    """An analyzer that knows them."""
    analyzer = Analyzer()
    for var, extent in zip(launch.grid_vars, launch.grid_extents, strict=True):
        analyzer.bind(var, ir.Range.from_min_extent(E.IntImm(var.ty, 0), extent))
    for stmt in visit.statements(launch.body):
        if isinstance(stmt, S.For):
            first, end = (
                analyzer.const_int_bound(stmt.min),
                analyzer.const_int_bound(analyzer.simplify(stmt.min + stmt.extent)),
            )
            analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent))
            if end.max_value < INT32_END:
                analyzer.update(stmt.loop_var, ConstIntBound(first.min_value, end.max_value - 1))
        elif isinstance(stmt, S.Bind):
            analyzer.bind(stmt.var, stmt.value)
    return analyzer
