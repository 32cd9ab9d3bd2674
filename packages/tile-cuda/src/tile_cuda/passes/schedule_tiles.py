"""Products whose tiles are many waves of the device: as many blocks as fill it walk over them, in clusters of two.

A block that goes on to its next tile loads it while the results of the last one leave, and two blocks that share a tile
halve what the second-level cache delivers for it. `choose` finds the launches for which that pays: one pipeline around
one product, the same work in every block, more tiles than blocks that fit; and no loop that may wait for another block,
nor a foreign function, to which a block is what the device says. `turns_around` wraps the body of such a launch into a
loop over its turns, in which the block's indices still mean what they meant, so that every pass between sees a body
that is repeated. `ScheduleTiles`, at the end, makes the indices names that each turn binds anew.

Clusters lie along the axis whose blocks have the larger tile in common. Where their number along it is odd, the blocks
of the last line pair up along the other axis, and load their tiles alone. The number of blocks is the smallest that
needs no more turns. Clusters are numbered in panels, as `T.use_swizzle` does it, so that a wave covers a square.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod, sqrt
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.ops import tile_op
from tile_core.ir.regions import constant
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes import rebuild
from tile_core.passes.accesses import uses
from tile_core.passes.base import PassContext
from tile_core.passes.plan_shared_memory import size_in_bytes
from tile_core.passes.rasterize_blocks import KEY as SWIZZLE
from tile_core.passes.thread_scope import int32
from tile_cuda.passes.pipelines import Pipeline, statements_of
from tile_cuda.passes.sharing import Cluster, around, decides, divides
from tile_cuda.passes.walk_tiles import MOST_NUMBER, TOGETHER, is_arranged, placed

OPTION = "tile.persistent"
TURNS = "tile.turns"
"""Annotation of the loop over a block's tiles."""
RANK = "cuda.rank_in_pair"
"""The op that stands for the number of a block in its cluster until the grid is what it will be."""
PAIR = 2
OTHER_REGISTERS, COPYING_THREADS = 24, 128
"""Registers of a thread besides its part of fragments, at least, and the threads that copy."""
_OPTIONS = ("tile.schedule.blocks", "tile.schedule.axis", "tile.schedule.first", "tile.schedule.panel")


