"""Run the iterations of `T.Parallel` nests and `T.vectorized` loops in vector registers.

Of a nest, the axis along which most accesses are consecutive becomes the innermost one. Its range is cut once:

    for q in [0, limit // lanes):                     vectors of consecutive iterations, no guards
    for q in [limit // lanes, ceil(extent / lanes)):  the same under a lane mask, or iteration by iteration

`limit` is where the first of the comparisons that guard the body can become false, computed once a row of the outer
axes; a row in which a guard of the outer axes fails has limit 0. Code that reads aligned, unguarded data is therefore
the same for every extent, and a guard costs nothing where it holds.

Iterations of `T.Parallel` are independent by contract, except where they write one address (a variable, a cell that
accumulates, an atomic): such a nest stays a sequential scalar loop. Nothing is left to LLVM's own vectoriser, which
was found to give up on the loops of tile programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.marks import PARALLEL
from tile_core.ir.regions import constant
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import unmarked
from tile_cpu.llvm.features import CpuFacts, facts_of
from tile_cpu.llvm.functions import Function, importing
from tile_cpu.llvm.stores import DTYPES
from tile_cpu.passes.affine import dtype_of, int_of
from tile_cpu.passes.loop_guards import Guards, guards_of
from tile_cpu.passes.loop_nests import Axis, Nest, candidates, element_bits, nest_of, without_names
from tile_cpu.passes.vector_statements import VectorStatements
from tile_cpu.passes.vector_values import NotVectorizableError, VectorValues


@dataclass(frozen=True)
class VectorizeLoops:
    """Turn `PARALLEL` nests and `VECTORIZED` loops into loops over vectors. `max_lanes` caps the vector length.

    A tensor of at least `passing_bytes` that the kernel only writes is stored past the caches: it would push everything
    else out of them, and not be there any more when it is read.
    """

    name: ClassVar[str] = "vectorize_loops"
    max_lanes: int = 64
    passing_bytes: int = 32 << 20

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass; the report lists the loops with their lanes."""
        passing = _only_written(func, self.passing_bytes)
        rewriter = _Rewriter(facts_of(context.capabilities), self.max_lanes, passing)
        lowered = visit.mutate(func, (S.For, rewriter.loop))
        context.report["vectorized_loops"] = rewriter.widths
        return lowered.with_body(unmarked(lowered.body), lowered.span)


class _Rewriter:
    def __init__(self, facts: CpuFacts, max_lanes: int, passing: frozenset[ir.Var]) -> None:
        self._facts = facts
        self._max_lanes = max_lanes
        self._passing = passing
        self._outer: list[S.For] = []
        self.widths: list[dict[str, Any]] = []

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        if loop.kind == S.ForKind.VECTORIZED or PARALLEL in loop.annotations:
            nest = nest_of(loop)
            lanes, lowered = self._nest(nest)
            self.widths.append({"loop": ", ".join(axis.var.name for axis in nest.axes), "lanes": lanes})
            return lowered
        self._outer.append(loop)
        lowered = mutator.default_mutate(loop)
        self._outer.pop()
        return lowered

    def _nest(self, given: Nest) -> tuple[int, S.Stmt]:
        nest = without_names(given)
        for axis in candidates(nest) if nest.independent else []:
            lanes = self._lanes(nest, axis)
            if lanes == 1:
                continue
            emitter = _Emitter(nest, axis, lanes, self._facts, self._outer, self._passing)
            for marked in (True, False):
                try:
                    return lanes, emitter.emit(guards_of(nest.body, axis.var, axis.low, marked=marked))
                except NotVectorizableError:
                    continue
        # The loops inside may still be vectors.
        return 1, visit.mutate(_serial(nest.axes, nest.body), (S.For, self.loop))

    def _lanes(self, nest: Nest, axis: Axis) -> int:
        lanes = min(self._max_lanes, self._facts.lanes(element_bits(nest)))
        extent = constant(axis.extent)
        if extent is None:
            return lanes
        while lanes > 1 and (lanes >= 2 * extent or (lanes > extent and not self._facts.masked)):
            lanes //= 2
        return lanes


