"""Whether memory begins at an aligned address: a question that host code and kernels ask alike."""

from __future__ import annotations

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.ir.ops import tile_op

IS_ALIGNED = "tile.is_aligned"
"""The operator `(address, bytes)`: whether the address is a multiple of so many bytes, a power of two."""


def is_aligned(buffer: ir.Var, size: int) -> ir.Expr:
    """Whether the first element of `buffer` lies at a multiple of `size` bytes, a power of two."""
    zeros = [E.IntImm(extent.ty, 0) for extent in buffer.shape]
    address = tirx.address_of(tirx.BufferLoad(buffer, zeros))
    operands = [address, E.IntImm("int32", size)]
    return ir.Call(tile_op(IS_ALIGNED, pure=True), operands, ret_ty=ir.PrimType("bool"))


def asked_of(expr: ir.Expr) -> ir.Var | None:
    """The buffer of whose address `expr` is the question; `None` for any other expression."""
    if not isinstance(expr, ir.Call) or not isinstance(expr.op, ir.Op) or str(expr.op.name) != IS_ALIGNED:
        return None
    return expr.args[0].args[0].source
