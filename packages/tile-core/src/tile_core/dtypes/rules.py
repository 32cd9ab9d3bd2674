"""Rules over dtypes that the language exports as functions."""

from __future__ import annotations

from tile_core.dtypes.dtype import AnyDType, DType, as_dtype
from tile_core.errors.dtypes import GemmOperandDTypeError


def get_tvm_dtype(value: AnyDType) -> DType:
    """The dtype of any accepted spelling; the same as `as_dtype`, under TileLang's name.

    `T.get_tvm_dtype("half") == "float16"`.
    """
    return as_dtype(value)


def is_float4(value: AnyDType) -> bool:
    """Whether `value` is a 4-bit float, packed or one a byte: `T.is_float4("float4_e2m1fn") == True`."""
    return as_dtype(value).is_float4()


def is_float4_e2m1fn(value: AnyDType) -> bool:
    """Whether `value` is the packed 4-bit float: `T.is_float4_e2m1fn("float4_e2m1fn") == True`."""
    return as_dtype(value).is_float4_e2m1fn()


def is_float4_e2m1_unpacked(value: AnyDType) -> bool:
    """Whether `value` is the 4-bit float that takes a byte: `T.is_float4_e2m1_unpacked("float4_e2m1fn") == False`."""
    return as_dtype(value).is_float4_e2m1_unpacked()


def is_f8f6f4_family(value: AnyDType) -> bool:
    """Whether `value` is a float of 8, 6 or 4 bits: the types that some matrix instructions mix.

    `T.is_f8f6f4_family("float8_e5m2") == True`.
    """
    return as_dtype(value).family in ("float8", "float6", "float4")


def validate_gemm_ab_dtypes(
    a_dtype: AnyDType,
    b_dtype: AnyDType,
    *,
    a_in_tmem: bool = False,
    allow_f8f6f4_mixed: bool = False,
) -> None:
    """Check that A and B can be multiplied: equal dtypes, or two narrow floats where the instruction mixes them.

    Args:
        a_dtype: the dtype of A.
        b_dtype: the dtype of B.
        a_in_tmem: A lies in tensor memory, whose dtype the instruction itself decides.
        allow_f8f6f4_mixed: the chosen instruction mixes floats of 8, 6 and 4 bits.

    Raises:
        GemmOperandDTypeError: the operands cannot be multiplied together.

    >>> validate_gemm_ab_dtypes("float8_e4m3fn", "float6_e2m3fn", allow_f8f6f4_mixed=True)
    """
    a, b = as_dtype(a_dtype), as_dtype(b_dtype)
    if a_in_tmem or a == b:
        return
    if allow_f8f6f4_mixed and is_f8f6f4_family(a) and is_f8f6f4_family(b):
        return
    raise GemmOperandDTypeError(
        f"gemm cannot multiply A of {a} with B of {b}", remedy="cast one operand to the other's dtype"
    )
