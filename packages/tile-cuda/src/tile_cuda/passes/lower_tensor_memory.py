"""Columns of tensor memory that the author allocates: a warp takes them before the block begins, and gives them back.

Where they lie is known in the running kernel only, so a word of shared memory holds it. `T.deallocate_tmem` gives them
back where it stands, else the end of the kernel does. `T.copy` of a whole tile to a fragment loads a row a thread, as
the hardware does for the 128 threads of a warpgroup. PTX ISA, "tcgen05.alloc", "tcgen05.ld".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.errors.passes import MissingLoweringError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.language.annotate import fragment_maps
from tile_core.layouts import Fragment
from tile_core.ops.base import op_name, view
from tile_core.ops.build import cast, parallel
from tile_core.ops.copy import COPY, LAYOUT
from tile_core.ops.threads import called
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.nests import FOREIGN
from tile_core.passes.plan_shared_memory import OWN_PLACE
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.tcgen05 import (
    COLUMNS,
    FEWEST_COLUMNS,
    tcgen05_alloc,
    tcgen05_dealloc,
    tcgen05_load,
    tcgen05_relinquish,
    tcgen05_wait,
)

SCOPE = "shared.tmem"
FREE = "cuda.tensor_memory_free"
"""Stands where the author gives columns back; its argument is an element of the memory."""
WARP, WORD_BITS = 32, 32
_LANES, _LANE_SHIFT, _MOST_AT_ONCE = 128, 16, 128


def columns_of(memory: ir.Var) -> int:
    """The columns that a tile of tensor memory takes: a power of two."""
    bits = (regions.constant(memory.shape[-1]) or 0) * int(memory.dtype.bits)
    columns = FEWEST_COLUMNS
    while columns * WORD_BITS < bits and columns < COLUMNS:
        columns *= 2
    return columns


@dataclass(frozen=True)
class LowerTensorMemory:
    """See the module."""

    name: ClassVar[str] = "lower_tensor_memory"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""

        def lower(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            found = [each for each in visit.collect(launch.body, S.AllocBuffer) if _is_tensor_memory(each.buffer)]
            return _lowered(launch, found).to_stmt() if found else loop

        return func.with_body(visit.mutate(func.body, (S.For, lower)), func.span)


def _copied(
    stmt: S.Evaluate, places: Mapping[ir.Var, ir.Var], launch: launch_ir.Launch, thread: ir.Expr
) -> S.Stmt | None:
    """The copy of a tile of tensor memory to a fragment; `None` where no tensor memory is concerned.

    Raises:
        MissingLoweringError: anything else that is done to a tile of tensor memory.
    """
    from tile_core.ops import OPS

    if op_name(stmt) not in OPS:
        return None
    call = view(stmt, OPS)
    used = [value for value in call.args.values() if isinstance(value, ir.TensorRegion) and value.source in places]
    if not used:
        return None
    memory = used[0].source
    rows, columns = (regions.constant(extent) or 0 for extent in memory.shape)
    is_load = call.op is COPY and used == [call.region("src")] and all(map(regions.is_whole, call.args.values()))
    fits = is_load and regions.scope(call.region("dst").source) == regions.FRAGMENT
    if not fits or prod(launch.threads) != _LANES or int(memory.dtype.bits) != WORD_BITS:
        raise MissingLoweringError(
            f"{call.op.name.removeprefix('tile.')} of the tensor memory {memory.name}",
            remedy="copy it whole, 32 bits an element, to a fragment of a block of 128 threads",
            span=call.source_span,
        )
    target = call.region("dst").source
    row = tirx.decl_buffer((columns,), str(memory.dtype), f"{memory.name}_row", scope=regions.LOCAL, data_alignment=16)
    lane = tirx.Cast("uint32", tirx.floordiv(thread, int32(WARP)) * int32(WARP << _LANE_SHIFT))
    loads, at = [], 0
    while at < columns:
        count = 1 << min(_MOST_AT_ONCE, columns - at).bit_length() - 1
        start = tirx.BufferLoad(places[memory], [int32(0)]) + lane + tirx.Cast("uint32", int32(at))
        loads.append(tcgen05_load(tirx.address_of(tirx.BufferLoad(row, [int32(at)])), start, count=count))
        at += count
    made = [S.Evaluate(each, call.span) for each in (*loads, tcgen05_wait("loads"))]
    layout = Fragment((rows, columns), forward_fn=lambda i, j: (i, j))
    given = {f"tile.{LAYOUT}": {**fragment_maps(layout), "shape": [rows, columns]}}

    def element(index: list[ir.Expr]) -> S.Stmt:
        value = cast(tirx.BufferLoad(row, [index[1]]), as_dtype(str(target.dtype)))
        return S.BufferStore(target, value, index, call.span)

    nest = parallel([int32(rows), int32(columns)], element, call.span, given)
    foreign = S.AttrStmt(int32(0), FOREIGN, int32(0), visit.sequence(made, call.span), call.span)
    return visit.sequence([S.AllocBuffer(row, span=call.span), foreign, nest], call.span)


def _is_tensor_memory(buffer: ir.Var) -> bool:
    return regions.scope(buffer) == SCOPE


def _lowered(launch: launch_ir.Launch, found: list[S.AllocBuffer]) -> launch_ir.Launch:
    places = {
        alloc.buffer: tirx.decl_buffer((1,), "uint32", f"{alloc.buffer.name}_at", scope=regions.SHARED[0])
        for alloc in found
    }
    freed = {
        load.source
        for stmt in visit.collect(launch.body, S.Evaluate)
        if called(stmt) == FREE
        for load in visit.collect(stmt.value, ir.TensorLoad)
    }
    x, y, z = launch.thread_vars
    nx, ny, _nz = launch.threads
    thread = x if launch.threads[1:] == (1, 1) else (z * ny + y) * nx + x

    def by_a_warp(*calls: ir.Expr) -> S.Stmt:
        body = visit.sequence([S.Evaluate(call, launch.span) for call in calls], launch.span)
        whole = prod(launch.threads) <= WARP
        one = body if whole else S.IfThenElse(E.LT(thread, int32(WARP)), body, None, launch.span)
        return S.AttrStmt(int32(0), FOREIGN, int32(0), one, launch.span)

    def word(place: ir.Var) -> ir.Expr:
        return tirx.BufferLoad(place, [int32(0)])

    def load(node: ir.TensorLoad, mutator: Any) -> ir.Expr:
        return word(places[node.source]) if node.source in places else mutator.default_mutate(node)

    def evaluate(stmt: S.Evaluate, mutator: Any) -> S.Stmt:
        if called(stmt) != FREE:
            copied = _copied(stmt, places, launch, thread)
            return mutator.default_mutate(stmt) if copied is None else copied
        (memory,) = (each.source for each in visit.collect(stmt.value, ir.TensorLoad))
        return visit.sequence([barrier(stmt.span), given_back(memory)], stmt.span)

    def given_back(memory: ir.Var) -> S.Stmt:
        return by_a_warp(tcgen05_dealloc(word(places[memory]), columns_of(memory)))

    def allocate(alloc: S.AllocBuffer, _mutator: Any) -> S.Stmt:
        return visit.sequence([], alloc.span) if alloc.buffer in places else alloc

    body = visit.mutate(launch.body, (S.AllocBuffer, allocate), (S.Evaluate, evaluate), (ir.TensorLoad, load))
    head = [S.AllocBuffer(place, {OWN_PLACE: 1}) for place in places.values()]
    takes = [tcgen05_alloc(tirx.address_of(word(place)), columns_of(memory)) for memory, place in places.items()]
    left = [given_back(memory) for memory in places if memory not in freed]
    end = [barrier(launch.span), *left] if left else []
    stmts = [*head, by_a_warp(*takes, tcgen05_relinquish()), barrier(launch.span), body, *end]
    return replace(launch, body=visit.sequence(stmts, launch.span))
