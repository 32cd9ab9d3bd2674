"""What type checkers and editors see of the language: every name, and where it is defined."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import tile_core.language as T
from tile_core import dtypes


def _declared(module: str) -> set[str]:
    """The names that `from module import *` gives."""
    stub = Path(dtypes.__file__).with_name("_declared.pyi")
    if module == "tile_core.dtypes._declared":
        lines = ast.parse(stub.read_text(encoding="utf-8")).body
        return {
            line.target.id for line in lines if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        }
    return set(importlib.import_module(module).__all__)


def test_every_name_is_visible_without_running_the_module() -> None:
    tree = ast.parse(Path(T.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    visible: set[str] = set()
    for line in block.body:
        assert isinstance(line, ast.ImportFrom) and line.module is not None
        for name in line.names:
            visible |= _declared(line.module) if name.name == "*" else {name.name}
    assert set(T.PORTABLE.exports) <= visible
