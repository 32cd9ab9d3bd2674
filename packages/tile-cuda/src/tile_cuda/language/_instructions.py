"""From what an author writes to the operands of an instruction: core's places and numbers, dtypes, shapes and words."""

from __future__ import annotations

import re
from typing import Any

from tvm import ir, tirx

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.values import Buffer, Element, Value
from tile_core.ir import regions
from tile_core.language._instructions import issue, number, place, registers, shared_address
from tile_core.language._scalars import common
from tile_cuda.instructions.shapes import Family, MatrixInstruction, find

__all__ = [
    "dtype_name",
    "issue",
    "matrix_instruction",
    "number",
    "place",
    "registers",
    "shared_address",
    "word",
]

ABBREVIATIONS = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "tfloat32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e3m2": "float6_e3m2fn",
    "e2m3": "float6_e2m3fn",
    "e2m1": "float4_e2m1fn",
}
"""Short names of dtypes among the arguments of instructions."""
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def dtype_name(value: Any) -> str:
    """The dtype that an argument names, in full or short."""
    name = str(value)
    return ABBREVIATIONS[name] if name in ABBREVIATIONS else as_dtype(value).name


def matrix_instruction(
    what: str, family: Family, shape: Any, d: Any, a: Any, b: Any, *, sparse: bool = False
) -> MatrixInstruction:
    """The instruction of a shape such as `"m16n8k16"`. Raises OpArgumentError where there is none."""
    named = _SHAPE.fullmatch(str(shape))
    dtypes = tuple(map(dtype_name, (d, a, b)))
    found = None
    if named is not None:
        m, n, k = map(int, named.groups())
        found = find(family, (m, n, k), *dtypes, sparse=sparse)
    if found is None:
        raise OpArgumentError(
            f"{what}: no {family} of {shape!r} takes {dtypes[1]} and {dtypes[2]} into {dtypes[0]}",
            remedy="tile_cuda.instructions.TABLE lists the shapes and dtypes that there are",
        )
    return found


def word(value: Any, what: str, offset: Any = 0) -> ir.Expr:
    """A 32-bit word of this thread as uint32: a value, or an element of an array. Raises OpArgumentError."""
    if isinstance(value, Buffer | Element) or not isinstance(value, Value | int):
        buffer, index = place(value, what, (regions.LOCAL, regions.VAR), offset)
        expr: ir.Expr = tirx.BufferLoad(buffer.ir, index)
    else:
        (expr,) = common(value)
    dtype = arith.dtype_of(expr)
    if not dtype.is_integer or dtype.bits != 32:
        raise OpDTypeError(f"{what} is {dtype}", remedy="give 32-bit integers, such as T.view(..., dtype='uint32')")
    return expr if dtype.name == "uint32" else tirx.reinterpret("uint32", expr)