@dataclass(frozen=True)
class Schedule:
    """Which block runs which tile: `clusters` pairs along `axis` walk panels of `panel` lines of blocks of `first`."""

    extents: tuple[int, int]
    clusters: int
    axis: int
    first: int
    panel: int

    @property
    def paired(self) -> int:
        """Pairs along `axis`."""
        return self.extents[1 - self.axis] * (self.extents[self.axis] // PAIR)

    @property
    def total(self) -> int:
        """All pairs: those of the last line, where it is left over, lie along the other axis."""
        return pairs(self.extents, self.axis)

    @property
    def turns(self) -> int:
        """Tiles of a block, at most."""
        return ceil(self.total / self.clusters)

    def options(self) -> dict[str, int]:
        """As options of a launch."""
        return dict(zip(_OPTIONS, (self.clusters, self.axis, self.first, self.panel), strict=True))

    def cluster(self, launch: launch_ir.Launch) -> Cluster:
        """The pair, as what it shares is decided."""
        rank = tirx.floormod(ir.Call(tile_op(RANK), [], ret_ty=ir.PrimType("int32")), int32(PAIR))
        index = launch.grid_vars[self.axis]
        even = self.extents[self.axis] // PAIR * PAIR
        together = None if even == self.extents[self.axis] else E.LT(index, E.IntImm(index.ty, even))
        return Cluster(PAIR, index, rank, together)

    def places(self, number: ir.Expr, rank: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The block's indices in the pair `number`."""
        lines = [self.extents[0], self.extents[1]]
        lines[self.axis] //= PAIR
        second = 1 - self.first
        panel = max(1, self.panel // PAIR if self.axis == self.first else self.panel)
        index, within = number // int32(lines[second] * panel), number % int32(lines[second] * panel)
        height = tirx.min(int32(panel), int32(lines[self.first]) - index * panel)
        if self.extents[self.axis] % PAIR:
            height = tirx.max(height, int32(1))  # of a pair that is left over the place is another, below
        found = {self.first: index * panel + within % height, second: within // height}
        found[self.axis] = found[self.axis] * PAIR + rank
        if self.extents[self.axis] % PAIR:
            is_paired = E.LT(number, int32(self.paired))
            rest = (number - self.paired) * PAIR + rank
            found[self.axis] = E.Select(is_paired, found[self.axis], int32(self.extents[self.axis] - 1))
            found[1 - self.axis] = E.Select(is_paired, found[1 - self.axis], rest)
        return found[0], found[1]


def pairs(extents: tuple[int, int], axis: int) -> int:
    """Pairs of blocks along `axis`, and across it in a last line that is left over: of all blocks but one at most."""
    across = extents[1 - axis]
    return across * (extents[axis] // PAIR) + extents[axis] % PAIR * (across // PAIR)


def choose(
    launch: launch_ir.Launch, pipelines: Sequence[Pipeline], overlaps: Callable[[S.Stmt], bool], blocks: int
) -> Schedule | None:
    """How `blocks` blocks, as many as run at once, walk over a launch's tiles; `None` where they had better not."""
    extents = [constant(extent) for extent in launch.grid_extents]
    if len(pipelines) != 1 or len(extents) != 2 or launch.cluster_dims != (1, 1, 1) or is_arranged(launch):
        return None
    (pipeline,) = pipelines
    if None in extents or not _is_one_product(launch, pipeline, overlaps):
        return None
    grid = (extents[0] or 0, extents[1] or 0)
    covering = [axis for axis in (0, 1) if grid[axis] >= PAIR and pairs(grid, axis) * PAIR == prod(grid)]
    shared = {axis: _shared_bytes(launch, pipeline, axis) for axis in covering}
    best = max(shared, key=lambda axis: shared[axis], default=0)
    if not shared.get(best):
        return None
    total, fit = pairs(grid, best), blocks // PAIR
    if total <= fit or not fit or PAIR * (total + fit) > MOST_NUMBER:
        return None
    first, panel = _panel(launch, pipeline, blocks)
    return Schedule(grid, ceil(total / ceil(total / fit)), best, first, panel)


def fills_a_multiprocessor(launch: launch_ir.Launch, pipelines: Sequence[Pipeline], capabilities: Any) -> bool:
    """Whether no two blocks fit into a multiprocessor, which would hide each other's starts and ends."""
    rings = sum(pipeline.stages * copy.bytes for pipeline in pipelines for copy in pipeline.copies)
    if 2 * rings > int(capabilities.fact("shared_bytes_per_sm")):
        return True
    tiles = [alloc.buffer for alloc in visit.collect(launch.body, S.AllocBuffer)]
    held = sum(size_in_bytes(tile) // 4 for tile in tiles if regions.scope(tile) == regions.FRAGMENT)
    threads = prod(launch.threads)
    registers = (held // threads + OTHER_REGISTERS) * (threads + COPYING_THREADS)
    return 2 * registers > int(capabilities.fact("registers_per_block"))


def _is_one_product(launch: launch_ir.Launch, pipeline: Pipeline, overlaps: Callable[[S.Stmt], bool]) -> bool:
    """Whether a launch is one loop over one product, which every block runs alike."""
    path = around(launch.body, pipeline.loop)
    if any(not isinstance(stmt, S.SeqStmt) for stmt in path[:-1]) or len(pipeline.groups) != 1:
        return False
    if visit.collect(launch.body, S.While) or any(_is_foreign(call) for call in visit.collect(launch.body, ir.Call)):
        return False
    copied = {copy.target for copy in pipeline.copies}
    others = [stmt for stmt in statements_of(pipeline.loop) if not _fills(stmt, copied)]
    if len(others) != 1 or not overlaps(others[0]):
        return False
    return not any(uses(expr, launch.grid_vars) for expr in decides(pipeline.loop))


def _is_foreign(call: ir.Call) -> bool:
    """Whether a call leaves the program: what it calls may ask the device which block it runs in."""
    return isinstance(call.op, ir.Op) and str(call.op.name) in ("tirx.call_extern", "tirx.call_pure_extern")


def _fills(stmt: S.Stmt, tiles: set[ir.Var]) -> bool:
    return op_name(stmt) == "tile.copy" and view(stmt, OPS).region("dst").source in tiles


def _shared_bytes(launch: launch_ir.Launch, pipeline: Pipeline, axis: int) -> int:
    shared = Cluster(PAIR, launch.grid_vars[axis]).shares(launch, pipeline)
    return sum(copy.bytes for copy in pipeline.copies if copy.target in shared and divides(copy, PAIR))


def _panel(launch: launch_ir.Launch, pipeline: Pipeline, blocks: int) -> tuple[int, int]:
    """The author's wish; else rows of blocks, so many that those which run at once cover a square."""
    for wish in visit.collect(launch.body, S.AttrStmt):
        if wish.attr_key == SWIZZLE:
            return (1 if str(wish.node.value) == "row" else 0), int(wish.value)
    heights = [_lines(launch, pipeline, axis) for axis in (1, 0)]
    return 1, max(PAIR, round(sqrt(blocks * heights[1] / heights[0])))


def _lines(launch: launch_ir.Launch, pipeline: Pipeline, axis: int) -> int:
    """Rows, or columns, of a block's result, in proportion: bytes of what it loads for them."""
    own = [copy.bytes for copy in pipeline.copies if uses(list(copy.source.region), launch.grid_vars[axis : axis + 1])]
    return max(1, sum(own))


def turns_around(launch: launch_ir.Launch, schedule: Schedule) -> launch_ir.Launch:
    """The launch with its body in a loop over the turns."""
    turn = tirx.Var("turn", "int32")
    loop = S.For(
        turn, int32(0), int32(schedule.turns), S.ForKind.SERIAL, launch.body, annotations={TURNS: 1}, span=launch.span
    )
    return replace(launch, body=loop, options={**launch.options, **schedule.options()})


@dataclass(frozen=True)
class ScheduleTiles:
    """See the module."""

    name: ClassVar[str] = "schedule_tiles"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        counters: list[ir.Var] = []

        def place(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            if TOGETHER in launch.options:
                return placed(launch, counters)
            return _scheduled(launch).to_stmt() if _OPTIONS[0] in launch.options else loop

        body = visit.mutate(func.body, (S.For, place))
        return func.with_body(visit.sequence([*map(S.AllocBuffer, counters), body]), func.span)


def _scheduled(launch: launch_ir.Launch) -> launch_ir.Launch:
    clusters, axis, first, panel = (launch.options[key] for key in _OPTIONS)
    x, y = (constant(extent) or 0 for extent in launch.grid_extents)
    schedule = Schedule((x, y), clusters, axis, first, panel)
    block = tirx.Var("block", "int32")
    rank = tirx.floormod(block, int32(PAIR))

    def turn(loop: S.For, mutator: Any) -> S.Stmt:
        if TURNS not in loop.annotations:
            return mutator.default_mutate(loop)
        number = tirx.Var("tile", "int32")
        own = [tirx.Var(str(var.name), var.ty) for var in launch.grid_vars]
        names = dict(zip(launch.grid_vars, own, strict=True))
        body = visit.mutate(mutator.mutate(loop.body), (ir.Var, lambda var, _mutator: names.get(var, var)))
        places = zip(own, schedule.places(number, rank), strict=True)
        binds = [S.Bind(var, place.astype(str(var.ty.dtype)), loop.span) for var, place in places]
        body = visit.sequence([*binds, body], loop.span)
        if schedule.total % clusters:
            body = S.IfThenElse(E.LT(number, int32(schedule.total)), body, None, loop.span)
        at = S.Bind(number, tirx.floordiv(block, int32(PAIR)) + loop.loop_var * clusters, loop.span)
        return rebuild.loop(loop, body=visit.sequence([at, body], loop.span), annotations={})

    def call(node: ir.Call, mutator: Any) -> ir.Expr:
        is_rank = isinstance(node.op, ir.Op) and str(node.op.name) == RANK
        return block if is_rank else mutator.default_mutate(node)

    body = visit.mutate(launch.body, (S.For, turn), (ir.Call, call))
    options = {key: value for key, value in launch.options.items() if key not in _OPTIONS}
    return replace(
        launch,
        grid_vars=(block,),
        grid_extents=(int32(clusters * PAIR),),
        cluster_dims=(PAIR, 1, 1),
        body=body,
        options=options,
    )
