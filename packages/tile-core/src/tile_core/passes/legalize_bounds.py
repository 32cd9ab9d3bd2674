"""Guard every access that may leave its buffer.

A load outside gives the buffer's safe value (zero unless annotated) and a store outside is skipped; negative indices
count as outside. What the loop ranges, the sizes and the enclosing conditions prove gets no guard, so a kernel whose
tiles divide its tensors has none, and a guard that holds for a whole statement is emitted once, around the statement.

Every guard is marked with TVM's `likely`. The mark has no meaning of its own; it tells the passes that split a loop
into a main part without guards and a remainder which conditions are true nearly everywhere, and may be decided per
part. `is_guard` recognises it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.passes import VectorBoundsError
from tile_core.ir import regions, visit
from tile_core.ir.marks import SAFE_VALUE
from tile_core.ir.spans import from_tvm
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import LIKELY, Ranges, conjuncts

ADDRESS_OF = "tirx.address_of"
IF_THEN_ELSE = "prim.if_then_else"


def is_guard(condition: ir.Expr) -> bool:
    """Whether `condition` is a guard of this pass: `likely(...)`."""
    return isinstance(condition, ir.Call) and isinstance(condition.op, ir.Op) and condition.op.name == LIKELY


@dataclass(frozen=True)
class LegalizeBounds:
    """`every_scope` also guards tiles: for targets where a stray access to a tile would damage foreign memory.

    Leaves the number of guards in the report as `guards`.
    """

    every_scope: bool = False
    name: ClassVar[str] = "legalize_bounds"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        guard = _Guard(func, self.every_scope)
        body = visit.mutate(
            func.body,
            (S.For, guard.loop),
            (S.Bind, guard.bind),
            (S.IfThenElse, guard.branch),
            (S.BufferStore, guard.store),
            (S.Evaluate, guard.evaluate),
            (ir.Call, guard.call),
            (ir.TensorLoad, guard.load),
        )
        context.report["guards"] = context.report.get("guards", 0) + guard.count
        return func.with_body(body, func.span)


class _Guard:
    def __init__(self, func: tirx.PrimFunc, every_scope: bool) -> None:
        self._ranges = Ranges(func)
        self._every_scope = every_scope
        self._safe_values: Mapping[ir.Var, ir.Expr] = _safe_values(func.body)
        self._span: Any = func.span
        self.count = 0

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        self._span = loop.span or self._span
        bounds = {name: mutator.mutate(getattr(loop, name)) for name in ("min", "extent")}
        self._ranges.enter_loop(loop)
        return rebuild.loop(loop, **bounds, body=mutator.mutate(loop.body))

    def bind(self, bind: S.Bind, mutator: Any) -> S.Stmt:
        self._span = bind.span or self._span
        bind = mutator.default_mutate(bind)
        self._ranges.bind(bind)
        return bind

    def branch(self, branch: S.IfThenElse, mutator: Any) -> S.Stmt:
        self._span = branch.span or self._span
        condition = mutator.mutate(branch.condition)
        with self._ranges.assume(branch.condition):
            then = mutator.mutate(branch.then_case)
        otherwise = None
        if branch.else_case is not None:
            with self._ranges.assume(E.Not(branch.condition)):
                otherwise = mutator.mutate(branch.else_case)
        return S.IfThenElse(condition, then, otherwise, branch.span)

    def store(self, store: S.BufferStore, mutator: Any) -> S.Stmt:
        self._span = store.span or self._span
        conditions = self._conditions(store.buffer, store.indices)
        indices = [mutator.mutate(index) for index in store.indices]
        guards = [mutator.mutate(condition) for condition in conditions]
        with self._ranges.assume(*conditions):
            value = mutator.mutate(store.value)
        return self._guarded(rebuild.store(store, value=value, indices=indices), guards)

    def evaluate(self, stmt: S.Evaluate, mutator: Any) -> S.Stmt:
        self._span = stmt.span or self._span
        if not isinstance(stmt.value, ir.Call):
            return mutator.default_mutate(stmt)
        call, guards = self._addressed(stmt.value, mutator)
        return self._guarded(S.Evaluate(call, stmt.span), guards)

    def call(self, call: ir.Call, mutator: Any) -> ir.Expr:
        if _is_call(call, IF_THEN_ELSE):
            return self._conditional(call, mutator)
        rewritten, guards = self._addressed(call, mutator)
        if not guards:
            return rewritten
        return self._selected(guards, rewritten, _zero(call.ty))

    def _conditional(self, call: ir.Call, mutator: Any) -> ir.Expr:
        """`if_then_else` evaluates one side only, so its condition is a fact there."""
        condition, then, otherwise = call.args
        with self._ranges.assume(condition):
            then = mutator.mutate(then)
        with self._ranges.assume(E.Not(condition)):
            otherwise = mutator.mutate(otherwise)
        return ir.Call(call.op, [mutator.mutate(condition), then, otherwise], ret_ty=call.ty, span=call.span)

    def load(self, load: ir.TensorLoad, mutator: Any) -> ir.Expr:
        conditions = self._conditions(load.source, load.indices)
        rewritten = mutator.default_mutate(load)
        if not conditions:
            return rewritten
        guards = [mutator.mutate(condition) for condition in conditions]
        return self._selected(guards, rewritten, self._safe_value(load))

    def _addressed(self, call: ir.Call, mutator: Any) -> tuple[ir.Call, list[ir.Expr]]:
        """A call and the guards of the addresses among its arguments: the call as a whole depends on them."""
        conditions: list[ir.Expr] = []
        arguments = []
        for argument in call.args:
            if _is_call(argument, ADDRESS_OF) and isinstance(argument.args[0], ir.TensorLoad):
                element = argument.args[0]
                conditions += self._conditions(element.source, element.indices)
                if last := _last(element, call):
                    conditions += self._conditions(element.source, last)
                argument = ir.Call(argument.op, [mutator.default_mutate(element)], ret_ty=argument.ty)
            else:
                argument = mutator.mutate(argument)
            arguments.append(argument)
        guards = [mutator.mutate(condition) for condition in conditions]
        return ir.Call(call.op, arguments, attrs=call.attrs, ret_ty=call.ty, span=call.span), guards

    def _conditions(self, buffer: ir.Var, indices: Iterable[ir.Expr]) -> list[ir.Expr]:
        """What must hold for an access and is not known to: an empty list for a safe one."""
        if not self._every_scope and regions.scope(buffer) != regions.GLOBAL:
            return []
        needed: list[ir.Expr] = []
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
            if index.ty.dtype.lanes > 1:
                self._require_vector(buffer, axis, index, extent)
                continue
            inside = (E.LE(_like(index, 0), index), _less(index, extent))
            needed.extend(condition for condition in inside if not self._ranges.proves(condition))
        return needed

    def _require_vector(self, buffer: ir.Var, axis: int, index: ir.Expr, extent: ir.Expr) -> None:
        if isinstance(index, E.Ramp):
            last = index.base + index.stride * (index.lanes - 1)
            inside = [E.And(end >= 0, _less(end, extent)) for end in (index.base, last)]
            if all(self._ranges.proves(condition) for condition in inside):
                return
        raise VectorBoundsError(
            f"the vector access of {buffer.name} may leave axis {axis}, whose extent is {extent}: its index is {index}",
            remedy="write a T.vectorized or T.Parallel loop, whose tail the compiler makes",
            span=from_tvm(self._span),
        )

    def _safe_value(self, load: ir.TensorLoad) -> ir.Expr:
        annotated = self._safe_values.get(load.source)
        return _zero(load.ty) if annotated is None else annotated

    def _selected(self, guards: list[ir.Expr], value: ir.Expr, otherwise: ir.Expr) -> ir.Expr:
        self.count += 1
        return tirx.if_then_else(_marked(guards), value, otherwise)

    def _guarded(self, stmt: S.Stmt, guards: list[ir.Expr]) -> S.Stmt:
        if not guards:
            return stmt
        self.count += 1
        return S.IfThenElse(_marked(guards), stmt, None, stmt.span)


def _last(element: ir.TensorLoad, call: ir.Call) -> list[ir.Expr]:
    """The indices of the last element that a call accesses from that of `element` on; none where it is that one."""
    count = 1 if call.attrs is None or "elements" not in call.attrs else int(call.attrs["elements"])
    return [] if count == 1 else [*element.indices[:-1], element.indices[-1] + (count - 1)]


def _safe_values(body: S.Stmt) -> dict[ir.Var, ir.Expr]:
    """The values of `T.annotate_safe_value`, which is an attribute around the kernel's body."""
    return {attr.node: attr.value for attr in visit.collect(body, S.AttrStmt) if attr.attr_key == SAFE_VALUE}


