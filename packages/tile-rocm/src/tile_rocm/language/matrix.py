"""Matrix instructions of one wave, written by hand, and where their results are.

All lanes of a wave come here together, each with its registers in arrays of `T.alloc_local`; `T.gemm` chooses and
places the same instructions by itself. `tile_rocm.instructions.shapes` says which element each register holds.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import OpArgumentError
from tile_core.language._instructions import issue, number, registers
from tile_rocm.instructions.matrix import builtin, matrix
from tile_rocm.instructions.shapes import MatrixInstruction, instructions
from tile_rocm.target import table

__all__ = [
    "get_mma_micro_size",
    "mfma",
    "mfma_store_index_map",
    "mfma_store_index_map_32x32",
    "rdna_wmma",
    "tvm_mfma",
    "tvm_rdna_wmma",
]

_VECTOR = re.compile(r"(\w+?)(?:x(\d+))?")
_BLOCK = 4
"""Neighbouring elements of a lane of a result."""


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """M, N and K of the instruction of gfx942 for operands of `dtype`: 16, 16 and 16, or 32 for bytes.

    Example:
        T.get_mma_micro_size("int8") == (16, 16, 32)
    """
    return 16, 16, 32 if as_dtype(dtype).bits == 8 else 16


def mfma_store_index_map(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """Row and column of C that register `local_id` of lane `thread_id` holds, B being the first operand of 16 × 16.

    Example:
        T.mfma_store_index_map(17, 2) == (1, 6)
    """
    return thread_id % 16, local_id + thread_id // 16 * _BLOCK


def mfma_store_index_map_32x32(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """The same for 32 × 32.

    Example:
        T.mfma_store_index_map_32x32(33, 5) == (1, 13)
    """
    return thread_id % 32, thread_id // 32 * _BLOCK + local_id % _BLOCK + local_id // _BLOCK * (2 * _BLOCK)


def _dtype_first(function: Callable[..., None]) -> Callable[..., None]:
    """`function`, whose first parameter may also be given by name behind the others."""

    @functools.wraps(function)
    def call(*args: Any, dtype: Any = None, **named: Any) -> None:
        function(*args, **named) if dtype is None else function(dtype, *args, **named)

    return call


@_dtype_first
def mfma(
    dtype: Any,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: Any,
    B_dtype: Any,
    C_dtype: Any,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
) -> None:
    """C += A B by one MFMA of a wave of 64 lanes (gfx90a, gfx942, gfx950).

    Args:
        dtype: that of C, as `C_dtype`; may be given by name behind the others.
        shape: the end of Clang's name, such as `"f32_16x16x16f16"`.
        A_layout, B_layout: `"row"` or `"col"`, which mean nothing: registers are in the instruction's order.
        A_dtype, B_dtype, C_dtype: with the number of a lane's elements, such as `"float16x4"`.
        multiplicand_a, multiplicand_b, accumulator: arrays of `T.alloc_local`; the indices count whole operands.

    Raises:
        OpArgumentError: no such instruction, or an array that is too short.
        UnsupportedOnTargetError: when compiled for an architecture without it.

    Example:
        T.mfma("float32x4", "f32_16x16x16f16", "row", "row", "float16x4", "float16x4", "float32x4", a, 0, b, 0, c, 0)
    """
    operands = (multiplicand_a, a_index, multiplicand_b, b_index, accumulator, c_index)
    _multiply("mfma", ("mfma",), shape, (A_layout, B_layout), (A_dtype, B_dtype, C_dtype), operands)


@_dtype_first
def rdna_wmma(
    dtype: Any,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: Any,
    B_dtype: Any,
    C_dtype: Any,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
) -> None:
    """C += A B by one WMMA of a wave of 32 lanes: of gfx1100 for 16 elements of an operand in a lane, of gfx1201 for 8.

    Arguments and errors as `T.mfma`; `shape` is such as `"f32_16x16x16_f16_w32"`.

    Example:
        T.rdna_wmma("float32x8", "f32_16x16x16_f16_w32", "row", "row", "float16x16", "float16x16", "float32x8",
                    a, 0, b, 0, c, 0)
    """
    operands = (multiplicand_a, a_index, multiplicand_b, b_index, accumulator, c_index)
    families = ("wmma", "wmma_gfx12")
    _multiply("rdna_wmma", families, shape, (A_layout, B_layout), (A_dtype, B_dtype, C_dtype), operands)


tvm_mfma, tvm_rdna_wmma = mfma, rdna_wmma


def _multiply(
    what: str,
    families: tuple[str, ...],
    shape: str,
    layouts: tuple[Any, Any],
    dtypes: tuple[Any, Any, Any],
    operands: tuple[Any, ...],
) -> None:
    if not {str(layout) for layout in layouts} <= {"row", "col"}:
        raise OpArgumentError(f"{what}: layouts {layouts}", remedy='give "row" or "col": they change nothing')
    found = _find(what, families, str(shape), *map(_vector, dtypes))
    a, a_at, b, b_at, c, c_at = operands
    counts = (found.packed, found.packed, found.d_layout.registers)
    places = []
    for name, array, index, count, dtype in zip(
        "ABC", (a, b, c), (a_at, b_at, c_at), counts, found.dtypes, strict=True
    ):
        label = f"{what}: {name}"
        start = index * count if isinstance(index, int) else number(index, label) * count
        places.append(registers(array, label, count * as_dtype(dtype).bits, start))
    issue(matrix(places[2], places[0], places[1], instruction=found))


def _vector(dtype: Any) -> tuple[str, int]:
    """The dtype of elements and their number: `("float16", 4)` of `"float16x4"`."""
    named = _VECTOR.fullmatch(str(dtype))
    assert named is not None
    return as_dtype(named[1]).name, int(named[2] or 1)


@functools.cache
def _all() -> tuple[MatrixInstruction, ...]:
    return tuple({one: None for facts in table().architectures.values() for one in instructions(facts)})


def _find(
    what: str, families: tuple[str, ...], shape: str, a: tuple[str, int], b: tuple[str, int], c: tuple[str, int]
) -> MatrixInstruction:
    for one in _all():
        name = builtin(one).removesuffix("_gfx12").partition(f"_{one.family.removesuffix('_gfx12')}_")[2]
        held = ((one.a, one.packed), (one.b, one.packed), (one.d, one.d_layout.registers))
        if one.family in families and name == shape and held == (a, b, c):
            return one
    raise OpArgumentError(
        f"{what}: no {shape!r} takes {a[1]} × {a[0]} and {b[1]} × {b[0]} of a lane into {c[1]} × {c[0]}",
        remedy="shape is the end of Clang's name; targets.yaml of tile-rocm lists the shapes that there are",
    )
