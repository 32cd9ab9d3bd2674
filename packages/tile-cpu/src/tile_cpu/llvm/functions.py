"""LLVM IR functions that a kernel imports: a symbol, the text that defines it, and how TIR calls it.

TVM links the text into the module of the kernel and inlines the function where it is called, so a call costs nothing
and constant arguments are folded. This is the door to instructions for which TVM has no expression.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import stmt as S


@dataclass(frozen=True)
class Function:
    """A function in LLVM IR. `symbol` names everything that the text depends on: equal symbols mean equal texts.

    `declarations` are the lines that declare the intrinsics it calls; a module may hold each only once.
    """

    symbol: str
    text: str
    declarations: tuple[str, ...] = ()

    def call(self, *arguments: ir.Expr | int) -> S.Stmt:
        """A call for its effect; a Python int is passed as i64."""
        values = [tirx.IntImm("int64", value) if isinstance(value, int) else value for value in arguments]
        return S.Evaluate(tirx.call_extern("int32", self.symbol, *values))


def importing(functions: Iterable[Function], body: S.Stmt, span: ir.Span | None = None) -> S.Stmt:
    """`body` with `functions` defined for it."""
    texts: dict[str, None] = {}
    for function in functions:
        texts |= dict.fromkeys((*function.declarations, function.text))
    text = ir.StringImm("\n".join(texts))
    return S.AttrStmt(tirx.IntImm("int32", 0), "pragma_import_llvm", text, body, span)
