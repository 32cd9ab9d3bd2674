"""Mark the products that matrix instructions may round more than the language does, since their author asks for it.

* `tile.allow_tf32`: operands of float32 are rounded to tfloat32, of ten bits. Accumulation stays float32. Whether
  they are rounded to nearest or cut off is up to the instruction.
* `tile.allow_float16_sums`: products into a C of float16 are summed in float16, where the language sums in float32 and
  rounds once a call. Half the registers, and on some devices twice the speed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes.base import PassContext
from tile_core.passes.matrix import PRODUCTS

TF32 = "tf32"
"""Attribute of a product on float32 whose operands may be rounded to tfloat32."""
HALF_SUMS = "float16_sums"
"""Attribute of a product into float16 whose sums may be rounded to it at every step."""
MARKS = {"tile.allow_tf32": TF32, "tile.allow_float16_sums": HALF_SUMS}
"""Option to attribute."""


@dataclass(frozen=True)
class AllowRounding:
    """Both options are false unless they are set."""

    name: ClassVar[str] = "allow_rounding"
    options: ClassVar[tuple[str, ...]] = tuple(MARKS)

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        marks = {mark: 1 for option, mark in MARKS.items() if context.options.get(option, False)}
        if not marks:
            return func

        def mark(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
            if op_name(stmt) not in PRODUCTS:
                return stmt
            call = view(stmt, OPS)
            return replace(call, attrs={**call.attrs, **marks}).to_stmt()

        return visit.mutate(func, (S.Evaluate, mark))
