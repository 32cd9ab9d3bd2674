"""Write the iterations of `T.unroll(..., explicit=True)` out, one after another.

Every other unrolled loop stays a loop: a code generator knows better how far to unroll it. The language makes sure that
the number of iterations is known. Each iteration gets variables of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.frontend import LoopArgumentError
from tile_core.ir import regions, visit
from tile_core.ir.renew import renewed
from tile_core.ir.spans import from_tvm
from tile_core.passes.base import PassContext

UNROLL_EXPLICIT = "tile.unroll_explicit"
UNROLL_FACTOR = "tile.unroll_factor"
"""How far a code generator shall unroll a loop that stays one."""
LIMIT = 4096
"""How many statements a loop may become."""
_SHARED = ("shared", "shared.dyn")


@dataclass(frozen=True)
class UnrollLoops:
    """See the module's docstring."""

    name: ClassVar[str] = "unroll_loops"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (S.For, _loop))


def _loop(loop: S.For, mutator: Any) -> S.Stmt:
    if UNROLL_EXPLICIT not in loop.annotations:
        return mutator.default_mutate(loop)
    body, count = mutator.mutate(loop.body), regions.constant(loop.extent)
    assert count is not None
    # One shared tile serves every iteration: with its own, each would take as many bytes again.
    if any(regions.scope(stmt.buffer) in _SHARED for stmt in visit.collect(body, S.AllocBuffer)):
        return S.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, span=loop.span)
    _check(loop, body, count)
    return visit.sequence([_iteration(loop, body, number) for number in range(count)], loop.span)


def _check(loop: S.For, body: S.Stmt, count: int) -> None:
    size = count * sum(not isinstance(stmt, S.SeqStmt) for stmt in visit.statements(body))
    if size > LIMIT:
        raise LoopArgumentError(
            f"T.unroll with explicit=True over {loop.loop_var.name} becomes {size} statements, more than {LIMIT}",
            remedy="leave out explicit=True, or give unroll_factor=",
            span=from_tvm(loop.span),
        )


def _iteration(loop: S.For, body: S.Stmt, number: int) -> S.Stmt:
    value = E.IntImm(str(loop.loop_var.ty.dtype), number)
    index = value if regions.constant(loop.min) == 0 else loop.min + value
    return visit.mutate(renewed(body), (ir.Var, lambda var, _mutator: index if var.same_as(loop.loop_var) else var))
