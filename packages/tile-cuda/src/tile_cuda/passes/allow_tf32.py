"""Mark the products on float32 whose operands may be rounded to tfloat32 for the tensor cores.

Rounding to ten bits changes results, so the author asks for it: the pass config `tile.allow_tf32`. Accumulation stays
float32. `mma` rounds operands to nearest on the way to its registers; `wgmma` reads them where they lie and cuts off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ops.base import op_name, view
from tile_core.passes.base import PassContext
from tile_cuda.matrix.product import TF32

OPTION = "tile.allow_tf32"


@dataclass(frozen=True)
class AllowTf32:
    """`tile.allow_tf32` (default false) switches it on."""

    name: ClassVar[str] = "allow_tf32"
    options: ClassVar[tuple[str, ...]] = (OPTION,)

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        if not context.options.get(OPTION, False):
            return func
        return visit.mutate(func, (S.Evaluate, _mark))


def _mark(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
    from tile_core.ops import OPS

    if op_name(stmt) != "tile.gemm":
        return stmt
    call = view(stmt, OPS)
    return replace(call, attrs={**call.attrs, TF32: 1}).to_stmt()
