"""From a Python function to the function that traces it.

The definition is rewritten statement by statement into calls on a tracer (`rewrite_statements.py`,
`rewrite_expressions.py`), compiled under the user's file name and line numbers, and given the globals, closure cells
and defaults of the original. Results are kept per code object, so a factory called again only fills in other cells.
"""

from __future__ import annotations

import ast
import reprlib
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tile_core.errors.base import SourceSpan
from tile_core.errors.frontend import ParameterError, SourceUnavailableError
from tile_core.frontend.names import assigned_names, parameter_names
from tile_core.frontend.nodes import TRACER, load
from tile_core.frontend.nodes import definition as function_definition
from tile_core.frontend.places import Place
from tile_core.frontend.rewrite_statements import StatementRewriter
from tile_core.frontend.source import function_source
from tile_core.frontend.tracer import Tracer

_FACTORY = "_tile_factory_"
# The definition is renamed inside of the factory, where its own name would hide the one that its body means.
_BODY = "_tile_body_"


@dataclass(frozen=True)
class RewrittenCode:
    """The compiled rewriting of one definition."""

    code: types.CodeType
    places: tuple[Place, ...]
    span: SourceSpan


_lock = threading.Lock()
# By identity: code objects that differ only in annotations of local names compare equal. The code is kept so that its
# id stays its own.
_rewritten: dict[int, tuple[types.CodeType, RewrittenCode]] = {}


def require_function(value: Any, decorator: str) -> None:
    """Refuse to decorate anything but a function written in Python."""
    if not isinstance(value, types.FunctionType):
        raise ParameterError(
            f"{decorator} decorates a function, not {reprlib.repr(value)}", remedy=f"write @{decorator} above a `def`"
        )


def rewritten_code(func: Callable[..., Any]) -> RewrittenCode:
    """The rewriting of `func`'s definition.

    Raises:
        SourceUnavailableError: the source cannot be found.
        UnsupportedSyntaxError and others: a construct that has no meaning in a kernel.
    """
    # One thread at a time: rewriting changes a tree that is shared until it is taken.
    with _lock:
        found = _rewritten.get(id(func.__code__))
        if found is None:
            found = _rewritten[id(func.__code__)] = func.__code__, _rewrite(func)
        return found[1]


def traced(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function that, called under a builder, emits what `func` describes."""
    rewritten = rewritten_code(func)
    cells = dict(zip(func.__code__.co_freevars, func.__closure__ or (), strict=True))
    cells[TRACER] = types.CellType(Tracer(rewritten.places, _global_containers(func)))
    closure = tuple(cells.get(name) or types.CellType() for name in rewritten.code.co_freevars)
    made = types.FunctionType(rewritten.code, func.__globals__, func.__name__, func.__defaults__, closure)
    made.__kwdefaults__ = func.__kwdefaults__
    made.__qualname__ = func.__qualname__
    return made


def _rewrite(func: Callable[..., Any]) -> RewrittenCode:
    source = function_source(func, take=True)
    rewriter = StatementRewriter(source.file)
    definition = rewriter.function(source.node)
    _refuse_edited(func, source.node)
    return RewrittenCode(
        code=_compile(definition, source.file, func.__code__.co_freevars),
        places=tuple(rewriter.places),
        span=rewriter.header(source.node),
    )


def _refuse_edited(func: Callable[..., Any], node: ast.FunctionDef) -> None:
    """Refuse a source whose names are not those of the compiled function: the file was edited after it was imported."""
    code = func.__code__
    expected = {*parameter_names(node), *assigned_names(node.body)}
    # `@` marks what pytest adds to assertions, `.` what Python adds to comprehensions, which from 3.12 share the scope.
    bound = {name for name in (*code.co_varnames, *code.co_cellvars) if name[0] not in "@."}
    if expected == bound:
        return
    inner = list(ast.walk(node))
    comprehensions = (each.target for each in inner if isinstance(each, ast.comprehension))
    declared = {
        each.target.id for each in inner if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    if expected - bound - declared or bound - expected - set(assigned_names(comprehensions)):
        raise SourceUnavailableError(
            f"the source of {func.__qualname__} in {code.co_filename} is not what was compiled",
            remedy="the file was edited after it was imported: import it again",
        )


def _compile(definition: ast.FunctionDef, file: str, freevars: tuple[str, ...]) -> types.CodeType:
    name, definition.name = definition.name, _BODY
    names = [ast.arg(free) for free in (*freevars, TRACER)]
    arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    factory = function_definition(_FACTORY, arguments, [definition, ast.Return(load(definition.name))])
    ast.copy_location(factory, definition)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    body = _code_named(_code_named(compile(module, file, "exec"), _FACTORY), _BODY)
    return body.replace(co_name=name, co_qualname=name)


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(const for const in code.co_consts if isinstance(const, types.CodeType) and const.co_name == name)


def _global_containers(func: Callable[..., Any]) -> dict[str, Any]:
    """The lists, dicts and sets among the globals that the function names."""
    scope = func.__globals__
    return {name: scope[name] for name in func.__code__.co_names if isinstance(scope.get(name), list | dict | set)}
