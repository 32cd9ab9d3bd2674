"""What CUDA's instructions are made of: core's, with text that is inline PTX."""

from __future__ import annotations

from tvm import ir
from tvm.ir.prim import expr as E

from tile_core.printer.instructions import Attributes, Function, Instruction, Pointer, Size, address_of

__all__ = ["INLINE", "Attributes", "Function", "Instruction", "Pointer", "Size", "address_of", "int32", "numbers"]

INLINE = "__device__ __forceinline__"


def int32(value: int) -> ir.Expr:
    """An int32 constant."""
    return E.IntImm("int32", value)


def numbers(first: int, count: int) -> str:
    """Operand numbers of inline PTX: `%4, %5`."""
    return ", ".join(f"%{at}" for at in range(first, first + count))
