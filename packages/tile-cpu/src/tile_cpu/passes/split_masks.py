"""Run a nest without its mask where the mask is true of every element.

    for i, j in Parallel(64, 64):                       if row >= column + 63:
        s[i, j] = Select(row + i >= column + j,             for i, j in Parallel(64, 64):
                         s[i, j] * scale, -inf)                 s[i, j] = s[i, j] * scale
                                                        else:
                                                            …                     as it was

Of the blocks of a triangle only those along its diagonal need the mask, and of rows that end within a block only the
last one does; which ones, one comparison tells. An affine comparison is true of a whole box of indices where it is
true in one corner, so that nothing else is computed. A store of what is there already goes, and its nest with it.

Data may be so large that a sum with it wraps around inside of the box: then the mask is run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.integers import is_index_arithmetic
from tile_core.ir.marks import PARALLEL
from tile_core.ir.regions import constant
from tile_core.ir.renew import renewed
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import Ranges, conjuncts, reads_memory
from tile_core.passes.simplify import IF_THEN_ELSE
from tile_cpu.passes.affine import Comparison, affine, dtype_of, int_of, uses
from tile_cpu.passes.loop_nests import Axis, Nest, nest_of

_NESTED = 4
"""Names that stand for other names are written out so often; a condition of more is no mask."""


@dataclass(frozen=True)
class SplitMasks:
    """`least` is the number of elements from which on a nest is worth a second version."""

    least: int = 64
    name: ClassVar[str] = "split_masks"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass; the report counts the nests with two versions."""
        split = 0
        known = Ranges(func)
        for bind in visit.collect(func.body, S.Bind):
            known.bind(bind)

        def loop(stmt: S.For, mutator: Any) -> S.Stmt:
            nonlocal split
            if PARALLEL not in stmt.annotations:
                return mutator.default_mutate(stmt)
            made = self._split(stmt, known)
            split += made is not None
            return stmt if made is None else made

        body = visit.mutate(func.body, (S.For, loop))
        if not split:
            return func
        context.report["split_masks"] = split
        return func.with_body(body, func.span)

    def _split(self, stmt: S.For, known: Ranges) -> S.Stmt | None:
        nest = nest_of(stmt)
        if _elements(nest) < self.least:
            return None
        masks = _masks(nest, known)
        corners = [corner for corner in masks.values() if constant(corner) != 1]
        if not masks or any(constant(corner) == 0 for corner in corners):
            return None
        body = _unmasked(nest.body, masks)
        plain = None if body is None else _around(stmt, len(nest.axes), body)
        if not corners:
            return plain or visit.sequence([], stmt.span)
        every = functools.reduce(tirx.And, corners)
        if plain is None:
            return S.IfThenElse(tirx.Not(every), stmt, None, stmt.span)
        return S.IfThenElse(every, renewed(plain), stmt, stmt.span)


def _elements(nest: Nest) -> int:
    """Iterations of the nest; 0 where that is not constant."""
    total = 1
    for axis in nest.axes:
        total *= constant(axis.extent) or 0
    return total


def _masks(nest: Nest, known: Ranges) -> dict[ir.Expr, ir.Expr]:
    """The conditions of the body that are affine in the loops, each with what makes it true in every iteration."""
    names = {bind.var: bind.value for bind in visit.collect(nest.body, S.Bind)}
    local = {loop.loop_var for loop in visit.collect(nest.body, S.For)}
    local |= {let.var for let in visit.collect(nest.body, tirx.Let)} | set(names)
    found: dict[ir.Expr, ir.Expr] = {}
    for condition in _conditions(nest.body):
        written_out = _without_names(condition, names)
        if condition in found or uses(written_out, local) or reads_memory(written_out):
            continue
        corners = [_corner(atom, nest.axes, known) for atom in conjuncts(written_out)]
        if None in corners:
            continue
        found[condition] = Analyzer().simplify(functools.reduce(tirx.And, corners))
    return found


def _without_names(condition: ir.Expr, names: dict[ir.Var, ir.Expr]) -> ir.Expr:
    """`condition` with the names of the body replaced by what they stand for, up to `_NESTED` of them in each other."""
    for _ in range(_NESTED):
        if not uses(condition, set(names)):
            break
        condition = visit.mutate(condition, (ir.Var, lambda var, mutator: names.get(var, var)))
    return condition


