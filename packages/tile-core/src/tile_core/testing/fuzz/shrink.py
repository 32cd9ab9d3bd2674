"""Makes a failing program smaller while it fails in the same way."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Fails = Callable[[str], bool]


def shrunk(text: str, fails: Fails, attempts: int = 300) -> str:
    """The smallest program found from `text` for which `fails` still holds, in at most `attempts` tries."""
    tree = ast.parse(text)
    progress = True
    while progress and attempts > 0:
        progress = False
        for smaller in _smaller(tree):
            attempts -= 1
            if attempts <= 0:
                break
            candidate = ast.unparse(ast.fix_missing_locations(smaller))
            if len(candidate) < len(ast.unparse(tree)) and fails(candidate):
                tree, progress = ast.parse(candidate), True
                break
    return ast.unparse(tree)


def _smaller(tree: ast.Module) -> Iterator[ast.Module]:
    """Trees with one thing less: large things first."""
    sizes = [(len(ast.dump(stmt)), path) for path, stmt in _statements(tree, ())]
    for _, path in sorted(sizes, reverse=True):
        yield _without(tree, path)
        yield _unwrapped(tree, path)
    for position, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.BinOp):
            for side in ("left", "right"):
                yield _replaced(tree, position, side)


Path = tuple[tuple[str, int], ...]


def _statements(node: ast.AST, path: Path) -> Iterator[tuple[Path, ast.stmt]]:
    for field in ("body", "orelse"):
        for position, stmt in enumerate(getattr(node, field, None) or ()):
            if isinstance(stmt, ast.stmt):
                here = (*path, (field, position))
                yield here, stmt
                yield from _statements(stmt, here)


def _block(tree: ast.AST, path: Path) -> tuple[list[ast.stmt], int]:
    *outer, (field, position) = path
    node = tree
    for name, at in outer:
        node = getattr(node, name)[at]
    return getattr(node, field), position


def _without(tree: ast.Module, path: Path) -> ast.Module:
    made = copy.deepcopy(tree)
    block, position = _block(made, path)
    del block[position]
    if not block and path[-1][0] == "body":
        block.append(ast.Pass())
    return made


def _unwrapped(tree: ast.Module, path: Path) -> ast.Module:
    made = copy.deepcopy(tree)
    block, position = _block(made, path)
    body = getattr(block[position], "body", None)
    if body:
        block[position : position + 1] = body
    return made


def _replaced(tree: ast.Module, position: int, side: str) -> ast.Module:
    """The tree with one operation replaced by one of its operands."""
    made = copy.deepcopy(tree)
    wanted = list(ast.walk(made))[position]
    assert isinstance(wanted, ast.BinOp)
    kept = getattr(wanted, side)

    class Replace(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            return kept if node is wanted else self.generic_visit(node)

    Replace().visit(made)
    return made
