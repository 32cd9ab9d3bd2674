"""`tile.reduce` along contiguous memory, in vector registers.

A row is read in vectors into several independent accumulators, which hide the latency of the combining instruction;
the accumulators are combined lane by lane and their halves folded onto each other at the end. The order of a sum
therefore differs from the portable lowering's, as any two lane counts differ.

Of short rows the folding is most of the work. As many of them as a vector has lanes are then folded together
(`llvm/folds.py`), and their results are one vector.

Reductions along another axis take the portable lowering: there the outputs are neighbours, and `vectorize_loops` gives
each lane one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.ir.regions import GLOBAL, constant
from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall
from tile_core.ops.build import Tile, cast, int32, number, serial
from tile_core.ops.reduce import REDUCE, Kind, accumulation_dtype, axis_of, kind_of
from tile_cpu.llvm.features import CpuFacts, facts_of
from tile_cpu.llvm.folds import fold
from tile_cpu.llvm.functions import importing

_ACCUMULATORS = 4
_SHORT, _SINGLE = 16, 8
"""Up to how many vectors a row is short, and up to how many one accumulator will do where other rows are in flight."""
_FOLDS = {"sum": "sum", "abssum": "sum", "max": "max", "absmax": "max", "min": "min"}
"""How kinds whose accumulators are no NaN are folded."""
# The comparison by which a value replaces an accumulator. An accumulator starts from the identity and takes no NaN, so
# one instruction gives what `tile.maxnum` and `tile.minnum` mean.
_REPLACES = {"max": tirx.GT, "absmax": tirx.GT, "min": tirx.LT}


def lower(call: OpCall, context: LowerContext) -> S.Stmt:
    """Lower `tile.reduce`; everything but rows of constant length in a tile takes the portable loops."""
    facts = facts_of(context.capabilities)
    src, dst, axis = Tile(call.region("src")), Tile(call.region("dst")), axis_of(call)
    dtype = accumulation_dtype(kind_of(call), src.dtype, dst.dtype)
    length = constant(src.extents[axis])
    lanes = facts.lanes(max(dtype.bits, src.dtype.bits))
    fits = length is not None and length >= lanes > 1 and axis == src.rank - 1
    # Vectors of bool and of what is narrower than a byte lie in memory in no way that an instruction loads.
    scalar = dtype.is_bool or src.dtype.is_bool or min(dtype.bits, src.dtype.bits) < 8
    if not fits or scalar or src.scope == GLOBAL or src.buffer.strides:
        assert REDUCE.lower is not None
        return REDUCE.lower(call, context)
    assert length is not None
    return _Rows(call, src, dst, dtype, length, lanes, facts).lower()


@dataclass(frozen=True)
class _Rows:
    """The reduction of every row of `src`, `length` long, with accumulators of `lanes` elements of `dtype`."""

    call: OpCall
    src: Tile
    dst: Tile
    dtype: DType
    length: int
    lanes: int
    facts: CpuFacts

    @property
    def kind(self) -> Kind:
        """How to combine."""
        return kind_of(self.call)

    def lower(self) -> S.Stmt:
        """A serial nest over the rows."""
        together = self._rows_together()
        outer = self.src.extents[:-1]
        names: list[ir.Expr] = [tirx.Var(f"row{axis}", str(extent.ty.dtype)) for axis, extent in enumerate(outer)]
        if not together:
            return self._nest(names, outer, self._row(names))
        body = serial(int32(together // self.lanes), lambda at: self._group([*names[:-1], at * self.lanes]), "rows")
        left = constant(outer[-1] - together)
        if left:
            rest = serial(int32(left), lambda at: self._row([*names[:-1], at + together]), "row")
            body = sequence([body, rest], self.call.span)
        return self._nest(names[:-1], outer[:-1], body)

    def _nest(self, names: list[ir.Expr], extents: list[ir.Expr], body: S.Stmt) -> S.Stmt:
        for name, extent in zip(reversed(names), reversed(extents), strict=True):
            zero = tirx.IntImm(str(extent.ty.dtype), 0)
            body = S.For(name, zero, extent, S.ForKind.SERIAL, body, span=self.call.span)
        return body

    def _rows_together(self) -> int:
        """How many rows along the last outer axis are reduced in groups; 0 where none are."""
        rows = constant(self.src.extents[-2]) if self.src.rank > 1 else None
        kind = str(self.call.attrs["kind"])
        floats = self.dtype == self.dst.dtype == as_dtype("float32") and kind in _FOLDS and not self._propagate
        lines = self.dst.rank == self.src.rank - 1 and self.dst.scope != GLOBAL and not self.dst.buffer.strides
        whole = self.length % self.lanes == 0 or self.facts.masked
        if rows is None or not (floats and lines and whole) or self.length > _SHORT * self.lanes:
            return 0
        return rows - rows % self.lanes

    def _group(self, index: list[ir.Expr]) -> S.Stmt:
        """As many rows as a vector has lanes, from `index` on."""
        *outer, first = index
        partial = tirx.decl_buffer((self.lanes, self.lanes), self.dtype.tvm, "partial", scope="local")

        def row(at: ir.Expr) -> S.Stmt:
            return self._accumulating([*outer, first + at], lambda sums: self._put(partial, at, self._get(sums, 0)))

        folding = fold(_FOLDS[str(self.call.attrs["kind"])], self.lanes)
        start = tirx.address_of(tirx.BufferLoad(partial, [int32(0), int32(0)]))
        *place, last = self.dst.indices(index)
        ramp = [*place, tirx.Ramp(last, tirx.IntImm(str(last.ty.dtype), 1), int32(self.lanes))]
        total = self._get(partial, 0)
        if not self.call.attrs.get("clear", 1):
            total = self._accumulated(total, tirx.BufferLoad(self.dst.buffer, ramp))
        steps = [
            S.AllocBuffer(partial, span=self.call.span),
            serial(int32(self.lanes), row, "row"),
            folding.call(start),
            S.BufferStore(self.dst.buffer, total, ramp, self.call.span),
        ]
        return importing([folding], sequence(steps, self.call.span), self.call.span)

    def _row(self, index: list[ir.Expr]) -> S.Stmt:
        vectors, rest = divmod(self.length, self.lanes)

        def finish(sums: ir.Var) -> S.Stmt:
            steps = self._fold(sums)
            if rest and not self.facts.masked:
                steps.append(serial(int32(rest), lambda k: self._scalar(sums, index, k + vectors * self.lanes)))
            steps.append(self._finish(tirx.BufferLoad(sums, [int32(0), int32(0)]), index))
            return sequence(steps, self.call.span)

        return self._accumulating(index, finish, _ACCUMULATORS)

    def _accumulating(self, index: list[ir.Expr], finish: Callable[[ir.Var], S.Stmt], most: int = 0) -> S.Stmt:
        """Combine the vectors of a row into one, in at most `most` accumulators (0: as few as are fast)."""
        vectors, rest = divmod(self.length, self.lanes)
        count = min(most or (1 if vectors <= _SINGLE else _ACCUMULATORS), vectors)
        sums = tirx.decl_buffer((count, self.lanes), self.dtype.tvm, "sums", scope="local")
        identity = self._splat(number(self.kind.identity(self.dtype), self.dtype))
        steps: list[S.Stmt] = [S.AllocBuffer(sums, span=self.call.span)]
        steps += [self._put(sums, at, identity) for at in range(count)]
        steps.append(serial(int32(vectors // count), lambda k: self._vectors(sums, index, k * count, count)))
        steps.append(self._vectors(sums, index, int32(vectors - vectors % count), vectors % count))
        if rest and self.facts.masked:
            steps.append(self._masked(sums, index, vectors, rest))
        others = range(1, count)
        steps += [self._put(sums, 0, self._accumulated(self._get(sums, 0), self._get(sums, at))) for at in others]
        return sequence([*steps, finish(sums)], self.call.span)

    def _vectors(self, sums: ir.Var, index: list[ir.Expr], first: ir.Expr, count: int) -> S.Stmt:
        """Combine `count` vectors of the row, from vector `first` on, into as many accumulators."""
        steps = []
        for at in range(count):
            value = tirx.BufferLoad(self.src.buffer, self._place(index, first + at))
            steps.append(self._put(sums, at, self._accumulated(self._get(sums, at), self._wide(value))))
        return sequence(steps, self.call.span)

    def _masked(self, sums: ir.Var, index: list[ir.Expr], vector: int, rest: int) -> S.Stmt:
        """The last vector, of which `rest` lanes exist."""
        mask = tirx.LT(self._lanes(0, self.lanes), self._splat(int32(rest)))
        place = self._place(index, int32(vector))
        value = tirx.op.masked_load(f"{self.src.dtype.tvm}x{self.lanes}", self.src.buffer, *place, mask)
        old = self._get(sums, 0)
        return self._put(sums, 0, tirx.Select(mask, self._accumulated(old, self._wide(value)), old))

    def _scalar(self, sums: ir.Var, index: list[ir.Expr], k: ir.Expr) -> S.Stmt:
        zero = [int32(0), int32(0)]
        value = self._wide(self.src.load([*index, k]))
        return S.BufferStore(sums, self._accumulated(tirx.BufferLoad(sums, zero), value), zero, self.call.span)

    def _fold(self, sums: ir.Var) -> list[S.Stmt]:
        """Combine the halves of the first accumulator, into its first element."""
        steps: list[S.Stmt] = []
        width = self.lanes // 2
        while width:
            low, high = ([int32(0), self._lanes(first, width)] for first in (0, width))
            value = self._accumulated(tirx.BufferLoad(sums, low), tirx.BufferLoad(sums, high))
            steps.append(S.BufferStore(sums, value, low, self.call.span))
            width //= 2
        return steps

    def _finish(self, total: ir.Expr, index: list[ir.Expr]) -> S.Stmt:
        place = [*index, int32(0)] if self.dst.rank == self.src.rank else index or [int32(0)]
        if not self.call.attrs.get("clear", 1):
            total = self._combined(cast(self.dst.load(place), self.dtype), total)
        return self.dst.store(total, place, self.call.span)

    def _combined(self, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        return self.kind.combine(a, b, self._propagate)

    def _accumulated(self, total: ir.Expr, value: ir.Expr) -> ir.Expr:
        replaces = _REPLACES.get(str(self.call.attrs["kind"]))
        if replaces is None or self._propagate or not self.dtype.is_float:
            return self._combined(total, value)
        return tirx.Select(replaces(value, total), value, total)

    @property
    def _propagate(self) -> bool:
        return bool(self.call.attrs.get("nan_propagate", 0))

    def _wide(self, value: ir.Expr) -> ir.Expr:
        """Loaded elements in the accumulation dtype, their absolute values where the kind takes those."""
        lanes = int(value.ty.dtype.lanes)
        dtype = self.dtype.tvm if lanes == 1 else f"{self.dtype.tvm}x{lanes}"
        wide = value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)
        if not self.kind.absolute:
            return wide
        if self.dtype.is_float:
            return tirx.abs(wide)
        zero = number(0, self.dtype)
        negative = tirx.Sub(zero if lanes == 1 else tirx.Broadcast(zero, lanes), wide)
        return tirx.Max(wide, negative) if self.dtype.is_int else wide

    def _place(self, index: list[ir.Expr], vector: ir.Expr) -> list[ir.Expr]:
        *outer, last = self.src.indices([*index, vector * self.lanes])
        return [*outer, tirx.Ramp(last, tirx.IntImm(str(last.ty.dtype), 1), int32(self.lanes))]

    def _lanes(self, first: int, width: int) -> ir.Expr:
        return int32(first) if width == 1 else tirx.Ramp(int32(first), int32(1), int32(width))

    def _get(self, sums: ir.Var, at: int) -> ir.Expr:
        return tirx.BufferLoad(sums, [int32(at), self._lanes(0, self.lanes)])

    def _put(self, sums: ir.Var, at: ir.Expr | int, value: ir.Expr) -> S.Stmt:
        row = int32(at) if isinstance(at, int) else at
        return S.BufferStore(sums, value, [row, self._lanes(0, self.lanes)], self.call.span)

    def _splat(self, value: ir.Expr) -> ir.Expr:
        return tirx.Broadcast(value, self.lanes)
