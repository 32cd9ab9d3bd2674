"""Simplify index arithmetic: indices, loop bounds, conditions and the names bound to them. Nothing else.

* **Floats are left alone.** TVM's rules `x * 0 = 0`, `x - x = 0` and `x == x` do not hold for NaN and infinities. A
  condition that compares floats is simplified around the comparison.
* **Data is left alone.** TVM's rules also assume that integers do not overflow. That holds for indices; the values of
  tensors wrap, so what is loaded is opaque here and what is stored is not touched.
* Branches whose condition is decided and loops without iterations go away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.regions import constant
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import LIKELY, Ranges, is_integer

IF_THEN_ELSE = "prim.if_then_else"
_INDEX_DTYPES = ("int32", "int64", "bool")
_ARITHMETIC = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Min, E.Max)
_COMPARISONS = (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)
_LOGIC = (E.And, E.Or, E.Not)


@dataclass(frozen=True)
class Simplify:
    """See the module's docstring."""

    name: ClassVar[str] = "simplify"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        simplifier = _Simplifier(func)
        body = visit.mutate(
            func.body,
            (S.For, simplifier.loop),
            (S.Bind, simplifier.bind),
            (S.IfThenElse, simplifier.branch),
            (S.BufferStore, simplifier.store),
            (S.SeqStmt, simplifier.sequence),
            (ir.TensorLoad, simplifier.load),
            (ir.Call, simplifier.call),
            (E.Select, simplifier.select),
        )
        return func.with_body(body, func.span)


class _Simplifier:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self._ranges = Ranges(func)

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        low, extent = (self._index(mutator.mutate(bound)) for bound in (loop.min, loop.extent))
        count = constant(extent)
        if count is not None and count <= 0 and loop.kind != S.ForKind.THREAD_BINDING:
            return visit.sequence([], loop.span)
        loop = rebuild.loop(loop, min=low, extent=extent)
        self._ranges.enter_loop(loop)
        body = mutator.mutate(loop.body)
        # A nest of T.Parallel goes as a whole: its outermost loop tells how many there are.
        return body if _is_noop(body) and loop.kind != S.ForKind.THREAD_BINDING else rebuild.loop(loop, body=body)

    def bind(self, bind: S.Bind, mutator: Any) -> S.Stmt:
        bind = S.Bind(bind.var, self._index(mutator.mutate(bind.value)), bind.span)
        self._ranges.bind(bind)
        return bind

    def branch(self, branch: S.IfThenElse, mutator: Any) -> S.Stmt:
        condition = self._index(mutator.mutate(branch.condition))
        decided = constant(condition)
        if decided is not None:
            taken = branch.then_case if decided else branch.else_case
            return visit.sequence([], branch.span) if taken is None else mutator.mutate(taken)
        with self._ranges.assume(condition):
            then = mutator.mutate(branch.then_case)
        otherwise = None
        if branch.else_case is not None:
            with self._ranges.assume(E.Not(condition)):
                otherwise = mutator.mutate(branch.else_case)
        return S.IfThenElse(condition, then, otherwise, branch.span)

    def store(self, store: S.BufferStore, mutator: Any) -> S.Stmt:
        indices = [self._index(mutator.mutate(index)) for index in store.indices]
        return rebuild.store(store, value=mutator.mutate(store.value), indices=indices)

    def sequence(self, seq: S.SeqStmt, mutator: Any) -> S.Stmt:
        """Flattened and without the no-ops that decided branches leave."""
        stmts = [mutator.mutate(stmt) for stmt in seq.seq]
        return visit.sequence([stmt for stmt in stmts if not _is_noop(stmt)], seq.span)

    def load(self, load: ir.TensorLoad, mutator: Any) -> ir.Expr:
        indices = [self._index(mutator.mutate(index)) for index in load.indices]
        return tirx.BufferLoad(load.source, indices, load.span)

    def select(self, select: E.Select, mutator: Any) -> ir.Expr:
        condition = self._index(mutator.mutate(select.condition))
        then, otherwise = mutator.mutate(select.true_value), mutator.mutate(select.false_value)
        decided = _decide(condition, then, otherwise)
        return E.Select(condition, then, otherwise, select.span) if decided is None else decided

    def call(self, call: ir.Call, mutator: Any) -> ir.Expr:
        if not (isinstance(call.op, ir.Op) and call.op.name == IF_THEN_ELSE):
            return mutator.default_mutate(call)
        condition = self._index(mutator.mutate(call.args[0]))
        with self._ranges.assume(condition):
            then = mutator.mutate(call.args[1])
        with self._ranges.assume(E.Not(condition)):
            otherwise = mutator.mutate(call.args[2])
        decided = _decide(condition, then, otherwise)
        if decided is not None:
            return decided
        return ir.Call(call.op, [condition, then, otherwise], ret_ty=call.ty, span=call.span)

    def _index(self, expr: ir.Expr) -> ir.Expr:
        """`expr` in simpler form where it is index arithmetic; what is not stays as it is, as an opaque part."""
        if str(getattr(expr.ty, "dtype", "")) not in _INDEX_DTYPES:
            return expr
        opaque: list[tuple[ir.Var, ir.Expr]] = []
        abstract = self._abstract(expr, opaque)
        if abstract is opaque or isinstance(abstract, ir.Var):
            return expr
        simple = self._ranges.analyzer.simplify(abstract)
        return visit.mutate(simple, (ir.Var, _restore(opaque))) if opaque else simple

    def _abstract(self, expr: ir.Expr, opaque: list[tuple[ir.Var, ir.Expr]]) -> ir.Expr:
        """`expr` with every part that is no index arithmetic replaced by a variable."""
        if isinstance(expr, ir.Var | E.IntImm):
            return expr
        if isinstance(expr, _ARITHMETIC) and not self._ranges.may_wrap(expr):
            return type(expr)(self._abstract(expr.a, opaque), self._abstract(expr.b, opaque))
        if isinstance(expr, _COMPARISONS) and is_index(expr.a):
            return type(expr)(self._abstract(expr.a, opaque), self._abstract(expr.b, opaque))
        if isinstance(expr, E.Not):
            return E.Not(self._abstract(expr.a, opaque))
        if isinstance(expr, E.And | E.Or):
            return type(expr)(self._abstract(expr.a, opaque), self._abstract(expr.b, opaque))
        if isinstance(expr, E.Cast) and is_index(expr) and is_index(expr.value):
            return E.Cast(expr.ty, self._abstract(expr.value, opaque))
        if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name == LIKELY:
            return ir.Call(expr.op, [self._abstract(expr.args[0], opaque)], ret_ty=expr.ty)
        var = tirx.Var(f"opaque{len(opaque)}", str(expr.ty.dtype))
        opaque.append((var, expr))
        return var


def is_index(expr: ir.Expr) -> bool:
    """Whether `expr` has a dtype of index arithmetic; bool counts."""
    return is_integer(expr) and str(expr.ty.dtype) in _INDEX_DTYPES


def _restore(opaque: list[tuple[ir.Var, ir.Expr]]) -> Any:
    def restore(var: ir.Var, mutator: Any) -> ir.Expr:
        return next((expr for name, expr in opaque if name.same_as(var)), var)

    return restore


def _decide(condition: ir.Expr, then: ir.Expr, otherwise: ir.Expr) -> ir.Expr | None:
    decided = constant(condition)
    return None if decided is None else then if decided else otherwise


def _is_noop(stmt: S.Stmt) -> bool:
    return isinstance(stmt, S.Evaluate) and isinstance(stmt.value, E.IntImm)
