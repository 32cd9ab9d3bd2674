"""Give every shared tile its place in one region of the block's shared memory.

Tiles whose lives do not overlap share bytes, but for those annotated `tile.own_place`. A tile lives from its first to
its last access in the order of the program; one used inside of a loop and allocated outside of it lives for the whole
loop, one that a piece of parallel work uses for all of that, since no barrier is within it, an asynchronous one from
the beginning of the kernel, and one that a group of threads uses for all of it. Places are multiples of 128 bytes, so
that every vector access and bank pattern begins as if the tile were alone.

Each allocation is annotated `tile.offset`; the launch gets its `shared_bytes`. The report gets `shared_bytes` and the
tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import SharedMemoryLimitError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.regions import constant
from tile_core.ir.views import view_roots
from tile_core.passes.base import PassContext
from tile_core.passes.nests import is_foreign
from tile_core.passes.thread_scope import PHASE

ALIGNMENT = 128
OFFSET = "tile.offset"
OWN_PLACE = "tile.own_place"
"""Annotation of a tile that shares its bytes with no other."""
ALIGN_TO = "tile.align_to"
"""Annotation of a tile that begins at a multiple of so many bytes."""
STAGES = "tile.stages"
"""Annotation of a tile of a pipelined loop: how many stages it holds, one after another."""
ASYNCHRONOUS = "tile.asynchronous"
"""Annotation of a tile that other threads than the block's write, ahead of its readers.

