"""Which names a piece of a function assigns. Comprehensions and lambdas have scopes of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterable

_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Assigned(ast.NodeVisitor):
    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self._inner = 0

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del) and not self._inner:
            self.names[node.id] = None

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        # A walrus in a comprehension binds in the function.
        self.names[node.target.id] = None
        self.visit(node.value)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.generic_visit(node.args)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.names[node.name] = None
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        self.names[(node.asname or node.name).partition(".")[0]] = None

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.names[node.name] = None
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.names[node.name] = None

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.names[node.rest] = None
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        inner = isinstance(node, _SCOPES)
        self._inner += inner
        super().generic_visit(node)
        self._inner -= inner


def parameter_names(node: ast.FunctionDef) -> tuple[str, ...]:
    """The names of all parameters, `*args` and `**kwargs` included."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return tuple(argument.arg for argument in (*plain, *extra))


def assigned_names(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """The names that `nodes` bind or delete, in order of first appearance."""
    visitor = _Assigned()
    for node in nodes:
        visitor.visit(node)
    return tuple(visitor.names)
