"""Take spare launches out of a program on its way, and put them back when they have gone the rest of it alone.

A spare is lowered as every launch is, so that what is wrong with it is told when the program is compiled, and its
source can be read. But nobody waits for its kernel: a backend that compiles the others first has its device compiler
running meanwhile. The program in which they were found is kept twice: once with a call in the place of each spare, once
with nothing in the place of every other launch. Both have the host's statements, which passes learn facts from.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit

_PLACE = "tile_set_aside"
"""The function that is called where a spare was, and the attribute around the spare. Both have the spare's name."""


def without_spares(func: tirx.PrimFunc, after: str) -> tuple[tirx.PrimFunc, tirx.PrimFunc | None]:
    """`func` with its spares set aside, and the program of them alone, `None` without any.

    `after` is the pass that made them; their names begin with it.
    """
    spares = [loop for loop in launch_ir.launches(func.body) if launch_ir.from_stmt(loop).is_spare]
    if not spares:
        return func, None
    names = {loop: ir.StringImm(f"{after} {number}") for number, loop in enumerate(spares)}

    def leave(loop: S.For) -> S.Stmt:
        return S.Evaluate(tirx.call_extern("int32", _PLACE, names[loop]), loop.span) if loop in names else loop

    def keep(loop: S.For) -> S.Stmt:
        if loop not in names:
            return visit.sequence([], loop.span)
        return S.AttrStmt(tirx.IntImm("int32", 0), _PLACE, names[loop], loop, loop.span)

    return launch_ir.replaced(func, leave), launch_ir.replaced(func, keep)


def with_spares(func: tirx.PrimFunc, alone: tirx.PrimFunc) -> tirx.PrimFunc:
    """`func` with what the spares in `alone` have become in their places."""
    places = (attr for attr in visit.collect(alone.body, S.AttrStmt) if attr.attr_key == _PLACE)
    found = {str(attr.value.value): attr.body for attr in places}

    def put_back(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
        return found.get(_name(stmt.value), stmt)

    kept = (S.For, lambda loop, mutator: loop if launch_ir.is_launch(loop) else mutator.default_mutate(loop))
    return func.with_body(visit.mutate(func.body, (S.Evaluate, put_back), kept), func.span)


def _name(value: Any) -> str:
    is_call = isinstance(value, ir.Call) and len(value.args) == 2 and isinstance(value.args[0], ir.StringImm)
    return str(value.args[1].value) if is_call and value.args[0].value == _PLACE else ""
