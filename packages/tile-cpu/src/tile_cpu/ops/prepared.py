"""The mark of statements that bring an operand into another form, for `share_operands` to find.

What they read is an operand of the multiplication and nothing else, so that every block that multiplies the same operand
can use the same result. A marked statement is right by itself: where its operand reaches beyond a tensor, it does not
rest on a condition around it.
"""

from __future__ import annotations

from tvm import ir, tirx
from tvm.tirx import stmt as S

PREPARED = "tile.prepared"


def prepared(buffer: ir.Var, steps: S.Stmt) -> S.AttrStmt:
    """`steps`, which fill `buffer`."""
    return S.AttrStmt(buffer, PREPARED, tirx.IntImm("int32", 1), steps, steps.span)


def is_prepared(stmt: S.Stmt) -> bool:
    """Whether `stmt` was made by `prepared`."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == PREPARED
