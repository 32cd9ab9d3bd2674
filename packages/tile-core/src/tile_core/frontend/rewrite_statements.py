"""Rewriting of statements.

Control flow becomes `with` and `for` over scopes of the tracer, never nested functions, so that Python's own scoping,
`break` and `return` keep working where they are decided while tracing. Names assigned inside are handed to the scope at
its ends (`entry`, `end`, `leave`), which is how a name that a device branch or loop rebinds is found.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NoReturn

from tile_core.errors.base import SourceSpan, TileError
from tile_core.errors.frontend import (
    AssignmentTargetError,
    LoopElseError,
    UnsupportedSyntaxError,
)
from tile_core.frontend.names import assigned_names, bindings, parameter_names, read_names
from tile_core.frontend.nodes import (
    TRACER,
    Block,
    assign,
    at,
    bare,
    call,
    call_on,
    definition,
    hand_over,
    lazy,
    load,
    receive,
    text,
    with_,
)
from tile_core.frontend.places import Place
from tile_core.frontend.rewrite_expressions import ExpressionRewriter

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "iadd",
    ast.Sub: "isub",
    ast.Mult: "imul",
    ast.Div: "itruediv",
    ast.FloorDiv: "ifloordiv",
    ast.Mod: "imod",
    ast.Pow: "ipow",
    ast.BitAnd: "iand",
    ast.BitOr: "ior",
    ast.BitXor: "ixor",
    ast.LShift: "ilshift",
    ast.RShift: "irshift",
    ast.MatMult: "imatmul",
}
_REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.FunctionDef: ("a function defined in a traced function", "define it outside and decorate it with @T.macro"),
    ast.AsyncFunctionDef: ("an async function", "a kernel runs from start to end"),
    ast.ClassDef: ("a class defined in a traced function", "define it outside"),
    ast.AsyncFor: ("`async for`", "use `for`"),
    ast.AsyncWith: ("`async with`", "use `with`"),
    ast.Global: ("`global` in a traced function", "pass the value as an argument, or return it from a plain function"),
    ast.Nonlocal: ("`nonlocal` in a traced function", "use T.alloc_var for run-time state"),
}


class StatementRewriter:
    """Rewrites one definition. `places` collects the position of every statement."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: list[Place] = []
        self.loops: list[type[ast.stmt]] = []
        self._temporaries = 0
        self._unread: frozenset[str] = frozenset()
        self._expressions = ExpressionRewriter((), self._refuse)

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The definition rewritten: no decorators, annotations or defaults, which the caller supplies."""
        given = parameter_names(node)
        found = bindings(node.body)
        self._unread = frozenset(given) - read_names(node.body)
        self._expressions = ExpressionRewriter(frozenset(found.names), self._refuse, has_walrus=found.has_walrus)
        unbound = [ast.Name(name, ast.Store()) for name in found.names if name not in given]
        body = self.block(node.body)
        if unbound:
            body.insert(
                0, at(ast.Assign(list[ast.expr](unbound), ast.Attribute(load(TRACER), "UNBOUND", ast.Load())), node)
            )
        return at(definition(node.name, bare(node.args), body or [ast.Pass()]), node)

    def header(self, node: ast.stmt) -> SourceSpan:
        """Where a statement stands; of a compound statement, its first line up to the end of its header."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        last = _header_end(node)
        if last is not None:
            end_line, end_column = last.end_lineno or last.lineno, last.end_col_offset or last.col_offset
        elif hasattr(node, "body"):
            end_line, end_column = node.lineno, node.col_offset + len(type(node).__name__.removesuffix("Def")) + 1
        return SourceSpan(self.file, node.lineno, node.col_offset, end_line, end_column)

    def block(self, nodes: Sequence[ast.stmt]) -> Block:
        """The rewriting of a list of statements."""
        made: Block = []
        for node in nodes:
            made += self.statement(node)
        return made

    def statement(self, node: ast.stmt) -> Block:
        """The statements that stand for one, led by the note of its position."""
        refused = _REFUSED.get(type(node))
        if refused is not None:
            self._refuse(node, UnsupportedSyntaxError, refused[0], refused[1])
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            return [self._expressions.visit(node)]
        made: Block = handler(node)
        place = _at_header(self.header(node))
        return [self._note(node, place), *(at(stmt, place) for stmt in made)]

    def _expr(self, node: ast.Expr) -> Block:
        if isinstance(node.value, ast.Constant):
            return [ast.Pass()]
        return [ast.Expr(call("expression", self._value(node.value)))]

    def _assign(self, node: ast.Assign) -> Block:
        value = self._value(node.value)
        if len(node.targets) == 1:
            return self._store(node.targets[0], value)
        temporary = self._temporary()
        made: Block = [assign(temporary, value)]
        for target in node.targets:
            made += self._store(target, load(temporary))
        return made

    def _annassign(self, node: ast.AnnAssign) -> Block:
        annotation = self._value(node.annotation)
        if not isinstance(node.target, ast.Name):
            if node.value is None:
                self._refuse(node, UnsupportedSyntaxError, "an annotation without a value", "annotate a name")
            return self._store(node.target, call("converted", annotation, self._value(node.value)))
        name = node.target.id
        if node.value is None:
            return [assign(name, call("declare", text(name), load(name), annotation))]
        return [assign(name, call("annotated", text(name), load(name), annotation, self._value(node.value)))]

    def _augassign(self, node: ast.AugAssign) -> Block:
        operator, value, target = text(_OPERATORS[type(node.op)]), self._value(node.value), node.target
        if isinstance(target, ast.Name):
            return [assign(target.id, call("aug", text(target.id), load(target.id), operator, value))]
        if isinstance(target, ast.Subscript):
            made = call("aug_item", self._value(target.value), self._key(target.slice), operator, value)
        else:
            made = call("aug_attribute", self._value(target.value), text(target.attr), operator, value)
        return [ast.Expr(made)]

    def _delete(self, node: ast.Delete) -> Block:
        made: Block = []
        for target in node.targets:
            if isinstance(target, ast.Name):
                made.append(assign(target.id, ast.Attribute(load(TRACER), "UNBOUND", ast.Load())))
            else:
                made.append(ast.Delete([self._expressions.visit(target)]))
        return made

    def _if(self, node: ast.If) -> Block:
        names = assigned_names([*node.body, *node.orelse])
        scope = self._temporary()
        arm = call_on(scope, "arm")
        then: Block = [with_(arm, None, self.block(node.body)), *hand_over(scope, "end", names)]
        made: Block = [
            assign(scope, self._scope("branch", names, self._value(node.test))),
            ast.If(call_on(scope, "take_then"), then, []),
        ]
        if node.orelse:
            made.append(ast.If(call_on(scope, "take_else"), [with_(arm, None, self.block(node.orelse))], []))
        return [*made, *hand_over(scope, "leave", names, always=True)]

    def _for(self, node: ast.For) -> Block:
        names = assigned_names([node.target, *node.body, *node.orelse])
        scope, item = self._temporary(), self._temporary()
        self.loops.append(ast.For)
        body = [*self._bind_raw(node.target, load(item)), *self.block(node.body)]
        self.loops.pop()
        loop = ast.For(ast.Name(item, ast.Store()), load(scope), body, self.block(node.orelse))
        opened = self._scope("loop", names, self._value(node.iter), ast.Constant(bool(node.orelse)))
        return [
            with_(opened, scope, [*receive(scope, "entry", names), loop]),
            *hand_over(scope, "leave", names),
        ]

    def _while(self, node: ast.While) -> Block:
        if node.orelse:
            self._refuse(
                node, LoopElseError, "`while ... else`", "set a T.alloc_var where you break, and test it after the loop"
            )
        self._expressions.refuse_walrus([node.test], "the condition of `while`")
        names = assigned_names(node.body)
        scope = self._temporary()
        self.loops.append(ast.While)
        body = self.block(node.body)
        self.loops.pop()
        guarded = ast.If(call_on(scope, "test", lazy(self._value(node.test))), body, [])
        return [
            with_(self._scope("while_", names), scope, [*receive(scope, "entry", names), guarded]),
            *hand_over(scope, "leave", names),
        ]

    def _with(self, node: ast.With) -> Block:
        return self._with_items(list(node.items), node)

    def _with_items(self, items: list[ast.withitem], node: ast.With) -> Block:
        item, *rest = items
        entered = self._temporary()
        body = [] if item.optional_vars is None else self._bind_raw(item.optional_vars, load(entered))
        body += self._with_items(rest, node) if rest else self.block(node.body)
        names = assigned_names(node.body)
        scope = self._temporary()
        return [
            assign(scope, self._scope("enter", names, self._value(item.context_expr))),
            with_(load(scope), entered, body),
            *hand_over(scope, "leave", names),
        ]

    def _break(self, node: ast.Break) -> Block:
        return self._leave_loop("break_", ast.Break())

    def _continue(self, node: ast.Continue) -> Block:
        return self._leave_loop("continue_", ast.Continue())

    def _leave_loop(self, method: str, native: ast.stmt) -> Block:
        if self.loops and self.loops[-1] is ast.While:
            return [ast.Expr(call(method))]
        return [ast.If(call(method), [native], [])]

    def _return(self, node: ast.Return) -> Block:
        value = ast.Constant(None) if node.value is None else self._value(node.value)
        return [ast.Return(call("return_", value))]

    def _assert(self, node: ast.Assert) -> Block:
        message = ast.Constant(None) if node.msg is None else self._value(node.msg)
        failure = self._temporary()
        failed = ast.Compare(load(failure), [ast.IsNot()], [ast.Constant(None)])
        return [
            assign(failure, call("assert_", self._value(node.test), lazy(message), text(ast.unparse(node.test)))),
            ast.If(failed, [ast.Raise(load(failure))], []),
        ]

    def _raise(self, node: ast.Raise) -> Block:
        return [ast.Expr(call("raise_")), self._expressions.visit(node)]

    def _try(self, node: ast.Try) -> Block:
        handlers = [
            at(
                ast.ExceptHandler(handler.type and self._value(handler.type), handler.name, self.block(handler.body)),
                handler,
            )
            for handler in node.handlers
        ]
        return [
            type(node)(self.block(node.body), handlers, self.block(node.orelse), self.block(node.finalbody)),
        ]

    _trystar = _try

    def _match(self, node: ast.Match) -> Block:
        cases = [
            ast.match_case(case.pattern, case.guard and self._value(case.guard), self.block(case.body))
            for case in node.cases
        ]
        return [ast.Match(self._value(node.subject), cases)]

    def _store(self, target: ast.expr, value: ast.expr) -> Block:
        """Assignment by the rules of `Tracer.assign`."""
        if isinstance(target, ast.Name):
            rule = "assign_unread" if target.id in self._unread else "assign"
            return [assign(target.id, call(rule, text(target.id), load(target.id), value))]
        if isinstance(target, ast.Subscript):
            return [ast.Expr(call("set_item", self._value(target.value), self._key(target.slice), value))]
        if isinstance(target, ast.Attribute):
            return [ast.Expr(call("set_attribute", self._value(target.value), text(target.attr), value))]
        assert isinstance(target, ast.Tuple | ast.List)
        return self._unpack(target, value, self._store, settle=True)

    def _bind_raw(self, target: ast.expr, value: ast.expr) -> Block:
        """Binding of a loop or `with` target: always anew."""
        if isinstance(target, ast.Name):
            return [at(assign(target.id, value), target)]
        if isinstance(target, ast.Tuple | ast.List):
            return [at(stmt, target) for stmt in self._unpack(target, value, self._bind_raw, settle=False)]
        return self._refuse(target, AssignmentTargetError, "a loop or `with` target that is no name", "use a name")

    def _unpack(self, target: ast.Tuple | ast.List, value: ast.expr, store, *, settle: bool) -> Block:  # type: ignore[no-untyped-def]
        temporary = self._temporary()
        plain = [element.value if isinstance(element, ast.Starred) else element for element in target.elts]
        star = next((i for i, element in enumerate(target.elts) if isinstance(element, ast.Starred)), None)
        hints = ast.Tuple(
            [text(element.id if isinstance(element, ast.Name) else "value") for element in plain], ast.Load()
        )
        made: Block = [assign(temporary, call("unpack", value, hints, ast.Constant(star), ast.Constant(settle)))]
        for position, element in enumerate(plain):
            made += store(element, ast.Subscript(load(temporary), ast.Constant(position), ast.Load()))
        return made

    def _key(self, node: ast.expr) -> ast.expr:
        """What stands between brackets, as an expression of its own."""
        if isinstance(node, ast.Slice):
            bounds = [
                ast.Constant(None) if bound is None else self._value(bound)
                for bound in (node.lower, node.upper, node.step)
            ]
            return at(call("slice", *bounds), node)
        if isinstance(node, ast.Tuple):
            return at(ast.Tuple([self._key(element) for element in node.elts], ast.Load()), node)
        return self._value(node)

    def _value(self, node: ast.expr) -> ast.expr:
        made: ast.expr = self._expressions.visit(node)
        return made

    def _scope(self, method: str, names: tuple[str, ...], *arguments: ast.expr) -> ast.Call:
        listed = ast.Tuple([text(name) for name in names], ast.Load())
        return call(method, *arguments, listed, call("locals"))

    def _note(self, node: ast.stmt, place: ast.stmt) -> ast.stmt:
        self.places.append(Place(self.header(node), _targets(node)))
        return at(ast.Expr(call("at", ast.Constant(len(self.places) - 1))), place)

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"{TRACER}{self._temporaries}"

    def _refuse(self, node: ast.AST, error: type[Exception], message: str, remedy: str) -> NoReturn:
        assert issubclass(error, TileError)
        if isinstance(node, ast.stmt):
            span = self.header(node)
        else:
            line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
            span = SourceSpan(self.file, line, column, node.end_lineno or line, node.end_col_offset or column)  # type: ignore[attr-defined]
        raise error(message, remedy=remedy, span=span)


def _at_header(span: SourceSpan) -> ast.stmt:
    return ast.Pass(lineno=span.line, col_offset=span.column, end_lineno=span.end_line, end_col_offset=span.end_column)


def _header_end(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.If | ast.While):
        return node.test
    if isinstance(node, ast.For):
        return node.iter
    if isinstance(node, ast.With):
        last = node.items[-1]
        return last.optional_vars or last.context_expr
    return node.subject if isinstance(node, ast.Match) else None


def _targets(node: ast.stmt) -> tuple[str, ...]:
    """The names that a statement binds itself, in order."""
    if isinstance(node, ast.Assign):
        return assigned_names(node.targets)
    if isinstance(node, ast.AnnAssign | ast.For):
        return assigned_names([node.target])
    if isinstance(node, ast.With):
        return assigned_names([item.optional_vars for item in node.items if item.optional_vars is not None])
    return ()