class _Emitter:
    """Writes one nest with `axis` in vectors of `lanes`."""

    def __init__(
        self, nest: Nest, axis: Axis, lanes: int, facts: CpuFacts, outer: list[S.For], passing: frozenset[ir.Var]
    ) -> None:
        self._nest = nest
        self._axis = axis
        self._lanes = lanes
        self._facts = facts
        self._masked = facts.masked
        self._outer = outer
        self._passing = passing
        self._functions: list[Function] = []
        self._dtype = dtype_of(axis.var)
        self._rows = tuple(other for other in nest.axes if other is not axis)

    def emit(self, guards: Guards) -> S.Stmt:
        """The loops; `guards` are the conditions that end the guard-free part. Raises `NotVectorizableError`."""
        loops = _serial(self._rows, self._row(guards))
        return importing(self._functions, loops, self._nest.span) if self._functions else loops

    def _row(self, guards: Guards) -> S.Stmt:
        extent, lanes = self._axis.extent, int_of(self._dtype, self._lanes)
        bound, full = _named(f"{self._axis.var.name}_full", _folded(tirx.floordiv(self._limit(guards), lanes)))
        steps = list(bound)
        if constant(full) != 0:
            steps.append(self._vectors(int_of(self._dtype, 0), full, guards.assumed))
        if constant(full) is None or constant(full) != self._whole_vectors():
            steps.append(self._rest(full, tirx.floordiv(extent + lanes - 1, lanes)))
        return visit.sequence(steps, self._nest.span)

    def _rest(self, begin: ir.Expr, end: ir.Expr) -> S.Stmt:
        """The vectors from `begin` on under a mask, or their iterations one by one."""
        if self._masked:
            try:
                return self._vectors(begin, end, _nothing, overhang=self._whole_vectors() is None)
            except NotVectorizableError:
                pass
        return self._scalars(begin * int_of(self._dtype, self._lanes))

    def _whole_vectors(self) -> int | None:
        """The number of vectors where the extent is a multiple of the lanes."""
        extent = constant(self._axis.extent)
        return extent // self._lanes if extent is not None and extent % self._lanes == 0 else None

    def _limit(self, guards: Guards) -> ir.Expr:
        """The end of the guard-free part: in `[0, extent]`, 0 where a guard of the whole row fails."""
        zero = int_of("int64", 0)
        limit = self._axis.extent
        if guards.upper:
            wide = tirx.Cast("int64", limit)
            for upper in guards.upper:
                wide = tirx.min(wide, upper - tirx.Cast("int64", self._axis.low))
            limit = tirx.Cast(self._dtype, tirx.max(wide, zero))
        elif constant(limit) is None:
            limit = tirx.max(limit, int_of(self._dtype, 0))
        for condition in guards.row:
            limit = tirx.Select(condition, limit, int_of(self._dtype, 0))
        return self._analyzer().simplify(limit)

    def _vectors(
        self, begin: ir.Expr, end: ir.Expr, assumed: Callable[[ir.Expr], bool], *, overhang: bool = False
    ) -> S.Stmt:
        """The vectors `begin` to `end`; with `overhang`, the last one reaches beyond the extent and is masked."""
        axis, lanes, zero = self._axis, int_of(self._dtype, self._lanes), int_of(self._dtype, 0)
        step = tirx.Var(f"{axis.var.name}_vec", self._dtype)
        analyzer = self._analyzer(overhang=overhang)
        analyzer.bind(step, ir.Range(zero, tirx.max(end, int_of(self._dtype, 1))))
        first = _folded(axis.low + step * lanes)
        values = VectorValues(axis.var, first, self._lanes, analyzer, assumed, self._masked, self._facts.fma)
        mask = values.value(axis.var < axis.low + axis.extent) if overhang else None
        statements = VectorStatements(values, self._passing)
        body = statements.statement(self._nest.body, mask)
        self._functions += statements.functions
        return S.For(step, begin, end - begin, S.ForKind.SERIAL, body, span=self._nest.span)

    def _scalars(self, begin: ir.Expr) -> S.Stmt:
        axis, body = self._axis, visit.mutate(self._nest.body, (S.For, _one_by_one))
        return S.For(axis.var, axis.low + begin, axis.extent - begin, S.ForKind.SERIAL, body, span=self._nest.span)

    def _analyzer(self, *, overhang: bool = False) -> Analyzer:
        """What is known about the loop variables; with `overhang`, the vector axis ends with its last vector."""
        analyzer = Analyzer()
        for loop in self._outer:
            analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))
        for axis in self._nest.axes:
            extent = axis.extent
            if overhang and axis is self._axis:
                extent = tirx.floordiv(extent + (self._lanes - 1), self._lanes) * self._lanes
            analyzer.bind(axis.var, ir.Range.from_min_extent(axis.low, extent))
        return analyzer


def _only_written(func: tirx.PrimFunc, least: int) -> frozenset[ir.Var]:
    """The tensors of constant size, at least `least` bytes, that the function stores to and does nothing else with."""
    read = {load.source for load in visit.collect(func.body, ir.TensorLoad)}
    return frozenset(
        store.buffer
        for store in visit.collect(func.body, S.BufferStore)
        if store.buffer not in read
        and str(store.buffer.dtype) in DTYPES
        and _bytes(store.buffer) >= least
        and any(store.buffer.same_as(param) for param in func.params)
    )


def _bytes(buffer: ir.Var) -> int:
    extents = [constant(extent) for extent in buffer.shape]
    return math.prod(extent or 0 for extent in extents) * int(buffer.dtype.bits) // 8


def _nothing(comparison: ir.Expr) -> bool:
    return False


def _folded(expr: ir.Expr) -> ir.Expr:
    return Analyzer().simplify(expr)


def _named(name: str, value: ir.Expr) -> tuple[list[S.Stmt], ir.Expr]:
    """A variable that holds `value`, with its definition; a constant stands for itself."""
    if constant(value) is not None:
        return [], value
    var = tirx.Var(name, dtype_of(value))
    return [S.Bind(var, value)], var


def _one_by_one(loop: S.For, mutator: Any) -> S.Stmt:
    """A loop of a nest whose iterations run one by one, as one whose iterations do too."""
    loop = mutator.default_mutate(loop)
    return rebuild.loop(loop, kind=S.ForKind.SERIAL) if loop.kind == S.ForKind.VECTORIZED else loop


def _serial(axes: tuple[Axis, ...], body: S.Stmt) -> S.Stmt:
    for axis in reversed(axes):
        body = S.For(axis.var, axis.low, axis.extent, S.ForKind.SERIAL, body, span=axis.span)
    return body
