"""Loads and stores of whole words: 4 to 32 bytes at an address, whatever the elements are.

`tile.load_words` gives the bytes as `uint32` or a vector of them, `tile.store_words` writes them. The first argument is
the address of an element; a load has a condition as its second, and gives zeros where it does not hold. Where any of
the elements (attribute `elements` says how many) lies beyond a global tensor, a load gives zeros, a store does nothing.
The address must be a multiple of the size.
"""

from __future__ import annotations

from tvm import ir

from tile_core.dtypes import DType, as_dtype
from tile_core.ir.ops import tile_op
from tile_core.ops.atomic import address

LOAD, STORE = "tile.load_words", "tile.store_words"
BITS = (32, 64, 128, 256)


def words(bits: int) -> DType:
    """The dtype of a value of `bits` bits."""
    return DType("uint32") if bits == 32 else as_dtype(f"uint32x{bits // 32}")


def load(buffer: ir.Var, index: list[ir.Expr], bits: int, condition: ir.Expr, span: ir.Span | None) -> ir.Expr:
    """`bits` bits from the element at `index` on, zeros where `condition` does not hold."""
    arguments, dtype = [address(buffer, index), condition], ir.PrimType(words(bits).tvm)
    return ir.Call(tile_op(LOAD), arguments, attrs=_attributes(buffer, bits, "r"), ret_ty=dtype, span=span)


def store(buffer: ir.Var, index: list[ir.Expr], value: ir.Expr, span: ir.Span | None) -> ir.Expr:
    """Write the words of `value` from the element at `index` on."""
    arguments = [address(buffer, index), value]
    bits = 32 * int(value.ty.dtype.lanes)
    return ir.Call(tile_op(STORE), arguments, attrs=_attributes(buffer, bits, "w"), ret_ty="void", span=span)


def _attributes(buffer: ir.Var, bits: int, access: str) -> dict[str, object]:
    return {"access": access, "elements": bits // int(buffer.dtype.bits)}
