"""The gemm rule and the float8 family."""

from __future__ import annotations

import pytest
import torch

from tile_core import dtypes
from tile_core.errors import GemmOperandDTypeError

NARROW = ["float8_e4m3fn", "float8_e8m0fnux4", "float6_e3m2fn", "float4_e2m1fn", "float4_e2m1_unpacked"]


@pytest.mark.parametrize("name", NARROW)
def test_narrow_floats_mix_only_where_the_instruction_does(name):
    assert dtypes.is_f8f6f4_family(name)
    dtypes.validate_gemm_ab_dtypes(name, "float8_e5m2", allow_f8f6f4_mixed=True)
    with pytest.raises(GemmOperandDTypeError, match=f"{name}.*float8_e5m2"):
        dtypes.validate_gemm_ab_dtypes(name, "float8_e5m2")


def test_equal_operands_in_different_spellings():
    dtypes.validate_gemm_ab_dtypes("half", torch.float16)


@pytest.mark.parametrize(("a", "b"), [("float16", "bfloat16"), ("int8", "uint8"), ("float32", "tfloat32")])
def test_other_types_never_mix(a, b):
    with pytest.raises(GemmOperandDTypeError):
        dtypes.validate_gemm_ab_dtypes(a, b, allow_f8f6f4_mixed=True)


def test_tensor_memory_decides_its_own_dtype():
    dtypes.validate_gemm_ab_dtypes("uint32", "float16", a_in_tmem=True)


def test_float4_questions():
    both = ("float4_e2m1fn", "float4_e2m1_unpacked", "float4_e2m1fnx8", "float8_e5m2")
    assert [dtypes.is_float4(name) for name in both] == [True, True, True, False]
    assert [dtypes.is_float4_e2m1fn(name) for name in both] == [True, False, True, False]
    assert [dtypes.is_float4_e2m1_unpacked(name) for name in both] == [False, True, False, False]
    assert dtypes.get_tvm_dtype("half") is dtypes.float16
