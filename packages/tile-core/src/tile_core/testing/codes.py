"""One program for every error code: how a table of them is written, and how one is judged.

A program is Python source that must be refused. It is run as a file of its own, so that the line that an error points
at can be compared with the line at fault, which ends in `# HERE`. Tests keep their programs by the name of the error
class, in a table `PROGRAMS` of a file `test_*codes.py`; `listed` reads these tables, so that a test can see that no
code is without one.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile_core.errors import TileError

__all__ = ["HEAD", "Program", "inside", "listed", "refuse"]

HERE = "# HERE"
HEAD = """\
import tile_core as tl
import tile_core.language as T
import torch
"""
_KERNEL = """
@T.prim_func
def kernel({parameters}):
    with T.Kernel({launch}) as bx:
{body}
"""


@dataclass(frozen=True)
class Program:
    """Source that must be refused with a message that has `names`, the thing at fault.

    Without a line that ends in `# HERE` the error has no place in a kernel.
    """

    text: str
    names: str


def inside(
    body: str,
    *,
    parameters: str = 'A: T.Tensor((8,), "int32"), X: T.Tensor((8,), "float32")',
    launch: str = "1, threads=32",
    then: str = "",
) -> str:
    """A program with `body` in its kernel, and the statements `then` after it."""
    block = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return _KERNEL.format(parameters=parameters, launch=launch, body=block) + textwrap.dedent(then)


def refuse(kind: type[TileError], program: Program, scope: Mapping[str, Any] | None = None) -> TileError:
    """Run `program` with the names of `scope`; the error, which must be of `kind`, at the line and name the thing.

    Raises:
        AssertionError: it is not refused like that.
    """
    text = HEAD + program.text
    file = f"<program for {kind.code}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        exec(compile(text, file, "exec"), {"__name__": "program", **(scope or {})})
    except TileError as error:
        _judge(error, kind, program, file)
        return error
    raise AssertionError(f"{kind.__name__}: the program was accepted")


def _judge(error: TileError, kind: type[TileError], program: Program, file: str) -> None:
    assert type(error) is kind, f"{kind.__name__} was expected, not {error}"
    assert program.names in error.message, f"{program.names!r} is not in {error.message!r}"
    assert error.remedy, f"no remedy: {error}"
    assert str(error).startswith(f"{kind.code}: ")
    if HERE not in program.text:
        assert error.span is None or error.span.file != file, f"an unexpected line: {error}"
        return
    assert error.span is not None, f"no line: {error}"
    assert linecache.getline(error.span.file, error.span.line).rstrip().endswith(HERE), f"another line: {error}"
    assert HERE in str(error)
    assert "^" in str(error)


def listed(files: Iterable[Path], table: str = "PROGRAMS") -> dict[str, Path]:
    """The names in the tables of test files, without importing them."""
    found: dict[str, Path] = {}
    for file in files:
        for node in ast.parse(file.read_text("utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            value = getattr(node, "value", None)
            if isinstance(value, ast.Dict) and [getattr(target, "id", "") for target in targets] == [table]:
                found.update({str(key.value): file for key in value.keys if isinstance(key, ast.Constant)})
    return found
