"""What the parts of `partition_loops` share: a launch's threads, the storage of tiles, how an access is rewritten."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.alignment import is_aligned
from tile_core.ir.ops import tile_op
from tile_core.ir.views import viewed
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.passes.accesses import substitute
from tile_core.passes.layout_plan import Placement, Plan

BATCH_BYTES = 128
"""What a thread reads ahead at most, in registers."""
ALIGNED = "tile.aligned"
"""Attribute with an empty body: the tensor that is its node starts at a multiple of the vector width."""
PHASE = "tile.phase"
"""Attribute around statements between which no barrier is needed: one piece of parallel work."""
LINGERING = 2
"""Value of `PHASE` around work that reads shared tiles until a call with `LANDED` lets it pass."""
LANDED = "landed"
"""Attribute of a call that waits for lingering work of this thread: how many pieces, the last ones, may still read."""

Values = Mapping[ir.Var, ir.Expr]


def int32(value: int) -> ir.Expr:
    """An int32 constant."""
    return E.IntImm("int32", value)


def phase(stmt: S.Stmt, *, lingers: bool = False) -> S.Stmt:
    """`stmt` as one piece of parallel work, some of which `lingers`: it reads on beside the statements that follow."""
    return S.AttrStmt(int32(0), PHASE, int32(LINGERING if lingers else 1), stmt, stmt.span)


def guarded(conditions: list[ir.Expr], stmt: S.Stmt) -> S.Stmt:
    """`stmt` under all of `conditions`."""
    if not conditions:
        return stmt
    return S.IfThenElse(conjunction(conditions), stmt, None, stmt.span)


def made_once(conditions: list[ir.Expr], stmt: S.Stmt) -> S.Stmt:
    """`stmt` with its effects outside of the thread under `conditions`: what several threads run, one of them does."""
    if not conditions:
        return stmt

    def store(node: S.BufferStore, _mutator: object) -> S.Stmt:
        private = regions.scope(node.buffer) in (regions.LOCAL, regions.VAR)
        return node if private else guarded(conditions, node)

    def evaluate(node: S.Evaluate, _mutator: object) -> S.Stmt:
        return guarded(conditions, node) if isinstance(node.value, ir.Call) else node

    return visit.mutate(stmt, (S.BufferStore, store), (S.Evaluate, evaluate))


def conjunction(conditions: list[ir.Expr]) -> ir.Expr:
    """All of a non-empty list."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = E.And(whole, condition)
    return whole


def shuffle_xor(value: ir.Expr, distance: int, threads: int) -> ir.Expr:
    """The value that the lane whose number differs by `distance` (exclusive or) holds; all `threads` of a block ask."""
    call = [value, int32(distance)]
    return ir.Call(tile_op("tile.shuffle_xor"), call, attrs={"threads": threads}, ret_ty=value.ty)


@dataclass
class Registers:
    """A fragment in registers: its per-thread array and the mapping of its elements."""

    array: ir.Var
    placement: Placement


