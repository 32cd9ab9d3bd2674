"""Rules about device loops that hold whatever the values are."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tile_core.errors.base import SourceSpan, TileError
from tile_core.frontend import refusals
from tile_core.frontend.names import assigned_names

_LOOPS = ("serial", "Serial", "unroll", "Unroll", "Pipelined", "Persistent", "grid", "range")
_UNORDERED = ("Parallel", "parallel", "vectorized", "Vectorized")
_VARIABLES = ("alloc_var",)
_MUTATORS = ("append", "extend", "insert", "add", "update", "setdefault", "discard")


def device_rules(function: ast.FunctionDef, file: str) -> list[TileError]:
    """The errors of one traced function."""
    rules = _Rules(file)
    for stmt in function.body:
        rules.visit(stmt)
    return rules.found


class _Rules(ast.NodeVisitor):
    """Walks statements in order; `held` and `lists` are the names bound so far to plain values and to containers."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[TileError] = []
        self.held: set[str] = set()
        self.lists: set[str] = set()
        self.loops: list[str] = []

    def visit_Assign(self, node: ast.Assign) -> None:
        """Note what names hold."""
        self.visit(node.value)
        names = set(assigned_names(node.targets))
        variable = isinstance(node.value, ast.Call) and _called(node.value) in _VARIABLES
        container = isinstance(node.value, ast.List | ast.Dict | ast.Set)
        self.held = self.held - names if variable else self.held | names
        self.lists = self.lists | names if container and not self._in_device_loop() else self.lists - names

    def visit_For(self, node: ast.For) -> None:
        """A loop: of the kernel by its iterable, else Python's."""
        kind = _called(node.iter) if isinstance(node.iter, ast.Call) else ""
        device = kind in (*_LOOPS, *_UNORDERED)
        if device and node.orelse:
            self._report(node, refusals.loop_else(kind))
        if device:
            self._carried(f"device loop ({kind})", node.body, node.target)
        self._inside(kind if device else "python", node.body)
        for stmt in node.orelse:
            self.visit(stmt)

    def visit_While(self, node: ast.While) -> None:
        """A `while`, which is always the kernel's."""
        if isinstance(node.test, ast.Constant) and node.test.value:
            self._report(node, refusals.endless_while(repr(node.test.value)))
        self._carried("device loop (while)", [*node.body], None, condition=node.test)
        self._inside("while", node.body)

    def visit_Break(self, node: ast.Break) -> None:
        """`break`, refused where iterations have no order."""
        self._leaving(node, "break")

    def visit_Continue(self, node: ast.Continue) -> None:
        """`continue`, likewise."""
        self._leaving(node, "continue")

    def visit_Return(self, node: ast.Return) -> None:
        """`return`, refused in a loop of the kernel."""
        if self._in_device_loop():
            self._report(node, refusals.device_return())

    def visit_Raise(self, node: ast.Raise) -> None:
        """`raise`, refused in a loop of the kernel."""
        if self._in_device_loop():
            self._report(node, refusals.device_raise())

    def visit_Call(self, node: ast.Call) -> None:
        """A call that changes a Python container inside of a loop of the kernel."""
        target = node.func
        if (
            isinstance(target, ast.Attribute)
            and target.attr in _MUTATORS
            and isinstance(target.value, ast.Name)
            and target.value.id in self.lists
            and self._in_device_loop()
        ):
            self._report(node, refusals.changed_state("container", target.value.id, "device loop"))
        self.generic_visit(node)

    def _inside(self, kind: str, body: Sequence[ast.stmt]) -> None:
        self.loops.append(kind)
        for stmt in body:
            self.visit(stmt)
        self.loops.pop()

    def _in_device_loop(self) -> bool:
        return any(kind != "python" for kind in self.loops)

    def _leaving(self, node: ast.stmt, word: str) -> None:
        if self.loops and self.loops[-1] in _UNORDERED:
            self._report(node, refusals.unordered(word, self.loops[-1]))

    def _carried(
        self, where: str, body: list[ast.stmt], target: ast.expr | None, condition: ast.expr | None = None
    ) -> None:
        """Names bound before a loop to a plain value, read in it before the loop assigns them."""
        unsafe = self.held & set(assigned_names(body)) - set(assigned_names([target] if target else []))
        if condition is not None:
            self._reads(where, condition, unsafe)
        for stmt in body:
            if isinstance(stmt, ast.Assign):
                self._reads(where, stmt.value, unsafe)
                unsafe = unsafe - set(assigned_names(stmt.targets))
            elif isinstance(stmt, ast.AugAssign) and isinstance(stmt.target, ast.Name) and stmt.target.id in unsafe:
                self._report(stmt, refusals.carried(stmt.target.id, where))
                unsafe = unsafe - {stmt.target.id}
            elif not isinstance(stmt, ast.For | ast.While | ast.If | ast.With | ast.Try | ast.Match):
                self._reads(where, stmt, unsafe)
            else:
                # What a nested block assigns may or may not be assigned: nothing more can be said of it here.
                unsafe = unsafe - set(assigned_names([stmt]))

    def _reads(self, where: str, root: ast.AST, unsafe: set[str]) -> None:
        for node in ast.walk(root):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in unsafe:
                self._report(node, refusals.carried(node.id, where))
                return

    def _report(self, node: ast.stmt | ast.expr, error: TileError) -> None:
        end_line = node.lineno if isinstance(node, ast.For | ast.While) else node.end_lineno or node.lineno
        end_column = node.col_offset + 1 if isinstance(node, ast.For | ast.While) else node.end_col_offset or 0
        error.span = SourceSpan(self.file, node.lineno, node.col_offset, end_line, end_column)
        self.found.append(error)


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))
