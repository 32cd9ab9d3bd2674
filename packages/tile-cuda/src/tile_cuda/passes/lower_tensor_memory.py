"""`T.copy` between tensor memory and fragments: rows of a tile are lanes, and a thread moves what is in its own lane.

A tile of more than 128 rows lies in several runs of columns, 128 rows each. Warpgroups are dealt to those, then to the
columns. Each of a thread's rows goes through an array of its own, and the fragment is held in the same order, unless
something else prescribes another. What a thread has loaded or stored is ordered before whatever follows by a fence and
a barrier of the block. PTX ISA, "tcgen05.ld", "tcgen05.st".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd, prod
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
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.build import cast, parallel
from tile_core.ops.copy import COPY, LAYOUT
from tile_core.ops.gemm_scaled import GEMM_SCALED
from tile_core.ops.products import IN_FLIGHT
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.matrix import PRODUCTS
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.tcgen05 import tcgen05_fence, tcgen05_load, tcgen05_store, tcgen05_wait
from tile_cuda.matrix.block_scaled import product_of
from tile_cuda.matrix.product import Refusal
from tile_cuda.matrix.tcgen05 import HALF, LANES, WORD_BITS, address, foreign, in_tensor_memory
from tile_cuda.matrix.units import TensorCores
from tile_cuda.matrix.warp import WARP
from tile_cuda.passes.note_descriptors import placed_apart

UPPER = WARP // 2
"""The first of a warp's upper lanes."""
_LANE_SHIFT, _MOST_AT_ONCE = 16, 128


