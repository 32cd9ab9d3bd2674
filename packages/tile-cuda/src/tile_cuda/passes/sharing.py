"""Tiles that every block of a cluster reads: each block loads a part of such a tile for all of them.

A copy whose place does not follow from the block's index along the cluster's axis is the same in all of its blocks. The
bytes that leave the second-level cache for it are divided by the size of the cluster, which is what counts where that
cache is the limit. The blocks fill each other's stages, so a stage is free when the warps of all of them are done with
it, and they must make the same iterations: no bound and no condition around the loop may follow from that index.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.passes.accesses import uses
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.mbarrier import mbarrier_arrive_remote
from tile_cuda.passes.pipelines import Pipeline
from tile_cuda.passes.tensor_copies import TensorCopy

EIGHT_ROWS = 8
"""Rows after which a swizzled order repeats."""


@dataclass(frozen=True)
class Cluster:
    """Blocks that lie next to each other along one axis of the grid; `index` is the block's index along it.

    `given_rank` is the number of a block in its cluster where that does not follow from the index; where `together` is
    false the blocks of a cluster have nothing in common.
    """

    size: int
    index: ir.Var
    given_rank: ir.Expr | None = None
    together: ir.Expr | None = None

    @property
    def rank(self) -> ir.Expr:
        """The number of a block in its cluster, as int32."""
        if self.given_rank is not None:
            return self.given_rank
        rank = tirx.floormod(self.index, E.IntImm(self.index.ty, self.size))
        return rank if str(rank.ty.dtype) == "int32" else rank.astype("int32")

    @property
    def mask(self) -> int:
        """A bit for each of its blocks."""
        return (1 << self.size) - 1

    def arrivals(self, barrier: ir.Expr, thread: ir.Expr, unit: int) -> S.Stmt:
        """Every `unit` threads arrive at the same barrier of every block: by one of them each."""
        number = tirx.floormod(thread, int32(unit))
        return S.IfThenElse(E.LT(number, int32(self.size)), S.Evaluate(mbarrier_arrive_remote(barrier, number)), None)

    def shares(self, launch: launch_ir.Launch, pipeline: Pipeline) -> frozenset[ir.Var]:
        """The tiles of `pipeline` that each block loads a part of; none where blocks may make other iterations."""
        own = _follow_from(self.index, launch.body)
        path = around(launch.body, pipeline.loop)
        if any(uses(expr, own) for stmt in path for expr in decides(stmt)):
            return frozenset()
        return frozenset(
            copy.target
            for copy in pipeline.copies
            if divides(copy, self.size) and not any(uses(axis.min, own) for axis in copy.source.region)
        )


def cluster_of(launch: launch_ir.Launch) -> Cluster | None:
    """The cluster of a launch; `None` without one, and for clusters along several axes, which share nothing."""
    axes = [axis for axis, size in enumerate(launch.cluster_dims) if size > 1]
    if len(axes) != 1 or axes[0] >= len(launch.grid_vars):
        return None
    return Cluster(launch.cluster_dims[axes[0]], launch.grid_vars[axes[0]])


def divides(copy: TensorCopy, size: int) -> bool:
    """Whether a tile is `size` parts that one instruction or more can move: strips, or rows of all strips."""
    strips = copy.columns // copy.strip
    return strips % size == 0 or copy.rows % (size * EIGHT_ROWS) == 0


def _follow_from(index: ir.Var, body: S.Stmt) -> tuple[ir.Var, ...]:
    """`index`, and every name and loop counter whose value follows from it."""
    found = [index]
    while True:
        more = [bind.var for bind in visit.collect(body, S.Bind) if uses(bind.value, found)]
        more += [
            loop.loop_var for loop in visit.collect(body, S.For) if any(uses(expr, found) for expr in decides(loop))
        ]
        more = [var for var in more if var not in found]
        if not more:
            return tuple(found)
        found += more


def decides(stmt: S.Stmt) -> list[ir.Expr]:
    """What decides how often the statements under `stmt` run."""
    if isinstance(stmt, S.For):
        return [stmt.min, stmt.extent]
    return [stmt.condition] if isinstance(stmt, S.IfThenElse) else []


def around(stmt: S.Stmt, loop: S.For) -> list[S.Stmt]:
    """The statements that `loop` stands in, with itself; nothing where it does not stand under `stmt`."""
    if stmt.same_as(loop):
        return [stmt]
    for child in visit.children(stmt):
        found = around(child, loop)
        if found:
            return [stmt, *found]
    return []
