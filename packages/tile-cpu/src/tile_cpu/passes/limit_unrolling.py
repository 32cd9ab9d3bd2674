"""Keep the loops that TVM's unroller could not write out, or not in reasonable size, as loops.

It takes every unrolled loop for one with a constant number of iterations, and writes a million out as a million copies.
LLVM unrolls what stays a loop as far as it pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext

LIMIT = 4096
"""How many statements a loop may become."""


@dataclass(frozen=True)
class LimitUnrolling:
    """See the module's docstring."""

    name: ClassVar[str] = "limit_unrolling"

    def __call__(self, func: tirx.PrimFunc, context: PassContext | None = None) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (S.For, _loop))


def _loop(loop: S.For, mutator: Any) -> S.Stmt:
    loop = mutator.default_mutate(loop)
    if loop.kind != S.ForKind.UNROLLED or (regions.constant(loop.extent) is not None and _size(loop) <= LIMIT):
        return loop
    return rebuild.loop(loop, kind=S.ForKind.SERIAL)


def _size(stmt: S.Stmt) -> int:
    """How many statements there are once every unrolled loop in it is written out."""
    inner = sum(map(_size, visit.children(stmt)))
    if isinstance(stmt, S.For) and stmt.kind == S.ForKind.UNROLLED:
        return (regions.constant(stmt.extent) or 0) * inner
    return inner + (not isinstance(stmt, S.SeqStmt))
