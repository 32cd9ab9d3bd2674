"""Blocks that walk over the tiles of a grid which is many waves of the device: attention and what is made like it.

A block that takes one tile after another sets nothing up anew, and while it finishes one its copying thread fills the
stages for the next. Unlike a single product (`schedule_tiles.py`), tiles may differ in length, and nothing is shared
between blocks. Tiles are taken in the order in which the hardware would have begun them: those that run at the same
time lie side by side.

As many blocks as fill the device walk over all tiles, and each takes the next one when it is done with the last
(`take_tiles.py`). Few turns are not worth a counter: then blocks share tiles evenly if all are equally long. Where
lengths differ, a block takes a few, and the hardware gives a multiprocessor that is done its next block: the less a
block takes the better they fill the end of the grid, the more it takes the less is lost between blocks.

A tile has to mean the same whichever block runs it. So a launch whose blocks may tell each other anything (atomic
updates, loops that wait, foreign functions) stays as it is. Blocks that only add to a tensor tell each other nothing,
but the backward pass of attention, which does, is slower when it walks: causal by 2 % on an H200 (docs/verified.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.launch import EVICTION
from tile_core.ir.regions import constant
from tile_core.ops import OPS
from tile_core.ops.base import view
from tile_core.passes import rebuild
from tile_core.passes.accesses import uses
from tile_core.passes.insert_barriers import UNORDERED
from tile_core.passes.plan_shared_memory import size_in_bytes
from tile_core.passes.rasterize_blocks import KEY as SWIZZLE
from tile_core.passes.rasterize_blocks import panels
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.threads import opaque
from tile_cuda.passes.pipelines import TURNS, Pipeline, statements_of
from tile_cuda.passes.sharing import around, decides
from tile_cuda.passes.take_tiles import asked, cleared, counter, handover_of

TOGETHER, EACH = "tile.walk.together", "tile.walk.each"
"""Options of a launch: how many blocks run at the same time, and how many tiles each takes (`Walk.each`)."""
COPYING = 2
"""Value of `TURNS` of the loop of the copying thread."""
LEAST_TURNS = 8
"""Turns of a block for which tiles are counted while the launch runs."""
FEW = 4
"""Tiles of a block where they differ in length: of 2 to 8 and all, the fastest on an H200 (docs/verified.md)."""
LEAST_GROUPS = 2
"""Blocks for each that runs at a time, where tiles differ in length: fewer leave some without work at the end."""
PRODUCTS = 2
"""Products of a loop that make it worth while: with one, `schedule_tiles` knows better."""
MOST_NUMBER = 2**31 - 1
"""Tiles are counted in 32 bits."""
BARRIER_BYTES = 2048
"""What barriers take at most, each in a place of its own."""


@dataclass(frozen=True)
class Walk:
    """`tiles` in groups: the `together` blocks of a group take its tiles in turns, `each` of them at most.

    Where `each` is 0 there are `together` blocks, and each takes the next of all tiles when it is done with one.
    """

    tiles: int
    together: int
    each: int

    @property
    def blocks(self) -> int:
        """All blocks; those of the last group have fewer tiles, and none is without."""
        if self.is_counted:
            return self.together
        groups, rest = divmod(self.tiles, self.together * self.each)
        return groups * self.together + min(rest, self.together)

    def tile(self, block: ir.Expr, turn: ir.Expr) -> ir.Expr:
        """The number of the tile that a block takes in a turn; there may be no such tile."""
        if self.runs_at_once:
            return block + turn * self.together
        group = tirx.floordiv(block, int32(self.together))
        return group * (self.together * self.each) + turn * self.together + block % int32(self.together)

    @property
    def is_counted(self) -> bool:
        """Whether a counter tells which tile is next."""
        return self.each == 0

    @property
    def runs_at_once(self) -> bool:
        """Whether all blocks run at the same time."""
        return self.blocks <= self.together

    @property
    def turns(self) -> int:
        """Turns of a block at most; in the last one of those that count it finds no tile."""
        return self.tiles + 1 if self.is_counted else self.each

    @property
    def highest(self) -> int:
        """The highest number that a block gets, which may be none of a tile."""
        if self.is_counted:
            return self.tiles + self.together - 1
        groups = 1 if self.runs_at_once else ceil(self.blocks / self.together)
        return groups * self.each * self.together - 1

    @property
    def is_even(self) -> bool:
        """Whether every block has all of its tiles."""
        return self.blocks * self.each == self.tiles


def choose_walk(
    launch: launch_ir.Launch,
    pipelines: Sequence[Pipeline],
    overlaps: Callable[[S.Stmt], bool],
    blocks: int,
    room: int,
) -> Walk | None:
    """How blocks, `blocks` of which run at once, walk over a launch's tiles; `None` where each has one of its own.

    `room` is the shared memory of a block, which holds all tiles at once then.
    """
    extents = [constant(extent) for extent in launch.grid_extents]
    if len(pipelines) != 1 or None in extents or launch.cluster_dims != (1, 1, 1) or is_arranged(launch):
        return None
    total = prod(extent or 0 for extent in extents)
    if not 0 < blocks < total or not _is_independent(launch, pipelines[0], overlaps):
        return None
    if _bytes(launch, pipelines[0]) > room:
        return None
    most = ceil(total / blocks)
    each = min(FEW, most // LEAST_GROUPS) if varies(launch, pipelines[0].loop) else most
    walk = Walk(total, blocks, 0 if most >= LEAST_TURNS else each)
    return walk if each > 1 and walk.highest <= MOST_NUMBER else None


def is_arranged(launch: launch_ir.Launch) -> bool:
    """Whether options of a launch, other than how caches keep its tensors, may say how its blocks run."""
    return any(not name.startswith(EVICTION) for name in launch.options)


def _is_independent(launch: launch_ir.Launch, pipeline: Pipeline, overlaps: Callable[[S.Stmt], bool]) -> bool:
    path = around(launch.body, pipeline.loop)
    products = [stmt for stmt in statements_of(pipeline.loop) if overlaps(stmt)]
    if any(not isinstance(stmt, S.SeqStmt) for stmt in path[:-1]) or len(products) < PRODUCTS:
        return False
    if not any(_multiplies_registers(stmt) for stmt in products):
        return False
    names = {str(call.op.name) for call in visit.collect(launch.body, ir.Call) if isinstance(call.op, ir.Op)}
    if any("atomic" in name or name.startswith("tirx.call_") for name in names):
        return False
    return not visit.collect(launch.body, S.While)


def _multiplies_registers(product: S.Stmt) -> bool:
    """Whether a product takes what the threads have computed: then they have work of their own in each step."""
    return regions.scope(view(product, OPS).region("a").source) == regions.FRAGMENT


def _bytes(launch: launch_ir.Launch, pipeline: Pipeline) -> int:
    """Bytes of all shared tiles, with the stages of the pipeline, at most."""
    staged = {copy.target: pipeline.stages for copy in pipeline.copies}
    tiles = [alloc.buffer for alloc in visit.collect(launch.body, S.AllocBuffer)]
    shared = [tile for tile in tiles if regions.scope(tile) in regions.SHARED]
    return BARRIER_BYTES + sum(size_in_bytes(tile) * staged.get(tile, 1) for tile in shared)


def walked(launch: launch_ir.Launch, walk: Walk) -> launch_ir.Launch:
    """The launch with its body in a loop over a block's turns."""
    turn = tirx.Var("turn", "int32")
    turns = int32(walk.turns)
    marks = {TURNS: 1, UNORDERED: 1}
    loop = S.For(turn, int32(0), turns, S.ForKind.SERIAL, launch.body, annotations=marks, span=launch.span)
    return replace(launch, body=loop, options={**launch.options, TOGETHER: walk.together, EACH: walk.each})


