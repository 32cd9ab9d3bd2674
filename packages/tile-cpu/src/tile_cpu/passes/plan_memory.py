"""Decide where each tile of a block lives, once per range of blocks rather than once per use.

* Small tiles and variables go on the stack, where LLVM keeps them in registers if it can. The limits leave room on
  the stacks of worker threads, which are smaller than the main thread's.
* Large tiles are memory that is kept between calls (`keep_memory`), taken at the top of the block's body; `split_host`
  moves those allocations out of the loop over blocks. A tile whose extents are computed inside of the block stays
  where it is.
* A `global` allocation inside of a launch is shared by all blocks and moves in front of it.

Everything gets the scope `global`: the other scopes have no meaning to TVM's code generator for CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import WorkspaceLimitError
from tile_core.ir import regions, visit
from tile_core.ir.regions import constant
from tile_core.ir.spans import from_tvm
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_cpu.passes.map_grid import GRID

ON_STACK = "disable_lower_builtin"
"""TVM's annotation for an allocation that becomes an `alloca` whatever its size."""

LINE = 64
"""Bytes of a cache line."""
LINE_FROM = 1024
"""Bytes from which on a tile on the stack begins a cache line. LLVM keeps smaller ones in registers if it can, which
takes their own type."""


@dataclass(frozen=True)
class PlanMemory:
    """`stack_tile` is the largest tile on the stack, `stack_total` the most that all of them may take, in bytes."""

    stack_tile: int = 16 * 1024
    stack_total: int = 128 * 1024
    name: ClassVar[str] = "plan_memory"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        placements: list[dict[str, Any]] = []
        limit = context.capabilities.shared_bytes

        def grid(loop: S.For, mutator: Any) -> S.Stmt:
            if GRID not in loop.annotations:
                return mutator.default_mutate(loop)
            return _Planner(self, limit, placements).plan(loop)

        body = visit.mutate(func.body, (S.For, grid))
        context.report["tiles"] = placements
        shared = [tile["bytes"] for tile in placements if tile["scope"] in regions.SHARED and tile["bytes"] is not None]
        context.report["shared_bytes"] = sum(shared)
        return func.with_body(body, func.span)


class _Planner:
    """Plans the tiles of one launch."""

    def __init__(self, options: PlanMemory, limit: int | None, placements: list[dict[str, Any]]) -> None:
        self._options = options
        self._limit = limit
        self._placements = placements
        self._buffers: dict[ir.Var, ir.Var] = {}
        self._hoisted: list[S.Stmt] = []
        self._global: list[S.Stmt] = []
        self._stack = 0

    def plan(self, loop: S.For) -> S.Stmt:
        allocations = visit.collect(loop.body, S.AllocBuffer)
        self._check(allocations)
        inner = _defined(loop)
        placed = {alloc.buffer: self._place(alloc, inner) for alloc in allocations}
        body = visit.mutate(
            loop.body,
            (S.AllocBuffer, lambda alloc, mutator: placed[alloc.buffer]),
            (ir.Var, lambda var, mutator: self._buffers.get(var, var)),
        )
        body = visit.sequence([*self._hoisted, body], loop.body.span)
        return visit.sequence([*self._global, rebuild.loop(loop, body=body)], loop.span)

    def _check(self, allocations: list[S.AllocBuffer]) -> None:
        sizes = {alloc.buffer: _bytes(alloc.buffer) or 0 for alloc in allocations if not _is_global(alloc.buffer)}
        total = sum(sizes.values())
        if self._limit is None or total <= self._limit:
            return
        largest = sorted(sizes.items(), key=lambda item: -item[1])
        named = ", ".join(f"{buffer.name} {size}" for buffer, size in largest[:6])
        raise WorkspaceLimitError(
            f"the tiles of one block take {total} bytes, a core may use {self._limit}; in bytes: {named}",
            remedy="use smaller tiles or a narrower dtype",
            span=from_tvm(next(alloc.span for alloc in allocations if alloc.buffer.same_as(largest[0][0]))),
        )

    def _place(self, alloc: S.AllocBuffer, inner: set[ir.Var]) -> S.Stmt:
        """The statement that stands where `alloc` stood; a no-op for an allocation that moved to the top."""
        buffer, size = alloc.buffer, _bytes(alloc.buffer)
        if _is_global(buffer):
            self._global.append(alloc)
            return visit.sequence([])
        replacement = _in_main_memory(buffer)
        self._buffers[buffer] = replacement
        on_stack = size is not None and self._fits_stack(size)
        self._record(buffer, size, "stack" if on_stack else "workspace")
        annotations: Mapping[str, Any] = {ON_STACK: tirx.IntImm("bool", 1)} if on_stack else {}
        moved = S.AllocBuffer(replacement, annotations=annotations, span=alloc.span)
        if on_stack and size is not None and size >= LINE_FROM:
            return _on_lines(moved, size)
        if on_stack or _depends_on(buffer, inner):
            return moved
        self._hoisted.append(moved)
        return visit.sequence([])

    def _fits_stack(self, size: int) -> bool:
        if size > self._options.stack_tile or self._stack + size > self._options.stack_total:
            return False
        self._stack += size
        return True

    def _record(self, buffer: ir.Var, size: int | None, place: str) -> None:
        scope = regions.scope(buffer)
        if scope != regions.VAR:
            self._placements.append({"name": str(buffer.name), "scope": scope, "bytes": size, "place": place})


def _is_global(buffer: ir.Var) -> bool:
    return regions.scope(buffer) == regions.GLOBAL


def _bytes(buffer: ir.Var) -> int | None:
    """The size of a buffer, `None` where an extent is not a constant."""
    extents = [constant(extent) for extent in buffer.shape]
    if None in extents:
        return None
    bits = buffer.dtype.bits * buffer.dtype.lanes
    return math.prod(extent or 0 for extent in extents) * max(bits, 8) // 8


def _in_main_memory(buffer: ir.Var) -> ir.Var:
    return tirx.decl_buffer(
        # LLVM allocates no objects without elements; nothing accesses what a tile of extent 0 has instead.
        [tirx.IntImm(str(extent.ty.dtype), 1) if constant(extent) == 0 else extent for extent in buffer.shape],
        str(buffer.dtype),
        buffer.name,
        strides=buffer.strides,
        elem_offset=buffer.elem_offset,
        data_alignment=buffer.data_alignment,
        layout=None,
    )


def _on_lines(alloc: S.AllocBuffer, size: int) -> S.Stmt:
    """A tile on the stack that begins a cache line.

    TVM aligns an `alloca` to what its elements need, at most 16 bytes beyond that; an element is a whole line here.
    A vector load that crosses a line takes twice as long.
    """
    tile = alloc.buffer
    lines = tirx.decl_buffer([-(-size // LINE)], f"uint8x{LINE}", f"{tile.name}_lines")
    return visit.sequence(
        [
            S.AllocBuffer(lines, annotations=alloc.annotations, span=alloc.span),
            S.DeclBuffer(tile, data=tirx.reinterpret(tile.data.ty, lines.data), span=alloc.span),
        ],
        alloc.span,
    )


def _defined(loop: S.For) -> set[ir.Var]:
    """The scalars that get their values inside of the body."""
    names = {inner.loop_var for inner in visit.collect(loop.body, S.For)} | {loop.loop_var}
    return names | {bind.var for bind in visit.collect(loop.body, S.Bind)}


def _depends_on(buffer: ir.Var, names: set[ir.Var]) -> bool:
    return any(var in names for extent in buffer.shape for var in visit.collect(extent, ir.Var))
