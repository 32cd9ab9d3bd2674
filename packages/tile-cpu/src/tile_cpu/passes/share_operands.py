"""Bring an operand of a multiplication into its form once for all blocks that multiply it.

    for by, bx in grid:                               for bx, k in grid:
        for k in range(n):                                fill(panels[bx, k] from B[k * 512:…, bx * 256:…])
            fill(panels from B[k * 512:…, bx * 256:…])    for by, bx in grid:
            multiply(A[by * 256:…], panels, c)                for k in range(n):
                                                                  multiply(A[by * 256:…], panels[bx, k], c)

Packing reads as much memory as a narrow block multiplies, and 8 rows of blocks would pack the same panel 8 times. What
is shared takes as much memory as the operand in its new form; above `most_bytes` every block packs for itself.

An operand is shared if it is read from a tensor that the kernel does not write, at a place that depends on some of the
block's indices only, and on serial loops whose ends are the same in all blocks or bounded by a constant. Several blocks
then read the same elements whenever they run, so no block may write them, under another name either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.ir import launch, regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant
from tile_core.ir.renew import renewed
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import reads_memory
from tile_cpu.ops.prepared import is_prepared

_MOST_AXES = 3
_WIDEST = 2**30


@dataclass(frozen=True)
class ShareOperands:
    """`most_bytes` is the largest operand of known size that is shared. Runs after `lower_tile_ops`."""

    most_bytes: int = 2**30
    name: ClassVar[str] = "share_operands"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass; no mark is left in it."""
        readable = _read_only(func)
        shared: list[str] = []

        def loop(stmt: S.For, mutator: Any) -> S.Stmt:
            if not launch.is_launch(stmt):
                return mutator.default_mutate(stmt)
            return _Launch(launch.from_stmt(stmt), readable, self.most_bytes, shared).rewritten()

        body = _unmarked(visit.mutate(func.body, (S.For, loop)))
        if shared:
            context.report["shared_operands"] = shared
        return func.with_body(body, func.span)


