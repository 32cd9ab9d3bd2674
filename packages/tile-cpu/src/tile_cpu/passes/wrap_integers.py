"""Integer data wraps around; index arithmetic does not.

TVM's code generator tells LLVM that 32- and 64-bit sums and products never overflow, and LLVM then decides `x + 1 >
x` without looking. For indices that is true and makes addresses cheap. For values it is not: numpy and torch wrap,
and hashes depend on it. So sums, differences and products that are stored, that read memory, or that are unsigned
become calls to one-line LLVM functions without the promise, which are inlined. Unsigned ones of every width do,
because TVM's analyzer refuses a constant `0 - 1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext

_OPERATIONS = {E.Add: "add", E.Sub: "sub", E.Mul: "mul"}
_LOADS = ("tirx.masked_load",)


@dataclass(frozen=True)
class WrapIntegers:
    """See the module's docstring."""

    name: ClassVar[str] = "wrap_integers"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        wrapper = _Wrapper()
        body = visit.mutate(
            func.body,
            (S.BufferStore, wrapper.store),
            (S.Bind, wrapper.bind),
            (E.Let, wrapper.let),
            (tuple(_OPERATIONS), wrapper.index),
        )
        if not wrapper.functions:
            return func
        text = ir.StringImm("".join(wrapper.functions[symbol] for symbol in sorted(wrapper.functions)))
        return func.with_body(S.AttrStmt(E.IntImm("int32", 0), "pragma_import_llvm", text, body), func.span)


class _Wrapper:
    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self._data: set[ir.Var] = set()

    def store(self, store: S.BufferStore, mutator: Any) -> S.Stmt:
        indices = [mutator.mutate(index) for index in store.indices]
        return rebuild.store(store, value=self._value(store.value, mutator), indices=indices)

    def bind(self, stmt: S.Bind, mutator: Any) -> S.Stmt:
        if self._is_data(stmt.value):
            self._data.add(stmt.var)
        return mutator.default_mutate(stmt)

    def let(self, let: E.Let, mutator: Any) -> ir.Expr:
        if self._is_data(let.value):
            self._data.add(let.var)
        return mutator.default_mutate(let)

    def index(self, expr: Any, mutator: Any) -> ir.Expr:
        """A sum or product that may be an index."""
        if not self._is_data(expr) and not str(expr.ty.dtype).startswith("uint"):
            return mutator.default_mutate(expr)
        return self._wrapping(expr, mutator.mutate(expr.a), mutator.mutate(expr.b))

    def _value(self, expr: ir.Expr, outer: Any) -> ir.Expr:
        """A stored expression: everything in it is data, but the indices of its loads."""
        return visit.mutate(
            expr,
            (ir.TensorLoad, lambda load, _: outer.mutate(load)),
            (tuple(_OPERATIONS), lambda node, inner: self._wrapping(node, inner.mutate(node.a), inner.mutate(node.b))),
        )

    def _wrapping(self, expr: Any, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        dtype = expr.ty.dtype
        narrow = str(dtype).startswith("int") and dtype.bits < 32
        if narrow or not str(dtype).startswith(("int", "uint")):
            return type(expr)(a, b)
        operation, lanes = _OPERATIONS[type(expr)], int(dtype.lanes)
        element = f"i{dtype.bits}"
        vector = element if lanes == 1 else f"<{lanes} x {element}>"
        symbol = f"tile_{operation}_{element}" + (f"x{lanes}" if lanes > 1 else "")
        self.functions[symbol] = (
            f"\ndefine {vector} @{symbol}({vector} %a, {vector} %b) {{\n"
            f"  %r = {operation} {vector} %a, %b\n  ret {vector} %r\n}}\n"
        )
        return tirx.call_pure_extern(str(dtype), symbol, a, b)

    def _is_data(self, expr: ir.Expr) -> bool:
        """Whether the value of `expr` comes from memory."""
        found = False

        def note(_node: Any) -> None:
            nonlocal found
            found = True

        def call(node: ir.Call) -> None:
            if isinstance(node.op, ir.Op) and node.op.name in _LOADS:
                note(node)

        def var(node: ir.Var) -> None:
            if node in self._data:
                note(node)

        visit.walk(expr, (ir.TensorLoad, note), (ir.Call, call), (ir.Var, var))
        return found