def _conditions(body: S.Stmt) -> Iterator[ir.Expr]:
    for select in visit.collect(body, tirx.Select):
        yield select.condition
    for call in visit.collect(body, ir.Call):
        if _is_choice(call):
            yield call.args[0]
    for branch in visit.collect(body, S.IfThenElse):
        yield branch.condition


def _is_choice(call: ir.Call) -> bool:
    return isinstance(call.op, ir.Op) and call.op.name == IF_THEN_ELSE


def _corner(comparison: ir.Expr, axes: tuple[Axis, ...], known: Ranges) -> ir.Expr | None:
    """The comparison in the iteration where it holds last, and that nothing wraps around before.

    `None` where it is not one of affine integers.
    """
    if not isinstance(comparison, Comparison) or not is_index_arithmetic(comparison):
        return None
    less, more = comparison.a, comparison.b
    if isinstance(comparison, tirx.GT | tirx.GE):
        less, more = more, less
    places: dict[ir.Var, ir.Expr] = {}
    for axis in axes:
        low, high = affine(less, axis.var), affine(more, axis.var)
        if low is None or high is None:
            return None
        grows = high.coefficient >= low.coefficient
        places[axis.var] = axis.low if grows else axis.low + axis.extent - int_of(dtype_of(axis.var), 1)
    corner = visit.mutate(comparison, (ir.Var, lambda var, mutator: places.get(var, var)))
    for side in (less, more):
        if known.may_wrap(side):
            corner = tirx.And(corner, _exact(side, axes))
    return corner


def _exact(side: ir.Expr, axes: tuple[Axis, ...]) -> ir.Expr:
    """Whether an affine expression stays within its dtype in all iterations, if its part without the loops does."""
    limit, low, high = 2 ** (int(side.ty.dtype.bits) - 1), 0, 0
    for axis in axes:
        part = affine(side, axis.var)
        extent = constant(axis.extent)
        assert part is not None and extent is not None
        side = part.base + axis.low * int_of(dtype_of(axis.low), part.coefficient)
        last = part.coefficient * (extent - 1)
        low, high = low + min(0, last), high + max(0, last)
    if high - low >= limit:
        return tirx.const(False)
    least, most = (int_of(dtype_of(side), bound) for bound in (-limit - low, limit - 1 - high))
    return tirx.And(side >= least, side <= most)


def _unmasked(body: S.Stmt, masks: dict[ir.Expr, ir.Expr]) -> S.Stmt | None:
    """`body` where all masks are true; `None` where nothing is left to do."""

    def select(node: tirx.Select, mutator: Any) -> ir.Expr:
        return mutator.mutate(node.true_value) if node.condition in masks else mutator.default_mutate(node)

    def call(node: ir.Call, mutator: Any) -> ir.Expr:
        chosen = _is_choice(node) and node.args[0] in masks
        return mutator.mutate(node.args[1]) if chosen else mutator.default_mutate(node)

    def branch(node: S.IfThenElse, mutator: Any) -> S.Stmt:
        return mutator.mutate(node.then_case) if node.condition in masks else mutator.default_mutate(node)

    body = _without_unused(visit.mutate(body, (tirx.Select, select), (ir.Call, call), (S.IfThenElse, branch)))
    return None if isinstance(body, S.BufferStore) and _changes_nothing(body) else body


def _without_unused(body: S.Stmt) -> S.Stmt:
    """`body` without the names that stood for masks, and names that stood for parts of those."""
    if not isinstance(body, S.SeqStmt):
        return body
    kept: list[S.Stmt] = []
    used: set[ir.Var] = set()
    for step in reversed(body.seq):
        if isinstance(step, S.Bind) and step.var not in used and not reads_memory(step.value):
            continue
        used.update(visit.collect(step.value if isinstance(step, S.Bind) else step, ir.Var))
        kept.insert(0, step)
    return visit.sequence(kept, body.span)


def _changes_nothing(store: S.BufferStore) -> bool:
    value = store.value
    return (
        isinstance(value, ir.TensorLoad)
        and value.source.same_as(store.buffer)
        and all(tvm_ffi.structural_equal(a, b) for a, b in zip(value.indices, store.indices, strict=True))
    )


def _around(stmt: S.For, depth: int, body: S.Stmt) -> S.Stmt:
    """The `depth` loops of `stmt` around another body."""
    if depth == 0:
        return body
    assert isinstance(stmt, S.For)
    return rebuild.loop(stmt, body=_around(stmt.body, depth - 1, body))
