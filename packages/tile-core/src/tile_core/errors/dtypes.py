"""Errors raised by the dtypes part."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "CastModeError",
    "DTypeCallError",
    "DTypeMappingError",
    "GemmOperandDTypeError",
    "UnknownDTypeError",
    "UnknownDTypeObjectError",
]


class UnknownDTypeError(TileError, ValueError):
    """A string does not name a dtype of the tile language.

    Names are written out: `float16`, `bfloat16`, `int32`, `float8_e4m3fn`, and `NAMExLANES` for vectors (`float32x4`).
    The table is in the documentation under "Data types".
    """

    code = "TILE-E0301"


class UnknownDTypeObjectError(TileError, TypeError):
    """An object was given where a dtype is expected, and it is none.

    A dtype is `T.float32`, the string `"float32"`, `torch.float32`, `numpy.float32`, a `numpy.dtype`, or Python's
    `bool`, `int` (int32) and `float` (float32). Complex, structured and byte-swapped types have no counterpart in the
    language.
    """

    code = "TILE-E0302"


class DTypeMappingError(TileError, ValueError):
    """A dtype has no counterpart in torch or numpy, so no tensor of it can be made there.

    Vector types and some narrow floats exist only inside kernels. Give the tensor a storage type of the same width
    (`uint8`, for example) and reinterpret it inside the kernel with `T.view`.
    """

    code = "TILE-E0303"


class GemmOperandDTypeError(TileError, ValueError):
    """The operands A and B of a matrix multiplication have dtypes that cannot be multiplied together.

    A and B must have the same dtype. Only instructions for the narrow floats (4, 6 and 8 bits) mix them, where the
    target has such instructions. Cast one operand to the other's dtype.
    """

    code = "TILE-E0304"


class DTypeCallError(TileError, TypeError):
    """A dtype was called with arguments that it cannot make a value of.

    `T.float32(x)` converts one value, `T.float32x4(a, b, c, d)` packs as many values as the vector has lanes, and
    `T.float32x4(a)` puts one value into every lane.
    """

    code = "TILE-E0305"


class CastModeError(TileError, ValueError):
    """A conversion was asked for with a rounding mode that does not exist, or without what the mode needs.

    The modes are `rn` (nearest, ties to even), `rz` (toward zero), `rp` (up), `rm` (down) and `rs` (stochastic, which
    needs `rbits=`, uniform uint32 values).
    """

    code = "TILE-E0306"
