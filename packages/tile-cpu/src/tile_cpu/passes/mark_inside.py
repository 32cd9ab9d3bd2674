"""Say of a product's operands which lie within their tensor or tile for certain.

`tile.gemm` multiplies those where they are, by address. What may reach beyond its tensor or tile, a ragged edge or a
start that only the running kernel knows, is read and written element by element, where every access is guarded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import Ranges
from tile_cpu.ops.bounds import conditions
from tile_cpu.ops.prepared import INSIDE


@dataclass(frozen=True)
class MarkInside:
    """See the module's docstring. Runs before `lower_tile_ops`."""

    name: ClassVar[str] = "mark_inside"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        marker = _Marker(func)
        callbacks = ((S.For, marker.loop), (S.Bind, marker.bind), (S.IfThenElse, marker.branch))
        return func.with_body(visit.mutate(func.body, *callbacks, (S.Evaluate, marker.evaluate)), func.span)


class _Marker:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self._ranges = Ranges(func)

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        self._ranges.enter_loop(loop)
        return rebuild.loop(loop, body=mutator.mutate(loop.body))

    def bind(self, bind: S.Bind, _mutator: Any) -> S.Stmt:
        self._ranges.bind(bind)
        return bind

    def branch(self, branch: S.IfThenElse, mutator: Any) -> S.Stmt:
        with self._ranges.assume(branch.condition):
            then = mutator.mutate(branch.then_case)
        otherwise = branch.else_case
        if otherwise is not None:
            with self._ranges.assume(E.Not(branch.condition)):
                otherwise = mutator.mutate(otherwise)
        return S.IfThenElse(branch.condition, then, otherwise, branch.span)

    def evaluate(self, stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
        if op_name(stmt) != "tile.gemm":
            return stmt
        call = view(stmt, OPS)
        proved = "".join(side for side in "abc" if all(map(self._ranges.proves, conditions(call.region(side)))))
        return replace(call, attrs={**call.attrs, INSIDE: proved}).to_stmt()
