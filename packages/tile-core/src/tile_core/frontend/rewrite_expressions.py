"""Rewriting of expressions: what Python decides by truth becomes a call, which decides or makes an expression of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import NoReturn

from tile_core.errors.frontend import StatementInExpressionError, UnsupportedSyntaxError
from tile_core.frontend.nodes import at, call, lazy, load, text

Refuse = Callable[[ast.AST, type[Exception], str, str], NoReturn]

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_WATCHED_BUILTINS = ("bool", "breakpoint", "range")


class ExpressionRewriter(ast.NodeTransformer):
    """`tracked` are the names whose reads are checked: those that the function assigns."""

    def __init__(self, tracked: Collection[str], refuse: Refuse, *, has_walrus: bool = True) -> None:
        self.tracked = tracked
        self.refuse = refuse
        self.has_walrus = has_walrus

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A read of a tracked name is checked."""
        if isinstance(node.ctx, ast.Load) and node.id in self.tracked:
            return at(call("use", text(node.id), node), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`and` and `or`, whose right sides are evaluated on demand."""
        first, *rest = node.values
        self.refuse_walrus(rest, "the right side of `and`/`or`")
        method = "and_" if isinstance(node.op, ast.And) else "or_"
        operands = [self.visit(first), *(lazy(self.visit(operand)) for operand in rest)]
        return at(call(method, *operands), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """`not`."""
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return at(call("not_", operand), node)
        return at(ast.UnaryOp(node.op, operand), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """`a if c else b`."""
        self.refuse_walrus([node.body, node.orelse], "a side of a ternary")
        return at(
            call("ternary", self.visit(node.test), lazy(self.visit(node.body)), lazy(self.visit(node.orelse))), node
        )

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Comparisons that Python itself would get wrong: chained, of membership, and of equality."""
        if len(node.ops) == 1 and not isinstance(node.ops[0], ast.In | ast.NotIn | ast.Eq | ast.NotEq):
            return self.generic_visit(node)  # type: ignore[return-value]
        self.refuse_walrus(node.comparators[1:], "the right side of a chained comparison")
        symbols = ast.Tuple([text(COMPARISONS[type(op)]) for op in node.ops], ast.Load())
        operands = [self.visit(node.left), self.visit(node.comparators[0])]
        operands += [lazy(self.visit(operand)) for operand in node.comparators[1:]]
        return at(call("compare", symbols, *operands), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """The builtins `bool` and `range`, which ask for numbers, and `breakpoint`, which stops the running kernel."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in _WATCHED_BUILTINS and not node.keywords:
            arguments = [self.visit(argument) for argument in node.args]
            return at(call(f"{function.id}_", self.visit(function), *arguments), node)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        """`name := value`, by the rules of assignment."""
        name = node.target.id
        value = call("assign", text(name), load(name), self.visit(node.value))
        return at(ast.NamedExpr(node.target, value), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        """`lambda`, whose parameters stay."""
        return at(ast.Lambda(self.visit(node.args), self.visit(node.body)), node)

    def visit_Yield(self, node: ast.Yield) -> NoReturn:
        """Refused."""
        self._refuse_suspension(node, "yield")

    def visit_YieldFrom(self, node: ast.YieldFrom) -> NoReturn:
        """Refused."""
        self._refuse_suspension(node, "yield from")

    def visit_Await(self, node: ast.Await) -> NoReturn:
        """Refused."""
        self._refuse_suspension(node, "await")

    def _refuse_suspension(self, node: ast.AST, what: str) -> NoReturn:
        self.refuse(node, UnsupportedSyntaxError, f"`{what}` in a traced function", "a kernel runs from start to end")

    def refuse_walrus(self, nodes: list[ast.expr], where: str) -> None:
        """Refuse `:=` in an expression that becomes a function of its own, where it would bind another name."""
        if not self.has_walrus:
            return
        for root in nodes:
            for node in ast.walk(root):
                if isinstance(node, ast.NamedExpr):
                    self.refuse(
                        node, StatementInExpressionError, f"`:=` in {where}", "assign the name in a statement before it"
                    )
