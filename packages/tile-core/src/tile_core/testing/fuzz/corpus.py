"""Valid programs to start from: the conformance programs, and the code blocks of documentation pages.

A source is the text of a module. A conformance program is cut out of its module together with what it needs, so that a
mutation touches one program and a reproducer is short.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tile_core.testing.fuzz.mutate import places
from tile_core.testing.program import Program
from tile_core.testing.programs import PROGRAMS

LARGE = ("D11",)
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Source:
    """A module's text. `entry` is the function of it that takes a `Run`; without one the module itself is the program.

    `TARGET` in the text is the target that it runs on.
    """

    name: str
    text: str
    entry: str | None = None


@cache
def conformance_sources() -> tuple[Source, ...]:
    """The conformance programs that call a kernel; those that only expect refusals have nothing to mutate.

    Tensors of gigabytes are left out: the judge copies every argument.
    """
    small = (program for program in PROGRAMS if program.case not in LARGE)
    return tuple(source for program in small for source in (_cut_out(program),) if "run.raises" not in source.text)


def _cut_out(program: Program) -> Source:
    module = importlib.import_module(program.body.__module__)
    tree = ast.parse(inspect.getsource(module))
    kept = [stmt for stmt in tree.body if _is_needed(stmt, program.body.__name__)]
    return Source(program.id, ast.unparse(ast.Module(kept, [])), program.body.__name__)


def _is_needed(stmt: ast.stmt, entry: str) -> bool:
    if isinstance(stmt, ast.FunctionDef):
        is_program = any("TABLE" in ast.unparse(each) for each in stmt.decorator_list)
        if stmt.name == entry:
            stmt.decorator_list, stmt.returns = [], None
            return True
        return not is_program
    return "TABLE" not in ast.unparse(stmt) and "ProgramTable" not in ast.unparse(stmt)


def page_sources(path: Path) -> Iterator[Source]:
    """The code blocks of a Markdown page, each behind the imports and functions of the blocks before it.

    Where no kernel is among them there is nothing to mutate.
    """
    before: list[ast.stmt] = []
    for number, match in enumerate(_BLOCK.finditer(path.read_text(encoding="utf-8"))):
        block = _Retarget().visit(ast.parse(match[1]))
        module = ast.Module([*before, *block.body], [])
        if places(module).blocks:
            yield Source(f"{path.name}:{number}", ast.unparse(module))
        before += [
            stmt for stmt in block.body if isinstance(stmt, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.Assign)
        ]


class _Retarget(ast.NodeTransformer):
    """`target="…"` becomes `target=TARGET`."""

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        if node.arg == "target":
            return ast.keyword("target", ast.Name("TARGET", ast.Load()))
        return ast.keyword(node.arg, self.visit(node.value))
