"""Columns of tensor memory: a warp takes them before the block begins, and gives them back at its end.

Where they lie is known in the running kernel only, so a word of shared memory holds it. Tiles that live as long as the
kernel are taken together: blocks of a multiprocessor that took one after another could wait for each other for ever.
`T.deallocate_tmem` gives a tile that is taken for itself back where it stands. A product that is waited for where it
stands has a barrier of its own, made before the block begins. Where a thread of its own copies ahead, this is the work
of the others. PTX ISA, "tcgen05.alloc".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.ops import AllocationError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.spans import from_tvm
from tile_core.ops.threads import called
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.nests import is_foreign
from tile_core.passes.plan_shared_memory import ALWAYS, ASYNCHRONOUS, OWN_PLACE
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.mbarrier import fence_barrier_init, mbarrier_init
from tile_cuda.instructions.tcgen05 import (
    COLUMNS,
    FEWEST_COLUMNS,
    tcgen05_alloc,
    tcgen05_dealloc,
    tcgen05_relinquish,
)
from tile_cuda.matrix.tcgen05 import COMPLETION, LANES, WORD_BITS, foreign, in_tensor_memory
from tile_cuda.matrix.warp import WARP
from tile_cuda.passes.assign_roles import ARRIVALS

FREE = "cuda.tensor_memory_free"
"""Stands where the author gives columns back; its argument is an element of the memory."""


def columns_of(memory: ir.Var) -> int:
    """The columns that a tile of tensor memory takes: a multiple of 32."""
    rows, width = (regions.constant(extent) or 0 for extent in memory.shape)
    bits = max(1, -(-rows // LANES)) * width * int(memory.dtype.bits)
    return max(1, -(-bits // (WORD_BITS * FEWEST_COLUMNS))) * FEWEST_COLUMNS


@dataclass(frozen=True)
class Taken:
    """Columns that are taken at once: the word that says where they are, and how many: a power of two."""

    word: ir.Var
    columns: int

    @classmethod
    def of(cls, tiles: list[ir.Var]) -> Taken:
        """Those of some tiles, one behind another."""
        columns = FEWEST_COLUMNS
        while columns < sum(map(columns_of, tiles)):
            columns *= 2
        name = f"{tiles[0].name}_at" if len(tiles) == 1 else "tensor_memory_at"
        return cls(tirx.decl_buffer((1,), "uint32", name, scope=regions.SHARED[0]), columns)

    @property
    def at(self) -> ir.Expr:
        """The first column."""
        return _word(self.word)


@dataclass(frozen=True)
class PlaceTensorMemory:
    """See the module."""

    name: ClassVar[str] = "place_tensor_memory"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass.

        Raises:
            AllocationError: more columns than there are.
        """

        def place(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            found = [each for each in visit.collect(launch.body, S.AllocBuffer) if in_tensor_memory(each.buffer)]
            return _Placer(launch, found).result() if found else loop

        return func.with_body(visit.mutate(func.body, (S.For, place)), func.span)


class _Placer:
    def __init__(self, launch: launch_ir.Launch, found: list[S.AllocBuffer]) -> None:
        self._launch, self._found = launch, found
        freed = {
            load.source
            for stmt in visit.collect(launch.body, S.Evaluate)
            if called(stmt) == FREE
            for load in visit.collect(stmt.value, ir.TensorLoad)
        }
        tiles = [alloc.buffer for alloc in found]
        kept = [tile for tile in tiles if tile not in freed]
        together = [kept] if kept else []
        self._taken: list[Taken] = []
        self._places: dict[ir.Var, tuple[Taken, int]] = {}
        for group in [*together, *([tile] for tile in tiles if tile in freed)]:
            taken, first = Taken.of(group), 0
            self._taken.append(taken)
            for tile in group:
                self._places[tile] = taken, first
                first += columns_of(tile)
        self._left = self._taken[: len(together)]
        x, y, z = launch.thread_vars
        nx, ny, _nz = launch.threads
        self._thread: ir.Expr = x if launch.threads[1:] == (1, 1) else (z * ny + y) * nx + x
        parts = list(launch.body.seq) if isinstance(launch.body, S.SeqStmt) else [launch.body]
        self._programs = [part for part in parts if is_foreign(part) and regions.constant(part.value) == 1]
        self._own = [part for part in parts if not any(part.same_as(program) for program in self._programs)]

    def result(self) -> S.Stmt:
        self._check()
        body = visit.mutate(
            visit.sequence(self._own, self._launch.span),
            (S.AllocBuffer, self._allocation),
            (S.Evaluate, self._evaluate),
            (S.AttrStmt, self._attribute),
            (ir.TensorLoad, self._load),
        )
        stmts = [*self._head(), body, *self._end(), *self._programs]
        return replace(self._launch, body=visit.sequence(stmts, self._launch.span)).to_stmt()

    def _check(self) -> None:
        count = sum(taken.columns for taken in self._taken)
        if count > COLUMNS:
            listed = ", ".join(f"{columns_of(memory)} for {memory.name}" for memory in self._places)
            raise AllocationError(
                f"{count} columns of tensor memory, of which a multiprocessor has {COLUMNS}: {listed}",
                remedy="use fewer or smaller tiles: a power of two of columns is taken for all that live to the end",
                span=from_tvm(self._found[0].span),
            )

    def _head(self) -> list[S.Stmt]:
        words = [S.AllocBuffer(taken.word, {OWN_PLACE: 1}) for taken in self._taken]
        takes = [tcgen05_alloc(tirx.address_of(taken.at), taken.columns) for taken in self._taken]
        taking = self._by_a_warp([*takes, tcgen05_relinquish()])
        return [*words, *self._completions(), taking, barrier(self._launch.span)]

    def _completions(self) -> list[S.Stmt]:
        """The barriers of products that are waited for, and the parities of their next phases."""
        waits = [each for each in visit.collect(self._launch.body, S.AttrStmt) if each.attr_key == COMPLETION]
        stmts: list[S.Stmt] = []
        for wait in waits:
            stmts += [S.AllocBuffer(wait.value.source), S.BufferStore(wait.value.source, int32(0), [int32(0)])]
        if self._programs:
            # `assign_roles` makes them beside those of the copying thread.
            return stmts + [S.AllocBuffer(wait.node, {ASYNCHRONOUS: ALWAYS, ARRIVALS: "full"}) for wait in waits]
        inits = [S.Evaluate(mbarrier_init(tirx.address_of(_word(wait.node)), 1)) for wait in waits]
        stmts += [S.AllocBuffer(wait.node, {ASYNCHRONOUS: ALWAYS}) for wait in waits]
        if inits:
            made = visit.sequence([*inits, S.Evaluate(fence_barrier_init())])
            stmts.append(foreign(S.IfThenElse(E.EQ(self._thread, int32(0)), made, None, self._launch.span)))
        return stmts

    def _end(self) -> list[S.Stmt]:
        return [barrier(self._launch.span), *map(self._given_back, self._left)] if self._left else []

    def _given_back(self, taken: Taken) -> S.Stmt:
        return self._by_a_warp([tcgen05_dealloc(taken.at, taken.columns)])

    def _by_a_warp(self, calls: Iterable[ir.Expr]) -> S.Stmt:
        body = visit.sequence([S.Evaluate(call, self._launch.span) for call in calls], self._launch.span)
        whole = prod(self._launch.threads) <= WARP
        return foreign(body if whole else S.IfThenElse(E.LT(self._thread, int32(WARP)), body, None, self._launch.span))

    def _load(self, node: ir.TensorLoad, mutator: Any) -> ir.Expr:
        if node.source not in self._places:
            return mutator.default_mutate(node)
        taken, first = self._places[node.source]
        return taken.at if first == 0 else taken.at + E.IntImm("uint32", first)

    def _evaluate(self, stmt: S.Evaluate, mutator: Any) -> S.Stmt:
        if called(stmt) != FREE:
            return mutator.default_mutate(stmt)
        (memory,) = (each.source for each in visit.collect(stmt.value, ir.TensorLoad))
        return visit.sequence([barrier(stmt.span), self._given_back(self._places[memory][0])], stmt.span)

    def _allocation(self, alloc: S.AllocBuffer, _mutator: Any) -> S.Stmt:
        return visit.sequence([], alloc.span) if alloc.buffer in self._places else alloc

    def _attribute(self, stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
        return mutator.mutate(stmt.body) if stmt.attr_key == COMPLETION else mutator.default_mutate(stmt)


def _word(place: ir.Var) -> ir.Expr:
    return tirx.BufferLoad(place, [int32(0)])