def _unmarked(body: S.Stmt) -> S.Stmt:
    def attribute(stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
        return mutator.mutate(stmt.body) if is_prepared(stmt) else mutator.default_mutate(stmt)

    return visit.mutate(body, (S.AttrStmt, attribute))


def _read_only(func: tirx.PrimFunc) -> set[ir.Var]:
    """The parameters that the function only loads from, or reads by address in a marked statement."""
    seen: dict[ir.Var, int] = {}
    _count(func.body, seen, 1)
    for stmt in visit.collect(func.body, S.AttrStmt):
        if is_prepared(stmt):
            _count(stmt.body, seen, -1)
    return {param for param in func.params if is_buffer_var(param) and not seen.get(param)}


def _count(root: S.Stmt, seen: dict[ir.Var, int], sign: int) -> None:
    """Add the uses of every buffer that are no plain loads; whose address is taken may be written."""
    for var in visit.collect(root, ir.Var):
        seen[var] = seen.get(var, 0) + sign
    for load in visit.collect(root, ir.TensorLoad):
        seen[load.source] = seen.get(load.source, 0) - sign
    for call in visit.collect(root, ir.Call):
        if getattr(call.op, "name", "") == "tirx.address_of":
            source = call.args[0].source
            seen[source] = seen.get(source, 0) + sign


@dataclass(frozen=True)
class _Axis:
    """A variable on which a shared operand depends, and how many values from zero on it may take."""

    var: ir.Var
    extent: ir.Expr


class _Launch:
    """Shares the operands of one launch."""

    def __init__(self, nest: launch.Launch, readable: set[ir.Var], most_bytes: int, report: list[str]) -> None:
        self._nest = nest
        self._readable = readable
        self._most_bytes = most_bytes
        self._report = report
        self._inner = _defined(nest.body)
        self._names = {bind.var: bind.value for bind in visit.collect(nest.body, S.Bind)}
        self._loops = {loop.loop_var: loop for loop in visit.collect(nest.body, S.For)}
        self._before: list[S.Stmt] = []
        self._shared: dict[ir.Var, tuple[ir.Var, list[ir.Expr]]] = {}

    def rewritten(self) -> S.Stmt:
        """The launch, after those that fill what its blocks share."""
        for stmt in visit.collect(self._nest.body, S.AttrStmt):
            if is_prepared(stmt):
                self._share(stmt)
        if not self._shared:
            return self._nest.to_stmt()
        body = _accessing(_without(self._nest.body, self._shared), self._shared)
        return visit.sequence([*self._before, replace(self._nest, body=body).to_stmt()], self._nest.span)

    def _share(self, stmt: S.AttrStmt) -> None:
        tile = stmt.node
        steps = self._resolved(stmt.body)
        axes = self._axes(steps, tile)
        if axes is None:
            return
        shape = [*(axis.extent for axis in axes), *tile.shape]
        known = [constant(extent) for extent in shape]
        if None not in known and math.prod(size or 0 for size in known) * tile.dtype.bits // 8 > self._most_bytes:
            return
        name = str(tile.name)
        buffer = tirx.decl_buffer(shape, str(tile.dtype), name, scope=regions.GLOBAL)
        self._before += [S.AllocBuffer(buffer, span=stmt.span), self._filling(steps, tile, buffer, axes)]
        self._shared[tile] = (buffer, [axis.var for axis in axes])
        self._report.append(name)

    def _filling(self, steps: S.Stmt, tile: ir.Var, buffer: ir.Var, axes: list[_Axis]) -> S.Stmt:
        """The launch in which every block fills the part of `buffer` for one value of each axis."""
        fresh = [tirx.Var(str(axis.var.name), str(axis.var.ty.dtype)) for axis in axes]
        body = _accessing(steps, {tile: (buffer, [axis.var for axis in axes])})
        names = {axis.var: var for axis, var in zip(axes, fresh, strict=True)}
        body = renewed(visit.mutate(body, (ir.Var, lambda var, mutator: names.get(var, var))))
        x, y, z = (tirx.Var(str(var.name), str(var.ty.dtype)) for var in self._nest.thread_vars)
        return replace(
            self._nest,
            grid_vars=tuple(fresh),
            grid_extents=tuple(axis.extent for axis in axes),
            thread_vars=(x, y, z),
            body=body,
        ).to_stmt()

    def _resolved(self, steps: S.Stmt) -> S.Stmt:
        """`steps` with the names of the block replaced by their values."""
        own = _defined(steps)

        def name(var: ir.Var, mutator: Any) -> ir.Expr:
            return mutator.mutate(self._names[var]) if var in self._names and var not in own else var

        return visit.mutate(steps, (ir.Var, name))

    def _axes(self, steps: S.Stmt, tile: ir.Var) -> list[_Axis] | None:
        """The block indices and loops on which `steps` depend; `None` where they depend on anything else."""
        own = _defined(steps) | {tile}
        outer = [var for var in dict.fromkeys(visit.collect(steps, ir.Var)) if var not in own]
        grid = dict(zip(self._nest.grid_vars, self._nest.grid_extents, strict=True))
        axes: list[_Axis] = []
        for var in outer:
            if is_buffer_var(var):
                if var not in self._readable:
                    return None
            elif var in grid:
                axes.append(_Axis(var, grid[var]))
            elif var in self._inner or var in self._nest.thread_vars:
                extent = self._extent(var)
                if extent is None:
                    return None
                axes.append(_Axis(var, extent))
        used = {axis.var for axis in axes}
        again = any(constant(extent) != 1 for var, extent in grid.items() if var not in used)
        return axes if again and 0 < len(axes) <= _MOST_AXES else None

    def _extent(self, var: ir.Var) -> ir.Expr | None:
        """How many values from zero on a serial loop's variable takes, at most, in any block."""
        loop = self._loops.get(var)
        if loop is None or loop.kind != S.ForKind.SERIAL or constant(loop.min) != 0 or loop.step is not None:
            return None
        extent = self._resolved(S.Evaluate(loop.extent)).value
        if reads_memory(extent):
            return None
        grid = set(self._nest.grid_vars)
        free = set(visit.collect(extent, ir.Var))
        if not free & (self._inner | grid):
            return extent
        if free - grid:
            return None
        analyzer = Analyzer()
        for axis, size in zip(self._nest.grid_vars, self._nest.grid_extents, strict=True):
            if (blocks := constant(size)) is not None and blocks > 0:
                analyzer.bind(axis, ir.Range.from_min_extent(tirx.IntImm(str(axis.ty.dtype), 0), size))
        most = int(analyzer.const_int_bound(extent).max_value)
        return tirx.IntImm(str(extent.ty.dtype), most) if 0 < most < _WIDEST else None


def _defined(root: S.Stmt) -> set[ir.Var]:
    """What statements under `root` define."""
    found: set[ir.Var] = set()
    for kind, field in ((S.For, "loop_var"), (S.Bind, "var"), (S.AllocBuffer, "buffer"), (S.DeclBuffer, "buffer")):
        found.update(getattr(stmt, field) for stmt in visit.collect(root, kind))
    return found | {let.var for let in visit.collect(root, tirx.Let)}


def _without(body: S.Stmt, shared: Mapping[ir.Var, object]) -> S.Stmt:
    """`body` without the allocations of shared tiles and the statements that fill them."""
    nothing = visit.sequence([])

    def attribute(stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
        return nothing if is_prepared(stmt) and stmt.node in shared else mutator.default_mutate(stmt)

    def allocation(stmt: S.AllocBuffer, mutator: Any) -> S.Stmt:
        return nothing if stmt.buffer in shared else stmt

    return visit.mutate(body, (S.AttrStmt, attribute), (S.AllocBuffer, allocation))


def _accessing(body: S.Stmt, shared: Mapping[ir.Var, tuple[ir.Var, list[ir.Expr]]]) -> S.Stmt:
    """`body` with every access of a tile made an access of its part of the shared buffer."""

    def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
        node = mutator.default_mutate(node)
        if node.source not in shared:
            return node
        buffer, prefix = shared[node.source]
        return tirx.BufferLoad(buffer, [*prefix, *node.indices])

    def store(node: S.BufferStore, mutator: Any) -> S.Stmt:
        node = mutator.default_mutate(node)
        if node.buffer not in shared:
            return node
        buffer, prefix = shared[node.buffer]
        return S.BufferStore(buffer, node.value, [*prefix, *node.indices], node.span)

    return visit.mutate(body, (ir.TensorLoad, load), (S.BufferStore, store))
