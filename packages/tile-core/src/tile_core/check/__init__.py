"""A scanner of Python files for what a traced function cannot contain, without running or importing them.

It finds what is wrong whatever the values are: refused statements, names that a device loop carries, breaks out of
loops that have no order. What depends on values (whether a condition is a device value) is found when the function is
traced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tile_core.check.rules import device_rules
from tile_core.errors.base import TileError
from tile_core.frontend.rewrite_statements import StatementRewriter

__all__ = ["scan", "scan_text"]

_DECORATORS = frozenset({"prim_func", "macro", "jit", "inline"})
_PACKAGES = ("tile_", "tilelang")
"""Where the decorators come from: this package, its backends, and TileLang, whose programs run here."""


def scan(path: str | Path) -> list[TileError]:
    """The errors in a file, in the order of its lines.

    Raises:
        OSError: the file cannot be read.
        SyntaxError: it is no Python.
    """
    return scan_text(Path(path).read_text(encoding="utf-8"), str(path))


def scan_text(text: str, file: str) -> list[TileError]:
    """The errors in the text of a file called `file`."""
    found: list[TileError] = []
    for function in _traced_functions(ast.parse(text, file)):
        found += device_rules(function, file)
        # Rewriting changes the tree.
        found += _refused(function, file)
    return sorted(found, key=lambda error: (error.span.line, error.span.column) if error.span else (0, 0))


def _traced_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    origins = _origins(tree)
    for node in ast.walk(tree):
        names = {_decorator(each, origins) for each in getattr(node, "decorator_list", ())}
        if isinstance(node, ast.FunctionDef) and names & _DECORATORS:
            is_factory = any(isinstance(inner, ast.FunctionDef) for inner in node.body)
            if not (is_factory and "jit" in names):
                yield node


def _origins(tree: ast.Module) -> dict[str, str]:
    """What the names that a file imports stand for, in full. Relative imports are unknown."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return found


def _decorator(decorator: ast.expr, origins: dict[str, str]) -> str:
    """The name of a decorator of the tile language, however it was imported; empty for another library's."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    root, _, rest = ast.unparse(target).partition(".")
    origin = origins.get(root)
    if origin is not None and not origin.startswith(_PACKAGES):
        return ""
    return f"{origin or root}.{rest}".rstrip(".").rpartition(".")[2]


def _refused(function: ast.FunctionDef, file: str) -> list[TileError]:
    """What the rewriting of the front end refuses: it stops at the first, which is then taken out."""
    found: list[TileError] = []
    while True:
        try:
            StatementRewriter(file).function(function)
        except TileError as error:
            found.append(error)
            if not _take_out(function, error):
                return found
        else:
            return found


def _take_out(function: ast.FunctionDef, error: TileError) -> bool:
    """Replace the innermost statement at the error's place; false where there is none."""
    if error.span is None:
        return False
    place = error.span.line, error.span.column
    inside = [
        (block, position)
        for block in _blocks(function)
        for position, stmt in enumerate(block)
        if (stmt.lineno, stmt.col_offset) <= place <= (stmt.end_lineno or 0, stmt.end_col_offset or 0)
    ]
    if not inside:
        return False
    block, position = max(inside, key=lambda found: (found[0][found[1]].lineno, found[0][found[1]].col_offset))
    block[position] = ast.copy_location(ast.Pass(), block[position])
    return True


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block
