"""Write `a != b` on floats as `not (a == b)`.

TVM's code generator emits an ordered comparison for both, so that `NaN != 1` would be false. The other comparisons
are false for NaN either way, which is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.ir.prim import expr as E

from tile_core.ir import visit
from tile_core.passes.base import PassContext


@dataclass(frozen=True)
class LegalizeFloatCompare:
    """See the module's docstring."""

    name: ClassVar[str] = "legalize_float_compare"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (E.NE, _rewrite))


def _rewrite(comparison: E.NE, mutator: Any) -> tirx.Not | E.NE:
    comparison = mutator.default_mutate(comparison)
    if not str(comparison.a.ty.dtype).startswith(("float", "bfloat")):
        return comparison
    return E.Not(E.EQ(comparison.a, comparison.b, comparison.span))
