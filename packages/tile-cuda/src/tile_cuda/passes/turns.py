"""Two warpgroups that issue the products of a loop in turn, so that one computes while the other multiplies.

Without it both wait for the tensor cores at the same time and then both leave them idle. Each warpgroup waits at a
named barrier of its own before its first product of an iteration, and lets the other begin after its last.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.passes.nests import FOREIGN
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.threads import barrier_arrive, barrier_sync

WARPGROUP = 128
FIRST_BARRIER = 8
"""Named barriers 8 and 9; 1 is the block's own."""


@dataclass(frozen=True)
class Turns:
    """The turns of a loop whose products stand between the statements `first` and `last`."""

    thread: ir.Var
    first: int
    last: int

    def begin(self) -> S.Stmt:
        """Before the loop: the first warpgroup may begin."""
        return self._if(1, barrier_arrive(int32(FIRST_BARRIER), int32(2 * WARPGROUP)))

    def mine(self) -> S.Stmt:
        """Wait until this warpgroup may issue products."""
        return foreign(barrier_sync(FIRST_BARRIER + self._own(), int32(2 * WARPGROUP)))

    def yours(self) -> S.Stmt:
        """Let the other warpgroup issue its products."""
        return foreign(barrier_arrive(FIRST_BARRIER + 1 - self._own(), int32(2 * WARPGROUP)))

    def end(self) -> S.Stmt:
        """Behind the loop: nobody is let begin who does not."""
        return self._if(0, barrier_sync(int32(FIRST_BARRIER), int32(2 * WARPGROUP)))

    def _own(self) -> ir.Expr:
        return tirx.floordiv(self.thread, int32(WARPGROUP))

    def _if(self, warpgroup: int, call: ir.Expr) -> S.Stmt:
        mine = E.EQ(self._own(), int32(warpgroup))
        return S.AttrStmt(int32(0), FOREIGN, int32(0), S.IfThenElse(mine, S.Evaluate(call), visit.sequence([])))


def foreign(call: ir.Expr) -> S.Stmt:
    """A statement that is already a thread's."""
    return S.AttrStmt(int32(0), FOREIGN, int32(0), S.Evaluate(call))
