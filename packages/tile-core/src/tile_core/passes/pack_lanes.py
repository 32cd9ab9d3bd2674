"""Two lanes at once, where a target computes on pairs of narrow floats in one instruction.

Works on the unrolled loops over lanes that `partition_loops` makes, and on any unrolled loop like them: an even number
of iterations, each storing to arrays of the thread at the lane's own index, which reads of those arrays share. Such
iterations do not depend on each other, so two of them may run as one. A store whose value has a two-wide form becomes
one of two lanes; the others are made for each lane. A pair rounds as its lanes would, so results do not change.

What has a two-wide form is an option: names of operations by dtype. `cast` makes a pair of two float32 values,
`broadcast` one of the same value twice, `nibbles` one of the two halves of a byte, less a small integer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.ops import tile_op
from tile_core.passes.accesses import substitute, uses
from tile_core.passes.base import PassContext
from tile_core.passes.thread_scope import int32

PACK = "tile.pack_pair"
"""The operation that makes a pair of two float32 values."""
UNPACK = "tile.unpack_nibbles"
"""The operation that makes a pair of the low and the next four bits of an integer, unsigned, less `LESS`."""
LESS = "less"
MOST_LESS = 16
"""What may be taken off without rounding in the narrowest float, bfloat16, when it is done with the conversion."""
PAIRED_NODES: Mapping[str, Any] = {"add": E.Add, "sub": E.Sub, "mul": E.Mul}
PAIRED_CALLS: Mapping[str, str] = {"tile.max": "max", "tile.min": "min"}
"""The operations by what they are in a program."""


@dataclass(frozen=True)
class PackLanes:
    """`pairs`: of each dtype the operations that have a two-wide form."""

    pairs: Mapping[str, frozenset[str]]
    name: ClassVar[str] = "pack_lanes"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        analyzer = Analyzer()

        def loop(node: S.For, mutator: Any) -> S.Stmt:
            packed = self._packed(node, analyzer)
            return mutator.default_mutate(node) if packed is None else packed

        def bind(node: S.Bind, _mutator: Any) -> S.Stmt:
            """What is known of a name counts for places that are made of it."""
            if str(getattr(node.value.ty, "dtype", "")) == "int32" and not visit.collect(node.value, ir.TensorLoad):
                analyzer.bind(node.var, node.value)
            return node

        return func.with_body(visit.mutate(func.body, (S.For, loop), (S.Bind, bind)), func.span)

    def _packed(self, loop: S.For, analyzer: Analyzer) -> S.Stmt | None:
        extent = regions.constant(loop.extent)
        if loop.kind != S.ForKind.UNROLLED or extent is None or extent < 2 or extent % 2:
            return None
        if regions.constant(loop.min) != 0 or loop.step is not None:
            return None
        body = _Body(self.pairs, loop, analyzer)
        if not body.is_made_of_lanes():
            return None
        stmts = body.pairs_of_lanes()
        if not body.found:
            return None
        two = E.IntImm(loop.loop_var.ty, 2)
        whole = visit.sequence(stmts, loop.span)
        return S.For(loop.loop_var, loop.min, loop.extent, loop.kind, whole, step=two, span=loop.span)


@dataclass
class _Body:
    """The body of a loop over lanes, whose variable is the even lane of a pair; `found`: whether a store was packed."""

    pairs: Mapping[str, frozenset[str]]
    loop: S.For
    analyzer: Analyzer
    found: bool = False
    _vectors: dict[ir.Var, ir.Var] = field(default_factory=dict)
    _named: dict[ir.Var, ir.Expr] = field(default_factory=dict)
    _scalars: tuple[dict[ir.Var, ir.Expr], dict[ir.Var, ir.Expr]] = field(default_factory=lambda: ({}, {}))

    def __post_init__(self) -> None:
        body = self.loop.body
        self._stmts = list(body.seq) if isinstance(body, S.SeqStmt) else [body]
        self._stored = {stmt.buffer: stmt.indices for stmt in self._stmts if isinstance(stmt, S.BufferStore)}
        self._scalars[1][self.loop.loop_var] = self.loop.loop_var + 1

    def is_made_of_lanes(self) -> bool:
        """Whether the body is stores to a lane's own elements, and names, and nothing reads another lane's."""
        return all(self._is_of_a_lane(stmt) for stmt in self._stmts)

    def _is_of_a_lane(self, stmt: S.Stmt) -> bool:
        if isinstance(stmt, S.BufferStore):
            own = regions.scope(stmt.buffer) == regions.LOCAL and self._moves_by_one(stmt.indices)
            return own and self._same(stmt.buffer, stmt.indices) and self._reads_own(stmt.value)
        return isinstance(stmt, S.Bind) and self._reads_own(stmt.value)

    def _reads_own(self, value: ir.Expr) -> bool:
        loads = visit.collect(value, ir.TensorLoad)
        return all(load.source not in self._stored or self._same(load.source, load.indices) for load in loads)

    def _same(self, buffer: ir.Var, indices: Any) -> bool:
        own = self._stored[buffer]
        return all(tvm_ffi.structural_equal(a, b) for a, b in zip(own, indices, strict=True))

    def _moves_by_one(self, indices: Any) -> bool:
        if len(indices) != 1:
            return False
        lane = self.loop.loop_var
        step = self.analyzer.simplify(substitute(indices[0], {lane: lane + 1}) - indices[0])
        return regions.constant(step) == 1

    def pairs_of_lanes(self) -> list[S.Stmt]:
        """The statements for two lanes; names that nothing uses are left out."""
        found: list[S.Stmt] = []
        for stmt in self._stmts:
            found += self._bind(stmt) if isinstance(stmt, S.Bind) else self._store(stmt)
        kept: list[S.Stmt] = []
        for stmt in reversed(found):
            if not isinstance(stmt, S.Bind) or any(uses(later, (stmt.var,)) for later in kept):
                kept.insert(0, stmt)
        return kept

    def _bind(self, stmt: S.Bind) -> list[S.Stmt]:
        self._named[stmt.var] = stmt.value
        vector = self._vector(stmt.value)
        if vector is not None and uses(stmt.value, (self.loop.loop_var, *self._vectors)):
            self._vectors[stmt.var] = tirx.Var(str(stmt.var.name), vector.ty)
            binds: list[S.Stmt] = [S.Bind(self._vectors[stmt.var], vector, stmt.span)]
        else:
            binds = []
        for values in self._scalars:
            name = tirx.Var(str(stmt.var.name), stmt.var.ty)
            binds.append(S.Bind(name, substitute(stmt.value, values), stmt.span))
            values[stmt.var] = name
        return binds

    def _store(self, stmt: S.BufferStore) -> list[S.Stmt]:
        place = self._place(stmt.indices)
        vector = None if place is None else self._vector(stmt.value)
        if vector is not None:
            self.found = True
            return [S.BufferStore(stmt.buffer, vector, [place], stmt.span)]
        return [
            S.BufferStore(
                stmt.buffer,
                substitute(stmt.value, values),
                [substitute(index, values) for index in stmt.indices],
                stmt.span,
            )
            for values in self._scalars
        ]

    def _place(self, indices: Any) -> ir.Expr | None:
        """The two elements of a pair, `None` where it does not begin at an even one."""
        if not self._moves_by_one(indices):
            return None
        first = self.analyzer.simplify(substitute(indices[0], self._scalars[0]))
        lane = self.loop.loop_var
        facts = self.analyzer.modular_set(self.analyzer.simplify(substitute(first, {lane: lane * 2})))
        if int(facts.coeff) % 2 or int(facts.base) % 2:
            return None
        return E.Ramp(first, E.IntImm(first.ty, 1), 2)

    def _vector(self, expr: ir.Expr) -> ir.Expr | None:
        """`expr` for both lanes, `None` where it has no two-wide form."""
        dtype = str(expr.ty.dtype)
        if dtype not in self.pairs:
            return None
        if isinstance(expr, ir.Var) and expr in self._vectors:
            return self._vectors[expr]
        if self._is_invariant(expr):
            return E.Broadcast(expr, int32(2)) if "broadcast" in self.pairs[dtype] else None
        if isinstance(expr, ir.TensorLoad):
            return self._load(expr)
        if isinstance(expr, E.Cast):
            return self._pack(expr, dtype)
        name, operands = _operation(expr)
        if name not in self.pairs[dtype]:
            return None
        vectors = [self._vector(operand) for operand in operands]
        if any(vector is None for vector in vectors):
            return None
        if name == "sub" and (unpacked := _less(vectors[0], operands[1])) is not None:
            return unpacked
        if name in PAIRED_NODES:
            return PAIRED_NODES[name](*vectors)
        return ir.Call(expr.op, vectors, attrs=expr.attrs, ret_ty=ir.PrimType(f"{dtype}x2"))

    def _is_invariant(self, expr: ir.Expr) -> bool:
        names = (self.loop.loop_var, *self._vectors, *self._scalars[0])
        loads = visit.collect(expr, ir.TensorLoad)
        return not uses(expr, names) and not any(load.source in self._stored for load in loads)

    def _load(self, load: ir.TensorLoad) -> ir.Expr | None:
        place = self._place(load.indices) if regions.scope(load.source) == regions.LOCAL else None
        return None if place is None else tirx.BufferLoad(load.source, [place])

    def _pack(self, expr: E.Cast, dtype: str) -> ir.Expr | None:
        """A conversion: of an operation that is exact in `dtype` too, its two-wide form, else of two float32 values."""
        name, operands = _operation(expr.value)
        if name in self.pairs[dtype] and name in PAIRED_CALLS.values():
            narrow = [operand.value for operand in operands if isinstance(operand, E.Cast)]
            vectors = [self._vector(value) for value in narrow if str(value.ty.dtype) == dtype]
            if len(vectors) == len(operands) and all(vector is not None for vector in vectors):
                return ir.Call(expr.value.op, vectors, attrs=expr.value.attrs, ret_ty=ir.PrimType(f"{dtype}x2"))
        if "nibbles" in self.pairs[dtype] and str(expr.value.ty.dtype) in ("int32", "uint32"):
            return self._nibbles(expr.value, dtype)
        if "cast" not in self.pairs[dtype] or str(expr.value.ty.dtype) != "float32":
            return None
        lanes = [substitute(expr.value, values) for values in self._scalars]
        return ir.Call(tile_op(PACK, pure=True), lanes, ret_ty=ir.PrimType(f"{dtype}x2"))

    def _nibbles(self, value: ir.Expr, dtype: str) -> ir.Expr | None:
        """Lanes that are the halves of a byte: `word >> shift & 15`, with shifts of a multiple of 8 and 4 more."""
        value = self._named.get(value, value) if isinstance(value, ir.Var) else value
        if not isinstance(value, E.BitwiseAnd) or regions.constant(value.b) != 15:
            return None
        if not isinstance(value.a, E.RShift) or _reads_beyond_lanes(value.a.a):
            return None
        shifted = value.a.a, value.a.b
        lane, pair = self.loop.loop_var, tirx.Var("pair", self.loop.loop_var.ty)
        words, shifts = (
            [substitute(substitute(part, values), {lane: pair * 2}) for values in self._scalars] for part in shifted
        )
        first, second = (self.analyzer.simplify(shift) for shift in shifts)
        apart, begin = (regions.constant(self.analyzer.simplify(x)) for x in (second - first, first % 8))
        if apart != 4 or begin != 0 or not self._same_words(*words):
            return None
        bits = substitute(shifted[0], self._scalars[0])
        if regions.constant(first) != 0:
            bits = E.RShift(bits, substitute(shifted[1], self._scalars[0]))
        return ir.Call(tile_op(UNPACK, pure=True), [bits], attrs={LESS: 0}, ret_ty=ir.PrimType(f"{dtype}x2"))

    def _same_words(self, one: ir.Expr, other: ir.Expr) -> bool:
        """Whether two lanes read the same element."""
        first, second = (visit.collect(word, ir.TensorLoad) for word in (one, other))
        return len(first) == len(second) == 1 and all(
            regions.constant(self.analyzer.simplify(a - b)) == 0
            for a, b in zip(first[0].indices, second[0].indices, strict=True)
        )


def _reads_beyond_lanes(word: ir.Expr) -> bool:
    """Whether a word is anything but one element of an array of the thread, perhaps widened, or with bits turned."""
    if isinstance(word, E.BitwiseXor) and regions.constant(word.b) is not None:
        word = word.a
    load = word.value if isinstance(word, E.Cast) else word
    return not isinstance(load, ir.TensorLoad) or regions.scope(load.source) != regions.LOCAL


def _less(pair: ir.Expr, taken: ir.Expr) -> ir.Expr | None:
    """Halves of a byte less a constant, which the conversion takes off without rounding; `None` for anything else."""
    value = taken.value if isinstance(taken, E.Cast) else taken
    if not (isinstance(pair, ir.Call) and isinstance(pair.op, ir.Op) and str(pair.op.name) == UNPACK):
        return None
    number = float(value.value) if isinstance(value, E.FloatImm) else -1.0
    if not number.is_integer() or not 0 <= number <= MOST_LESS or int(pair.attrs[LESS]):
        return None
    return ir.Call(pair.op, pair.args, attrs={LESS: int(number)}, ret_ty=pair.ty)


def _operation(expr: ir.Expr) -> tuple[str, list[ir.Expr]]:
    """The name and operands of what may have a two-wide form."""
    for name, kind in PAIRED_NODES.items():
        if isinstance(expr, kind):
            return name, [expr.a, expr.b]
    if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op):
        return PAIRED_CALLS.get(str(expr.op.name), ""), list(expr.args)
    return "", []
