"""Blocks that take the next tile of a launch when they are done with one: the storage, and the statements of a turn.

A counter in a workspace tells which tile is next. The copying thread asks it, one tile ahead of its copies, and hands
the number on to the block's other threads through a slot of shared memory, with two barriers like those of a stage. So
tiles begin in their order whatever each of them costs, and all blocks end together.

The counter is a launch's own: one before it sets it to 0, in the order of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.ops import tile_op
from tile_core.ops.atomic import rmw
from tile_core.passes.plan_shared_memory import ALWAYS, ASYNCHRONOUS
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.mbarrier import mbarrier_arrive, mbarrier_wait
from tile_cuda.matrix.warp import WARP
from tile_cuda.passes.assign_roles import ARRIVALS

PART = "tile.walk.taken"
"""Annotation of the storage through which a number goes: what of it an allocation is."""
SLOTS = 2
"""Numbers under way: the copying thread is ahead of the others by a tile."""


@dataclass(frozen=True)
class Handover:
    """Slots through which a copying thread tells the others their tiles, with a full and an empty barrier each."""

    slots: ir.Var
    full: ir.Var
    empty: ir.Var

    def allocations(self) -> list[S.Stmt]:
        """The storage."""
        slots = S.AllocBuffer(self.slots, {ASYNCHRONOUS: ALWAYS, PART: "slots"})
        full = S.AllocBuffer(self.full, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "full", PART: "full"})
        return [slots, full, S.AllocBuffer(self.empty, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "empty", PART: "empty"})]

    def take(self, turn: ir.Expr, tile: ir.Var, thread: ir.Var) -> list[S.Stmt]:
        """What the block's threads do at the start of a turn: `tile` becomes the number of its tile.

        One lane of a warp reads it and says so, behind the exchange: it has arrived in all of them then.
        """
        place, phase = _place(turn)
        is_first = E.EQ(tirx.floormod(thread, int32(WARP)), int32(0))
        read = tirx.if_then_else(is_first, tirx.BufferLoad(self.slots, [place]), int32(0))
        all_lanes = [int32(0), int32(WARP), E.IntImm("uint32", 0xFFFFFFFF)]
        number = tirx.Var("number", "int32")
        return [
            S.Evaluate(mbarrier_wait(_address(self.full, place), phase)),
            S.Bind(number, ir.Call(tile_op("tile.shfl_sync"), [read, *all_lanes], ret_ty=ir.PrimType("int32"))),
            S.Bind(tile, tirx.max(number, int32(0))),
            S.IfThenElse(is_first, S.Evaluate(mbarrier_arrive(_address(self.empty, place))), None),
        ]

    def give(self, turn: ir.Expr, tile: ir.Var, next_tile: ir.Var) -> list[S.Stmt]:
        """What the copying thread does there: it hands on the number in `next_tile`, which becomes `tile`."""
        place, phase = _place(turn)
        return [
            S.Evaluate(mbarrier_wait(_address(self.empty, place), E.Sub(int32(1), phase))),
            S.Bind(tile, tirx.max(tirx.BufferLoad(next_tile, [int32(0)]), int32(0))),
            S.BufferStore(self.slots, tile, [place]),
            S.Evaluate(mbarrier_arrive(_address(self.full, place))),
        ]


def handover() -> Handover:
    """Fresh storage."""

    def shared(name: str, dtype: str) -> ir.Var:
        return tirx.decl_buffer((SLOTS,), dtype, name, scope=regions.SHARED[0])

    return Handover(shared("taken", "int32"), shared("taken_full", "uint64"), shared("taken_empty", "uint64"))


def handover_of(body: S.Stmt) -> Handover:
    """The storage that a launch has."""
    allocations = visit.collect(body, S.AllocBuffer)
    parts = {str(alloc.annotations[PART]): alloc.buffer for alloc in allocations if PART in alloc.annotations}
    return Handover(**parts)


def counter() -> ir.Var:
    """A fresh workspace of one number."""
    return tirx.decl_buffer((1,), "int32", "tiles_taken", scope=regions.GLOBAL)


def cleared(of: ir.Var, span: ir.Span | None) -> S.Stmt:
    """The launch that sets a counter to 0."""
    names = [tirx.Var(name, "int32") for name in ("bx", "tx", "ty", "tz")]
    body = S.BufferStore(of, int32(0), [int32(0)], span)
    launch = launch_ir.Launch(
        grid_vars=(names[0],),
        grid_extents=(int32(1),),
        thread_vars=(names[1], names[2], names[3]),
        threads=(1, 1, 1),
        threads_given=True,
        prelude="",
        cluster_dims=(1, 1, 1),
        body=body,
        span=span,
    )
    return launch.to_stmt()


def asked(of: ir.Var, together: int, next_tile: ir.Var, span: ir.Span | None) -> S.Stmt:
    """The copying thread asks which tile is next: the first `together` are those that blocks begin with."""
    number = rmw(of, [int32(0)], int32(1), "add", 0, span)
    return S.BufferStore(next_tile, E.Add(number, int32(together)), [int32(0)], span)


def _place(turn: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    return tirx.floormod(turn, int32(SLOTS)), tirx.floormod(tirx.floordiv(turn, int32(SLOTS)), int32(2))


def _address(barriers: ir.Var, place: ir.Expr) -> ir.Expr:
    return tirx.address_of(tirx.BufferLoad(barriers, [place]))