`ONCE`: never again after the block has last read it. `ALWAYS`: at any time, also where a later pass makes its uses.
"""
ONCE, ALWAYS = 1, 2


def asynchronous(body: S.Stmt) -> dict[ir.Var, int]:
    """The tiles that are allocated as such, and when they are written."""
    allocations = visit.collect(body, S.AllocBuffer)
    return {
        alloc.buffer: int(alloc.annotations[ASYNCHRONOUS]) for alloc in allocations if ASYNCHRONOUS in alloc.annotations
    }


@dataclass
class _Tile:
    buffer: ir.Var
    size: int
    first: int
    last: int
    offset: int = 0
    shares: bool = True
    align_to: int = ALIGNMENT
    stages: int = 1

    def __str__(self) -> str:
        size = f"{self.stages} stages × {self.size // self.stages}" if self.stages > 1 else str(self.size)
        return f"{self.buffer.name} {size} B"

    @property
    def alignment(self) -> int:
        """Bytes: what the tile asks for, and at least `ALIGNMENT`."""
        return max(self.align_to, int(self.buffer.ty.data_alignment))


@dataclass(frozen=True)
class PlanSharedMemory:
    """See the module."""

    name: ClassVar[str] = "plan_shared_memory"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        total = context.report.get("shared_bytes", 0)

        def plan(loop: S.For, mutator: Any) -> S.Stmt:
            nonlocal total
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            tiles = _Lives(launch.body).tiles
            used = _place(tiles)
            _check_limit(used, tiles, context.capabilities.shared_bytes)
            total = max(total, used)
            offsets = {tile.buffer: tile.offset for tile in tiles}
            body = visit.mutate(launch.body, (S.AllocBuffer, lambda node, _: _annotated(node, offsets)))
            return replace(launch, body=body, shared_bytes=used).to_stmt()

        body = visit.mutate(func.body, (S.For, plan))
        context.report["shared_bytes"] = total
        return func.with_body(body, func.span)


class _Lives:
    """The shared tiles of a body and the positions between which each lives."""

    def __init__(self, body: S.Stmt) -> None:
        self._tiles: dict[ir.Var, _Tile] = {}
        self._position = 0
        self._asynchronous = asynchronous(body)
        self._roots = view_roots(body)
        self._loops: list[tuple[int, set[ir.Var]]] = []
        self._walk(body)
        kept = {buffer for buffer, kind in self._asynchronous.items() if kind == ALWAYS}
        self.tiles = [tile for buffer, tile in self._tiles.items() if tile.last >= 0 or buffer in kept]
        beside = {
            self._roots.get(var, var)
            for region in thread_groups.regions_in(body)
            for var in visit.collect(region, ir.Var)
        }
        for tile in self.tiles:
            kind = ALWAYS if tile.buffer in beside else self._asynchronous.get(tile.buffer)
            tile.first = tile.first if kind is None else 0
            tile.last = self._position if kind == ALWAYS else tile.last

    def _walk(self, stmt: S.Stmt) -> None:
        self._position += 1
        if is_foreign(stmt) and regions.constant(stmt.value) == 1:
            return
        if isinstance(stmt, S.AllocBuffer) and regions.scope(stmt.buffer) in regions.SHARED:
            self._tiles[stmt.buffer] = _allocated(stmt)
            for _start, inside in self._loops:
                inside.add(stmt.buffer)
            return
        inner = visit.children(stmt)
        for part in _own_parts(stmt) if inner else (stmt,):
            for buffer in {self._roots.get(var, var) for var in visit.collect(part, ir.Var)} & set(self._tiles):
                self._use(buffer, self._position)
        if not isinstance(stmt, S.For | S.While) and not _is_phase(stmt):
            for child in inner:
                self._walk(child)
            return
        start, inside = self._position, set[ir.Var]()
        self._loops.append((start, inside))
        for child in inner:
            self._walk(child)
        self._loops.pop()
        for buffer, tile in self._tiles.items():
            if buffer not in inside and tile.last >= start:
                self._use(buffer, start)
                self._use(buffer, self._position)

    def _use(self, buffer: ir.Var, position: int) -> None:
        tile = self._tiles[buffer]
        tile.first = position if tile.first < 0 else min(tile.first, position)
        tile.last = max(tile.last, position)


def _is_phase(stmt: S.Stmt) -> bool:
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == PHASE


def _allocated(stmt: S.AllocBuffer) -> _Tile:
    notes = stmt.annotations
    return _Tile(
        stmt.buffer,
        size_in_bytes(stmt.buffer),
        -1,
        -1,
        shares=OWN_PLACE not in notes,
        align_to=max(ALIGNMENT, int(notes.get(ALIGN_TO, 0))),
        stages=int(notes.get(STAGES, 1)),
    )


def _own_parts(stmt: S.Stmt) -> tuple[ir.Expr, ...]:
    """The expressions of a statement that holds others: conditions and bounds read tiles too."""
    if isinstance(stmt, S.For):
        return (stmt.min, stmt.extent)
    if isinstance(stmt, S.IfThenElse | S.While):
        return (stmt.condition,)
    return (stmt.value,) if isinstance(stmt, S.AttrStmt) else ()


def size_in_bytes(buffer: ir.Var) -> int:
    """Bytes of a tile of constant extents."""
    extents = [constant(extent) for extent in buffer.shape]
    assert all(extent is not None for extent in extents)
    element = int(buffer.dtype.bits) * int(buffer.dtype.lanes)
    return -(-prod(extent for extent in extents if extent is not None) * element // 8)


def _place(tiles: list[_Tile]) -> int:
    """Lowest place that is free during a tile's life, the largest tiles first. Returns the bytes in use."""
    placed: list[_Tile] = []
    for tile in sorted(tiles, key=lambda tile: -tile.size):
        for other in sorted(placed, key=lambda other: other.offset):
            apart = tile.first > other.last or other.first > tile.last
            lives_together = not (apart and tile.shares and other.shares)
            meets = tile.offset < other.offset + other.size and other.offset < tile.offset + tile.size
            if lives_together and meets:
                tile.offset = -(-(other.offset + other.size) // tile.alignment) * tile.alignment
        placed.append(tile)
    return max((tile.offset + tile.size for tile in tiles), default=0)


def _check_limit(used: int, tiles: list[_Tile], limit: int | None) -> None:
    if limit is None or used <= limit:
        return
    listed = ", ".join(map(str, sorted(tiles, key=lambda tile: -tile.size)))
    raise SharedMemoryLimitError(
        f"the kernel needs {used} bytes of shared memory, but a block has {limit}: {listed}",
        remedy="use smaller tiles, fewer pipeline stages, or a narrower dtype",
    )


def _annotated(node: S.AllocBuffer, offsets: dict[ir.Var, int]) -> S.Stmt:
    if node.buffer not in offsets:
        # A shared tile without a place is one that nothing uses.
        return visit.sequence([], node.span) if regions.scope(node.buffer) in regions.SHARED else node
    return S.AllocBuffer(node.buffer, {**node.annotations, OFFSET: offsets[node.buffer]}, span=node.span)