def varies(launch: launch_ir.Launch, loop: S.For) -> bool:
    """Whether the number of a loop's iterations may differ between tiles."""
    names = list(launch.grid_vars)
    for bind in visit.collect(launch.body, S.Bind):
        if uses(bind.value, names) or visit.collect(bind.value, ir.TensorLoad):
            names.append(bind.var)
    return any(uses(expr, names) or visit.collect(expr, ir.TensorLoad) for expr in decides(loop))


def copying(program: S.Stmt) -> S.Stmt:
    """The program of the copying thread with its loop over turns marked."""

    def turn(loop: S.For, mutator: Any) -> S.Stmt:
        marks = {**loop.annotations, TURNS: COPYING} if TURNS in loop.annotations else loop.annotations
        return rebuild.loop(loop, body=mutator.mutate(loop.body), annotations=marks)

    return visit.mutate(program, (S.For, turn))


def placed(launch: launch_ir.Launch, counters: list[ir.Var]) -> S.Stmt:
    """The launch with the blocks that walk, and in each turn the indices of its tile as names.

    `counters` gets the workspace that it needs to count tiles.
    """
    extents = [constant(extent) or 0 for extent in launch.grid_extents]
    walk = Walk(prod(extents), launch.options[TOGETHER], launch.options[EACH])
    turns = _Turns(launch, walk, extents, counter() if walk.is_counted else None)
    options = {key: value for key, value in launch.options.items() if key not in (TOGETHER, EACH)}
    grid = (turns.block,), (int32(walk.blocks),)
    own = replace(launch, grid_vars=grid[0], grid_extents=grid[1], body=turns.body(), options=options).to_stmt()
    if turns.counter is None:
        return own
    counters.append(turns.counter)
    return visit.sequence([cleared(turns.counter, launch.span), own], launch.span)