@dataclass(frozen=True)
class Deal:
    """How warpgroups share a tile of `runs` × 128 rows: `down` × `across` of them, each thread `columns` of a row.

    In two `halves` a warp has 16 rows, as products of 64 leave them, and its upper lanes have the columns behind.
    """

    runs: int
    down: int
    across: int
    columns: int
    halves: int = 1

    @property
    def elements(self) -> int:
        """The elements of one thread."""
        return self.runs // self.down * self.columns

    def place(self, row: Any, column: Any) -> tuple[Any, Any]:
        """Thread and element of a thread."""
        run, lane, together = row // LANES, row % LANES, self.columns * self.halves
        if self.halves > 1:
            lane = lane // UPPER * WARP + lane % UPPER + column % together // self.columns * UPPER
        thread = lane + LANES * (run % self.down) + LANES * self.down * (column // together)
        return thread, run // self.down * self.columns + column % self.columns

    def starts(self, group: ir.Expr) -> Iterator[tuple[ir.Expr, int]]:
        """For each run of warpgroup `group`: its first column in tensor memory, and a thread's first element."""
        together = self.columns * self.halves
        across = tirx.floordiv(group, int32(self.down)) * int32(together)
        for number in range(self.runs // self.down):
            run = tirx.floormod(group, int32(self.down)) + int32(number * self.down)
            yield run * int32(together * self.across) + across, number * self.columns


def dealt(memory: ir.Var, threads: int) -> Deal | None:
    """How `threads` threads share a tile of tensor memory; `None` where they cannot."""
    rows, columns = (regions.constant(extent) or 0 for extent in memory.shape)
    runs, groups = max(1, -(-rows // LANES)), threads // LANES
    if threads % LANES or not groups or (rows > LANES and rows % LANES):
        return None
    down, halves = gcd(runs, groups), 2 if rows == HALF else 1
    across = groups // down
    together = across * halves
    if columns % together or columns // together * int(memory.dtype.bits) % WORD_BITS:
        return None
    return Deal(runs, down, across, columns // together, halves)


@dataclass(frozen=True)
class LowerTensorMemory:
    """See the module."""

    name: ClassVar[str] = "lower_tensor_memory"
    units: TensorCores

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass.

        Raises:
            MissingLoweringError: what else is done to tensor memory, or a product that no instruction makes.
        """

        def lower(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)

            def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
                return _lowered(stmt, launch, self.units)

            body = visit.mutate(launch.body, (S.Evaluate, evaluate))
            return replace(launch, body=placed_apart(body, _in_flight(launch.body))).to_stmt()

        return func.with_body(visit.mutate(func.body, (S.For, lower)), func.span)


def _in_flight(body: S.Stmt) -> set[ir.Var]:
    """The shared tiles that products read which nothing waits for where they stand."""
    calls = [view(stmt, OPS) for stmt in visit.collect(body, S.Evaluate) if op_name(stmt) in PRODUCTS]
    flown = [call for call in calls if IN_FLIGHT in call.attrs and in_tensor_memory(call.region("c").source)]
    tiles = {call.region(side).source for call in flown for side in "ab"}
    return {tile for tile in tiles if not in_tensor_memory(tile)}


def _lowered(stmt: S.Evaluate, launch: launch_ir.Launch, units: TensorCores) -> S.Stmt:
    """A tile op, where it has to do with tensor memory as what the threads do."""
    if op_name(stmt) not in OPS:
        return stmt
    call = view(stmt, OPS)
    used = [value for value in call.args.values() if isinstance(value, ir.TensorRegion)]
    if not any(in_tensor_memory(value.source) for value in used):
        if call.op is GEMM_SCALED and units.product(call, prod(launch.threads), None) is None:
            raise MissingLoweringError(
                f"gemm_scaled: {units.explain(call, prod(launch.threads))}",
                remedy="scale a tile of float32 products after T.gemm",
                span=call.source_span,
            )
        return stmt
    if call.op.name in PRODUCTS:
        product = product_of(call)
        if isinstance(product, Refusal):
            raise MissingLoweringError(
                f"{call.op.name.removeprefix('tile.')} with tensor memory: {product.why}",
                remedy="change the tile, or let C be a fragment: T.gemm takes what there is",
                span=call.source_span,
            )
        return stmt
    return _copied(call, launch)


def _copied(call: OpCall, launch: launch_ir.Launch) -> S.Stmt:
    if call.op is not COPY or not all(map(regions.is_whole, call.args.values())):
        raise _refusal(call)
    src, dst = call.region("src").source, call.region("dst").source
    memory, fragment = (src, dst) if in_tensor_memory(src) else (dst, src)
    deal = dealt(memory, prod(launch.threads))
    if regions.scope(fragment) != regions.FRAGMENT or deal is None:
        raise _refusal(call)
    return _Copy(call, launch, memory, fragment, deal).result()


def _refusal(call: OpCall) -> MissingLoweringError:
    used = next(value.source for value in call.args.values() if in_tensor_memory(value.source))
    return MissingLoweringError(
        f"{call.op.name.removeprefix('tile.')} of the tensor memory {used.name}",
        remedy="copy it whole, to or from a fragment of a block of a multiple of 128 threads",
        span=call.source_span,
    )


class _Copy:
    def __init__(self, call: OpCall, launch: launch_ir.Launch, memory: ir.Var, fragment: ir.Var, deal: Deal) -> None:
        self._span, self._memory, self._fragment, self._deal = call.span, memory, fragment, deal
        self._loads = call.region("src").source.same_as(memory)
        x, y, z = launch.thread_vars
        nx, ny, _nz = launch.threads
        self._thread: ir.Expr = x if launch.threads[1:] == (1, 1) else (z * ny + y) * nx + x
        self._row = tirx.decl_buffer(
            (deal.elements,), str(memory.dtype), f"{memory.name}_row", scope=regions.LOCAL, data_alignment=16
        )

    def result(self) -> S.Stmt:
        moves = [S.Evaluate(each, self._span) for each in self._moves()]
        wait = tcgen05_wait("loads" if self._loads else "stores")
        ends = [S.Evaluate(each, self._span) for each in (wait, tcgen05_fence("before"))]
        begins = [S.Evaluate(tcgen05_fence("after"), self._span)] if self._loads else []
        moved = [foreign(visit.sequence([*begins, *moves, *ends], self._span)), barrier(self._span)]
        nest = self._nest()
        steps = [*moved, nest] if self._loads else [nest, *moved]
        return visit.sequence([S.AllocBuffer(self._row, span=self._span), *steps], self._span)

    def _moves(self) -> Iterator[ir.Expr]:
        """The instructions of one thread."""
        bits = int(self._memory.dtype.bits)
        lane = tirx.floormod(tirx.floordiv(self._thread, int32(WARP)), int32(LANES // WARP)) * int32(
            WARP << _LANE_SHIFT
        )
        group = tirx.floordiv(self._thread, int32(LANES))
        words = self._deal.columns * bits // WORD_BITS
        for first, element in self._deal.starts(group):
            column = tirx.floordiv(first * int32(bits), int32(WORD_BITS)) if bits < WORD_BITS else first
            start = address(self._memory) + tirx.Cast("uint32", lane + column)
            done = 0
            while done < words:
                count = 1 << min(_MOST_AT_ONCE, words - done).bit_length() - 1
                held = tirx.address_of(tirx.BufferLoad(self._row, [int32(element + done * WORD_BITS // bits)]))
                at = start + E.IntImm("uint32", done)
                form = {"count": count, "upper": words if self._deal.halves > 1 else 0}
                yield tcgen05_load(held, at, **form) if self._loads else tcgen05_store(at, held, **form)
                done += count

    def _nest(self) -> S.Stmt:
        """Between the array of a thread and its part of the fragment."""
        extents = [regions.constant(extent) or 0 for extent in self._memory.shape]
        layout = Fragment((extents[0], extents[1]), forward_fn=self._deal.place)
        given = {f"tile.{LAYOUT}": {**fragment_maps(layout), "shape": extents}}

        def element(index: list[ir.Expr]) -> S.Stmt:
            _thread, held = self._deal.place(*index)
            if self._loads:
                value = cast(tirx.BufferLoad(self._row, [held]), as_dtype(str(self._fragment.dtype)))
                return S.BufferStore(self._fragment, value, index, self._span)
            value = cast(tirx.BufferLoad(self._fragment, index), as_dtype(str(self._memory.dtype)))
            return S.BufferStore(self._row, value, [held], self._span)

        return parallel([int32(extent) for extent in extents], element, self._span, given)
