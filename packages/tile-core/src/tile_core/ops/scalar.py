"""Scalar functions whose meaning TVM's own nodes do not give: a name, a numpy meaning and an expansion.

TVM's `Max`, `Min` and `!=` on floats follow the comparison of the target, so their result for NaN depends on the
backend and on the order of operands. The functions here say it once: `tile.max` and `tile.min` propagate NaN,
`tile.maxnum` and `tile.minnum` ignore it, all symmetrically. In the IR they are pure calls; a backend that lists one
prints it natively, every other one gets the expansion (`passes/lower_scalar_ops.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

from tile_core.dtypes import as_dtype
from tile_core.ir.ops import tile_op
from tile_core.ops.build import dtype_of

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class ScalarOp:
    """A pure function of scalars.

    `reference` maps numpy arrays (or scalars) of the operands' dtypes to the result, elementwise; `expand` rewrites a
    call into plain nodes, given its arguments and attributes. All operands and the result have one dtype unless
    `result` names another.
    """

    name: str
    arity: int
    reference: Callable[..., np.ndarray]
    expand: Callable[..., ir.Expr]
    result: str | None = None

    def call(self, *args: ir.Expr, span: ir.Span | None = None) -> ir.Expr:
        """A call to it on operands of one dtype."""
        dtype = dtype_of(args[0]) if self.result is None else as_dtype(self.result)
        return ir.Call(tile_op(self.name, pure=True), list(args), ret_ty=ir.PrimType(dtype.tvm), span=span)


def is_nan(value: ir.Expr) -> ir.Expr:
    """Whether a float is NaN, as `not (x == x)`: LLVM's `!=` on floats is ordered in TVM's code generator."""
    return tirx.Not(tirx.EQ(value, value))


def _pick(compare: Callable[[ir.Expr, ir.Expr], ir.Expr], *, ignore_nan: bool) -> Callable[..., ir.Expr]:
    def expand(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        # The comparison is false when either side is NaN, which picks b: right when b is to win, wrong otherwise.
        return tirx.Select(tirx.Or(compare(a, b), is_nan(b if ignore_nan else a)), a, b)

    return expand


def _numpy(name: str) -> Callable[..., Any]:
    def reference(*args: Any) -> Any:
        import numpy as np

        return getattr(np, name)(*args)

    return reference


SCALARS: Mapping[str, ScalarOp] = {
    op.name: op
    for op in (
        ScalarOp("tile.max", 2, _numpy("maximum"), _pick(tirx.GT, ignore_nan=False)),
        ScalarOp("tile.min", 2, _numpy("minimum"), _pick(tirx.LT, ignore_nan=False)),
        ScalarOp("tile.maxnum", 2, _numpy("fmax"), _pick(tirx.GT, ignore_nan=True)),
        ScalarOp("tile.minnum", 2, _numpy("fmin"), _pick(tirx.LT, ignore_nan=True)),
    )
}
