"""Arithmetic on dtypes that a target only stores: operands become float32, results are rounded to the dtype.

Constants of such a dtype are conversions of float32 ones.

So every operation rounds once to its dtype, as the reference does, and a conversion between such a dtype and any other
goes through float32, which holds all of their values. What the threads of a warp combine is refused: it would have to
round in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.errors.passes import DataTypeUnsupportedError
from tile_core.ir import visit
from tile_core.ir.spans import from_tvm
from tile_core.passes.base import PassContext

_ARITHMETIC = (E.Add, E.Sub, E.Mul, E.Div)
_WARP_REDUCE = "tile.warp_reduce_"
_COMPARISONS = (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)


@dataclass(frozen=True)
class WidenStored:
    """`stored`: the dtypes without arithmetic.

    Raises:
        DataTypeUnsupportedError: a warp combines values of such a dtype.
    """

    stored: frozenset[str]
    name: ClassVar[str] = "widen_stored"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        nodes = (*_ARITHMETIC, *_COMPARISONS)
        handlers = (
            *((kind, self._binary) for kind in nodes),
            (E.Cast, self._cast),
            (tirx.FloatImm, self._constant),
            (ir.Call, self._call),
        )
        body = visit.mutate(func.body, *handlers)
        return func.with_body(body, func.span)

    def _binary(self, node: Any, mutator: Any) -> Any:
        changed = mutator.default_mutate(node)
        dtype = str(changed.a.ty.dtype)
        if dtype not in self.stored:
            return changed
        computed = type(changed)(_wide(changed.a), _wide(changed.b))
        return computed if isinstance(changed, _COMPARISONS) else E.Cast(dtype, computed)

    def _call(self, call: ir.Call, mutator: Any) -> Any:
        name = str(call.op.name) if isinstance(call.op, ir.Op) else ""
        if name.startswith(_WARP_REDUCE) and str(call.args[0].ty.dtype) in self.stored:
            raise DataTypeUnsupportedError(
                f"T.{name.removeprefix('tile.')} of a {call.args[0].ty.dtype}, which this target only stores",
                remedy='convert the value first: T.cast(value, "float32")',
                span=from_tvm(call.span),
            )
        return mutator.default_mutate(call)

    def _constant(self, node: tirx.FloatImm, _mutator: Any) -> Any:
        dtype = str(node.ty.dtype)
        return E.Cast(dtype, tirx.FloatImm("float32", float(node.value))) if dtype in self.stored else node

    def _cast(self, node: E.Cast, mutator: Any) -> Any:
        changed = mutator.default_mutate(node)
        ends = (str(changed.value.ty.dtype), str(changed.ty.dtype))
        if self.stored.isdisjoint(ends) or "float32" in ends or ends[0] == ends[1]:
            return changed
        return E.Cast(ends[1], _wide(changed.value))


def _wide(value: Any) -> Any:
    return E.Cast("float32", value)