class _Turns:
    """The loops over turns of a launch's programs."""

    def __init__(self, launch: launch_ir.Launch, walk: Walk, extents: list[int], counted: ir.Var | None) -> None:
        self._launch, self._walk, self._extents, self.counter = launch, walk, extents, counted
        self.block = tirx.Var("block", "int32")

    def body(self) -> S.Stmt:
        return visit.mutate(self._launch.body, (S.For, self._turn))

    def _turn(self, loop: S.For, mutator: Any) -> S.Stmt:
        if TURNS not in loop.annotations:
            return mutator.default_mutate(loop)
        tile, launch = tirx.Var("tile", "int32"), self._launch
        own = [tirx.Var(str(var.name), var.ty) for var in launch.grid_vars]
        thread = tirx.Var(str(launch.thread_vars[0].name), launch.thread_vars[0].ty)
        names = dict(zip([*launch.grid_vars, launch.thread_vars[0]], [*own, thread], strict=True))
        body = visit.mutate(mutator.mutate(loop.body), (ir.Var, lambda var, _mutator: names.get(var, var)))
        places = zip(own, _places(launch, tile, self._extents), strict=True)
        binds = [S.Bind(var, place.astype(str(var.ty.dtype)), loop.span) for var, place in places]
        body = visit.sequence([*binds, body], loop.span)
        # As a remainder, so that passes behind this one know which numbers there are.
        here = S.Bind(thread, tirx.floormod(opaque(launch.thread_vars[0]), int32(prod(launch.threads))), loop.span)
        head: list[S.Stmt] = [here] if uses(body, (thread,)) else []
        if self.counter is not None:
            return self._counted(loop, tile, head, body)
        if not self._walk.is_even:
            body = S.IfThenElse(E.LT(tile, int32(self._walk.tiles)), body, None, loop.span)
        head.append(S.Bind(tile, self._walk.tile(self.block, loop.loop_var), loop.span))
        return rebuild.loop(loop, body=visit.sequence([*head, body], loop.span), annotations={})

    def _counted(self, loop: S.For, tile: ir.Var, head: list[S.Stmt], body: S.Stmt) -> S.Stmt:
        """The loop where a counter tells the numbers: it ends with the first one that is none of a tile."""
        assert self.counter is not None
        through, first = handover_of(self._launch.body), []
        if loop.annotations[TURNS] == COPYING:
            ahead = tirx.decl_buffer((1,), "int32", "next_tile", scope=regions.VAR)
            first = [S.AllocBuffer(ahead), S.BufferStore(ahead, self.block, [int32(0)])]
            head += through.give(loop.loop_var, tile, ahead)
            body = visit.sequence([asked(self.counter, self._walk.together, ahead, loop.span), body])
        else:
            head += through.take(loop.loop_var, tile, self._launch.thread_vars[0])
        tiles = int32(self._walk.tiles)
        body = visit.sequence([*head, S.IfThenElse(E.LT(tile, tiles), body, S.Break(loop.span), loop.span)], loop.span)
        return visit.sequence([*first, rebuild.loop(loop, body=body, annotations={})], loop.span)


def _places(launch: launch_ir.Launch, number: ir.Expr, extents: list[int]) -> list[ir.Expr]:
    """The indices of tile `number`, in the author's panels where he wants some."""
    plane = prod(extents[:2])
    found: list[ir.Expr] = [number]
    if len(extents) > 1:
        within = number if len(extents) == 2 else number % int32(plane)
        found = [within % int32(extents[0]), tirx.floordiv(within, int32(extents[0]))]
        wishes = [stmt for stmt in visit.collect(launch.body, S.AttrStmt) if stmt.attr_key == SWIZZLE]
        if wishes:
            sizes = int32(extents[0]), int32(extents[1])
            found = list(panels(within, sizes, max(1, int(wishes[0].value)), str(wishes[0].node.value)))
    return found if len(extents) < 3 else [*found, tirx.floordiv(number, int32(plane))]