@dataclass
class ThreadScope:
    """One launch: `thread` is the linear thread index, `block` the number of threads.

    `tiles`: shared tiles that matrix instructions read, and how they lie in memory; `products`: what computes each
    product, for the report; `asynchronous`: shared tiles whose readers and writers wait for each other by barriers of
    their own; `known_aligned`: tensors whose start the host has found to be aligned for vectors. `ragged`: arrays of
    registers whose elements beyond the tile are computed with. `waits_for_all`: some products became loops, so that
    counts of those in flight say nothing. `room`: bytes of registers that a thread may read ahead.
    """

    plan: Plan
    thread: ir.Expr
    block: int
    warp: int
    vector_bytes: int
    thread_vars: tuple[ir.Var, ...]
    registers: dict[ir.Var, Registers] = field(default_factory=dict)
    shared: dict[ir.Var, ir.Var] = field(default_factory=dict)
    aligned: dict[ir.Var, ir.Var] = field(default_factory=dict)
    workspaces: list[ir.Var] = field(default_factory=list)
    ragged: set[ir.Var] = field(default_factory=set)
    tiles: dict[ir.Var, SwizzledTile] = field(default_factory=dict)
    products: list[str] = field(default_factory=list)
    waits_for_all: bool = False
    asynchronous: frozenset[ir.Var] = frozenset()
    known_aligned: frozenset[ir.Var] = frozenset()
    room: int = BATCH_BYTES

    def allocate(self, alloc: S.AllocBuffer) -> S.Stmt:
        """The allocation of a tile where the plan wants it."""
        buffer = alloc.buffer
        if regions.scope(buffer) != regions.FRAGMENT:
            return alloc
        placement = self.plan.fragments.get(buffer)
        if placement is None:
            self.shared[buffer] = _copy_of(buffer, list(buffer.shape), regions.SHARED[0])
            return S.AllocBuffer(self.shared[buffer], span=alloc.span)
        bytes_of_a_unit = placement.mapping.vector * max(1, int(buffer.dtype.bits) // 8)
        alignment = min(self.vector_bytes, bytes_of_a_unit & -bytes_of_a_unit)
        array = _copy_of(buffer, [int32(placement.mapping.registers)], regions.LOCAL, alignment)
        self.registers[buffer] = Registers(array, placement)
        return S.AllocBuffer(array, span=alloc.span)

    def declare_view(self, declared: S.DeclBuffer) -> S.Stmt:
        """A view of a tile where the tile is now."""
        moved = {source: self.shared[source] for source in viewed(declared) if source in self.shared}
        if not moved:
            return declared
        view = declared.buffer
        self.shared[view] = _copy_of(view, list(view.shape), regions.SHARED[0])
        return S.DeclBuffer(self.shared[view], data=substitute(declared.data, moved), span=declared.span)

    def alignment_flag(self, buffer: ir.Var) -> ir.Expr | None:
        """The name that says whether a tensor's start is aligned for vectors; `None` for memory that always is."""
        if regions.scope(buffer) != regions.GLOBAL or buffer in self.known_aligned:
            return None
        if buffer not in self.aligned:
            self.aligned[buffer] = tirx.Var(f"{buffer.name}_is_aligned", "bool")
        return self.aligned[buffer]

    def alignment_binds(self, buffers: Container[ir.Var]) -> list[S.Stmt]:
        """The definitions of the flags in use, of these buffers."""
        wanted = [(buffer, flag) for buffer, flag in self.aligned.items() if buffer in buffers]
        return [S.Bind(flag, is_aligned(buffer, self.vector_bytes)) for buffer, flag in wanted]

    def workspace(self, name: str, dtype: str, elements: int) -> ir.Var:
        """A fresh shared buffer."""
        buffer = tirx.decl_buffer((elements,), dtype, f"{name}_{len(self.workspaces)}", scope=regions.SHARED[0])
        self.workspaces.append(buffer)
        return buffer

    def rewrite(self, root: Any, steps: Mapping[int, ir.Expr], lane: ir.Expr | int) -> Any:
        """Accesses of fragments under `root` as accesses of their storage, at `steps` (by class) and `lane`."""

        def place(buffer: ir.Var, indices: list[ir.Expr]) -> tuple[ir.Var, list[ir.Expr]]:
            if buffer in self.shared:
                return self.shared[buffer], indices
            if buffer in self.registers:
                return self.registers[buffer].array, [self.register(buffer, steps, lane)]
            return buffer, indices

        def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
            indices = [mutator.mutate(index) for index in node.indices]
            return tirx.BufferLoad(*place(node.source, indices))

        def store(node: S.BufferStore, mutator: Any) -> S.Stmt:
            indices = [mutator.mutate(index) for index in node.indices]
            buffer, at = place(node.buffer, indices)
            return S.BufferStore(buffer, mutator.mutate(node.value), at, node.span)

        return visit.mutate(root, (S.BufferStore, store), (ir.TensorLoad, load))

    def register(self, buffer: ir.Var, steps: Mapping[int, ir.Expr], lane: ir.Expr | int) -> ir.Expr:
        """The register of the element of `buffer` that belongs to `steps` and `lane`."""
        placement = self.registers[buffer].placement
        mapping = placement.mapping
        if mapping.registers == 1:
            return int32(0)
        # A flat group has one step counter; an axis-by-axis one has one for each of the fragment's classes.
        # A class that the nest does not walk has extent 1 there.
        own = [steps.get(number, int32(0)) for number in placement.classes[: len(mapping.steps)]]
        position = mapping.register(own, lane if mapping.vector > 1 else 0)
        return int32(position) if isinstance(position, int) else position


def _copy_of(buffer: ir.Var, shape: list[ir.Expr], scope: str, alignment: int = -1) -> ir.Var:
    return tirx.decl_buffer(shape, str(buffer.dtype), str(buffer.name), scope=scope, data_alignment=alignment)
