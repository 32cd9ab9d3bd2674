"""The parallel nests, fragments and reductions of a kernel body, as `infer_layouts` reasons about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.marks import LOOP_LAYOUT, PARALLEL
from tile_core.ir.regions import constant
from tile_core.ir.views import viewed
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, view
from tile_core.passes.accesses import Access, accesses
from tile_core.passes.mark_reductions import REDUCTION, SCAN
from tile_core.passes.matrix import MatrixProduct, Multiplier, is_matrix

LAYOUT = "tile.layout"
"""The attribute of a tile's layout that its author gave, and the annotation of a nest's."""
PRODUCT = "tile.product"
"""Annotation of a nest that is one step of a matrix product."""


@dataclass(frozen=True)
class ParallelNest:
    """A perfect `PARALLEL` nest: its variables, extents (ints where constant) and innermost body."""

    loops: tuple[S.For, ...]

    @property
    def variables(self) -> tuple[ir.Var, ...]:
        """Outermost first."""
        return tuple(loop.loop_var for loop in self.loops)

    @property
    def extents(self) -> tuple[Any, ...]:
        """Ints, or expressions of the kernel's symbols."""
        found = (constant(loop.extent) for loop in self.loops)
        return tuple(loop.extent if value is None else value for value, loop in zip(found, self.loops, strict=True))

    @property
    def layout(self) -> Any:
        """The author's layout as maps; `None` where there is none."""
        return self.loops[0].annotations.get(LOOP_LAYOUT)

    @property
    def is_product(self) -> bool:
        """Whether it is a step of a matrix product: rows by columns."""
        return PRODUCT in self.loops[0].annotations

    @property
    def body(self) -> S.Stmt:
        """What one iteration does."""
        return self.loops[-1].body


def parallel_nest(loop: S.For) -> ParallelNest:
    """The nest that begins at `loop`; its rank is in the annotation of the outermost loop."""
    loops = [loop]
    rank = int(loop.annotations.get(PARALLEL, 1))
    while len(loops) < rank and isinstance(loops[-1].body, S.For):
        loops.append(loops[-1].body)
    return ParallelNest(tuple(loops))


def is_parallel(stmt: S.Stmt) -> bool:
    """Whether a statement is a loop of a parallel nest."""
    return isinstance(stmt, S.For) and stmt.kind == S.ForKind.PARALLEL


@dataclass(frozen=True)
class MarkedReduction:
    """A reduction between two whole fragments."""

    src: ir.Var
    dst: ir.Var
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class MarkedScan:
    """A scan of a whole fragment into another, or into itself, along its last axis."""

    src: ir.Var
    dst: ir.Var


@dataclass
class Program:
    """What a kernel body holds.

    `block_accesses` stand outside of every nest: each thread makes them. `viewed` are buffers that have other names;
    `layouts` the annotations of fragments whose layout the author gave.
    """

    nests: list[ParallelNest] = field(default_factory=list)
    reductions: list[MarkedReduction] = field(default_factory=list)
    scans: list[MarkedScan] = field(default_factory=list)
    fragments: list[ir.Var] = field(default_factory=list)
    block_accesses: list[Access] = field(default_factory=list)
    viewed: list[ir.Var] = field(default_factory=list)
    products: list[MatrixProduct] = field(default_factory=list)
    layouts: dict[ir.Var, S.AttrStmt] = field(default_factory=dict)


FOREIGN = "tile.foreign"
"""Attribute around statements that are already the program of one thread.

Value 0: each thread of the block runs them. Value 1: threads that are none of the block's do. Value 2, `NOTED`: as 0,
and what they touch counts where barriers are placed.
"""
NOTED = 2


def is_foreign(stmt: S.Stmt) -> bool:
    """Whether a statement is no part of what the block's threads do together."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == FOREIGN


def marked_call(stmt: S.AttrStmt) -> OpCall:
    """The call that `mark_reductions` kept."""
    return view(S.Evaluate(stmt.node), OPS)


def is_reduction(stmt: S.Stmt) -> bool:
    """Whether a statement was wrapped by `mark_reductions`."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == REDUCTION


def direct_reduction(stmt: S.AttrStmt, shared: frozenset[ir.Var]) -> MarkedReduction | None:
    """The reduction as a tie between two fragments in registers, `None` where it must run as its loops say."""
    call = marked_call(stmt)
    src, dst = call.region("src"), call.region("dst")
    for region in (src, dst):
        if regions.scope(region.source) != regions.FRAGMENT or region.source in shared or not regions.is_whole(region):
            return None
    axis = int(call.attrs["dim"]) % len(src.region)
    kept_axes = [number for number in range(len(src.region)) if number != axis]
    same_rank = len(dst.region) == len(src.region)
    kept = tuple((number, number if same_rank else at) for at, number in enumerate(kept_axes))
    return MarkedReduction(src.source, dst.source, kept)


def is_scan(stmt: S.Stmt) -> bool:
    """Whether a statement is a scan that was wrapped by `mark_reductions`."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == SCAN


def direct_scan(stmt: S.AttrStmt, shared: frozenset[ir.Var]) -> MarkedScan | None:
    """The scan as a tie between fragments in registers, `None` where it must run as its loops say."""
    call = marked_call(stmt)
    src, dst = call.region("src"), call.region("dst")
    for region in (src, dst):
        if regions.scope(region.source) != regions.FRAGMENT or region.source in shared or not regions.is_whole(region):
            return None
    rank = len(src.region)
    return MarkedScan(src.source, dst.source) if int(call.attrs["dim"]) % rank == rank - 1 else None


def collect_program(body: S.Stmt, shared: frozenset[ir.Var], multiplier: Multiplier) -> Program:
    """The program under `body`, given the fragments that are already known to live in shared memory."""
    collector = _Collector(shared, multiplier, Program())
    collector.collect(body)
    for attr in visit.collect(body, S.AttrStmt):
        if attr.attr_key == LAYOUT and "thread_map" in attr.value.attrs:
            collector.program.layouts[attr.node] = attr
    return collector.program


@dataclass
class _Collector:
    shared: frozenset[ir.Var]
    multiplier: Multiplier
    program: Program

    def collect(self, stmt: S.Stmt) -> None:
        program = self.program
        if isinstance(stmt, S.AllocBuffer):
            if regions.scope(stmt.buffer) == regions.FRAGMENT:
                program.fragments.append(stmt.buffer)
        elif isinstance(stmt, S.DeclBuffer):
            program.viewed.extend(viewed(stmt))
        elif is_parallel(stmt):
            program.nests.append(parallel_nest(stmt))
        elif is_reduction(stmt) and (direct := direct_reduction(stmt, self.shared)) is not None:
            program.reductions.append(direct)
        elif is_scan(stmt) and (scan := direct_scan(stmt, self.shared)) is not None:
            program.scans.append(scan)
        elif is_matrix(stmt) and (product := self.multiplier.product(stmt, self.shared)) is not None:
            program.products.append(product)
        elif not is_foreign(stmt):
            self._others(stmt)

    def _others(self, stmt: S.Stmt) -> None:
        inner = visit.children(stmt)
        if not inner:
            self.program.block_accesses.extend(accesses(stmt))
        for name in ("condition", "min", "extent", "value"):
            if inner and (expr := getattr(stmt, name, None)) is not None:
                self.program.block_accesses.extend(accesses(expr))
        for child in inner:
            self.collect(child)
