"""The syntax-tree nodes that rewriting makes."""

from __future__ import annotations

import ast
from typing import TypeVar

TRACER = "_tile_"
"""The name under which rewritten code reaches its tracer."""

Node = TypeVar("Node", bound=ast.AST)
Block = list[ast.stmt]


def at(node: Node, place: ast.AST) -> Node:
    """Give a made node the position of the user's: one line, since CPython reports a call by its last line.

    What was made below it inherits the position when the whole definition is compiled.
    """
    ast.copy_location(node, place)
    if getattr(place, "end_lineno", None) != getattr(place, "lineno", None):
        node.end_lineno, node.end_col_offset = place.lineno, place.col_offset  # type: ignore[attr-defined]
    return node


def load(name: str) -> ast.Name:
    """`name`, read."""
    return ast.Name(name, ast.Load())


def call(method: str, *arguments: ast.expr) -> ast.Call:
    """A call to the tracer."""
    return ast.Call(ast.Attribute(load(TRACER), method, ast.Load()), list(arguments), [])


def lazy(body: ast.expr) -> ast.Lambda:
    """`lambda: body`."""
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(empty, body)


def definition(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    """A function definition."""
    node = ast.FunctionDef(name, arguments, body, [])
    node.type_params = []  # type: ignore[attr-defined]  # Python 3.12 wants it, 3.11 ignores it.
    return node


def text(value: str) -> ast.Constant:
    """A string constant."""
    return ast.Constant(value)


def bare(arguments: ast.arguments) -> ast.arguments:
    """The parameters without annotations and defaults."""

    def bare(parameters: list[ast.arg]) -> list[ast.arg]:
        return [ast.arg(parameter.arg) for parameter in parameters]

    return ast.arguments(
        posonlyargs=bare(arguments.posonlyargs),
        args=bare(arguments.args),
        vararg=None if arguments.vararg is None else ast.arg(arguments.vararg.arg),
        kwonlyargs=bare(arguments.kwonlyargs),
        kw_defaults=[None for _ in arguments.kwonlyargs],
        kwarg=None if arguments.kwarg is None else ast.arg(arguments.kwarg.arg),
        defaults=[],
    )


def call_on(scope: str, method: str, *arguments: ast.expr) -> ast.Call:
    """A call to a scope held in a temporary."""
    return ast.Call(ast.Attribute(load(scope), method, ast.Load()), list(arguments), [])


def assign(name: str, value: ast.expr) -> ast.Assign:
    """`name = value`."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def with_(context: ast.expr, name: str | None, body: Block) -> ast.With:
    """`with context as name: body`."""
    target = None if name is None else ast.Name(name, ast.Store())
    return ast.With([ast.withitem(context, target)], body or [ast.Pass()])


def receive(scope: str, method: str, names: tuple[str, ...], *arguments: ast.expr) -> Block:
    """`(x, y) = scope.method(...)`."""
    if not names:
        return []
    targets = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
    return [ast.Assign([targets], call_on(scope, method, *arguments))]


def hand_over(scope: str, method: str, names: tuple[str, ...], *, always: bool = False) -> Block:
    """`(x, y) = scope.method((x, y))`."""
    values = ast.Tuple([load(name) for name in names], ast.Load())
    if names:
        return receive(scope, method, names, values)
    return [ast.Expr(call_on(scope, method, values))] if always else []
