"""Assertions in a kernel, and the way from a failed one back to its line.

Their error kind is not one of TVM's, so that an assertion of the author and a failure of the host code (`RuntimeError`,
`MemoryError`) are told apart: the jit registers a coded error for it. Compiled code carries the number of an assertion
instead of its place, so that where a checkout lies changes neither the code nor its key in the cache.
"""

from __future__ import annotations

import re

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.base import SourceSpan
from tile_core.ir import visit
from tile_core.ir.spans import from_tvm

KERNEL_ASSERTION = "TileAssertion"
ASSERTION_REMEDY = "the condition is the kernel author's: look at the values that it names"
_NUMBER = re.compile(r" \[assertion (\d+)\]$")


def assertion(condition: ir.Expr, text: str, number: int, span: ir.Span | None) -> S.AssertStmt:
    """Stop the kernel with `text` unless `condition` holds. Number 0: the error will not show the line."""
    # The Python wrapper of TVM 0.27 names its first two parameters in the wrong order.
    kind, marked = ir.StringImm(KERNEL_ASSERTION), f"{text} [assertion {number}]" if number else text
    return S.AssertStmt(condition, kind, [ir.StringImm(marked)], span)


def text_of(message: str) -> str:
    """The author's text of an assertion's message."""
    return _NUMBER.sub("", message)


def number_of(message: str) -> int:
    """The number of the assertion whose message this is, 0 where it has none."""
    found = _NUMBER.search(message)
    return int(found.group(1)) if found else 0


def place_of(message: str, program: tirx.PrimFunc) -> SourceSpan | None:
    """The line of the assertion of `program` that failed with `message`."""
    number = number_of(message)
    for stmt in visit.collect(program.body, S.AssertStmt) if number else ():
        if any(number_of(str(part.value)) == number for part in stmt.message_parts):
            return from_tvm(stmt.span)
    return None
