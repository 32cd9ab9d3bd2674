"""Which names a piece of a function assigns. Comprehensions and lambdas have scopes of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Nodes that bind a name which is no `ast.Name`, and the field that holds it.
_BINDERS: dict[type[ast.AST], str] = {
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}


@dataclass
class Bindings:
    """The names that a piece of a function binds, in order of first appearance, and whether one is bound by `:=`."""

    names: dict[str, None] = field(default_factory=dict)
    has_walrus: bool = False


def _scan(node: ast.AST, found: Bindings, inner: bool) -> None:
    """Add what `node` binds to `found`; `inner` says that it stands in a comprehension."""
    if isinstance(node, ast.Constant):
        return
    if isinstance(node, ast.Name):
        if not inner and not isinstance(node.ctx, ast.Load):
            found.names[node.id] = None
        return
    _bind(node, found)
    if isinstance(node, ast.Lambda):
        node = node.args
    inner = inner or isinstance(node, _SCOPES)
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    _scan(item, found, inner)
        elif isinstance(value, ast.AST):
            _scan(value, found, inner)


def _bind(node: ast.AST, found: Bindings) -> None:
    """Add the name that `node` itself binds, if it is more than an `ast.Name`."""
    if isinstance(node, ast.NamedExpr):
        # Also in a comprehension, where it binds in the function.
        found.names[node.target.id] = None
        found.has_walrus = True
    elif isinstance(node, ast.alias):
        found.names[(node.asname or node.name).partition(".")[0]] = None
    elif type(node) in _BINDERS:
        bound = getattr(node, _BINDERS[type(node)])
        if bound:
            found.names[bound] = None


def parameter_names(node: ast.FunctionDef) -> tuple[str, ...]:
    """The names of all parameters, `*args` and `**kwargs` included."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return tuple(argument.arg for argument in (*plain, *extra))


def bindings(nodes: Iterable[ast.AST]) -> Bindings:
    """What `nodes` bind or delete."""
    found = Bindings()
    for node in nodes:
        _scan(node, found, inner=False)
    return found


def read_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that `nodes` read, also by `x += y`, or delete."""
    found = [inner for node in nodes for inner in ast.walk(node)]
    plain = (node.id for node in found if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store))
    added = (node.target.id for node in found if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name))
    return frozenset((*plain, *added))


def assigned_names(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """The names that `nodes` bind or delete, in order of first appearance."""
    return tuple(bindings(nodes).names)
