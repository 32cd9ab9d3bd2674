"""What the passes around `lower_tile_ops` and the lowering of `tile.gemm` tell each other.

Statements that bring an operand into another form are marked for `share_operands`. What they read is the operand and
nothing else, so that every block that multiplies the same operand can use the same result. A marked statement is right
by itself: where its operand reaches beyond a tensor, it does not rest on a condition around it.
"""

from __future__ import annotations

from tvm import ir, tirx
from tvm.tirx import stmt as S

PREPARED = "tile.prepared"
INSIDE = "tile_cpu.inside"
"""The attribute of a `tile.gemm` in which `mark_inside` names the operands, of `"abc"`, that surely lie within their
tensor or tile: those may be accessed by address."""
PADDED, DEPTH = "tile_cpu.padded", "tile_cpu.depth"
"""Attributes of a `tile.gemm` from `stream_operands`: A may reach beyond its tensor and reads zeros there;
how many elements along K count, at least 1, the others being zeros or no part of the product."""


def prepared(buffer: ir.Var, steps: S.Stmt) -> S.AttrStmt:
    """`steps`, which fill `buffer`."""
    return S.AttrStmt(buffer, PREPARED, tirx.IntImm("int32", 1), steps, steps.span)


def is_prepared(stmt: S.Stmt) -> bool:
    """Whether `stmt` was made by `prepared`."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == PREPARED