def _marked(guards: list[ir.Expr]) -> ir.Expr:
    unique: list[ir.Expr] = []
    for part in (part for guard in guards for part in conjuncts(guard)):
        if not any(tvm_ffi.structural_equal(part, seen) for seen in unique):
            unique.append(part)
    condition = unique[0]
    for guard in unique[1:]:
        condition = E.And(condition, guard)
    return tirx.likely(condition)


def _less(index: ir.Expr, extent: ir.Expr) -> ir.Expr:
    """`index < extent` in the wider of both types; extents are never negative, so an unsigned index stays unsigned."""
    own = int(index.ty.dtype.bits)
    bits = max(own, int(extent.ty.dtype.bits))
    kind = "uint" if str(index.ty.dtype).startswith("uint") and own == bits else "int"
    return E.LT(_as(index, f"{kind}{bits}"), _as(extent, f"{kind}{bits}"))


def _as(expr: ir.Expr, dtype: str) -> ir.Expr:
    return expr if str(expr.ty.dtype) == dtype else expr.astype(dtype)


def _like(expr: ir.Expr, value: int) -> ir.Expr:
    return E.IntImm(expr.ty, value)


def _zero(ty: ir.Type) -> ir.Expr:
    return tirx.const(0, str(ty.dtype))


def _is_call(expr: object, name: str) -> bool:
    return isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name == name
