"""One program for every code of the data types: its class, the line where it is in a kernel, and what it names."""

from __future__ import annotations

import pytest

from tile_core.errors import dtypes as codes
from tile_core.testing.codes import Program, inside, refuse

CASTS = "import numpy as np\nfrom tile_core.dtypes import DType, casts\n"

PROGRAMS = {
    "CastModeError": Program(
        CASTS + 'casts.cast(np.float32([1]), DType("float32"), DType("float16"), rounding="up")', "'up'"
    ),
    "DTypeCallError": Program(inside("A[0] = T.int32(1, 2)  # HERE"), "int32() takes one value, got 2"),
    "DTypeMappingError": Program("T.float32x4.torch", "float32x4"),
    "GemmOperandDTypeError": Program(
        'from tile_core.dtypes import validate_gemm_ab_dtypes\nvalidate_gemm_ab_dtypes("int8", "uint8")', "uint8"
    ),
    "UnknownDTypeError": Program(inside('T.alloc_shared((8,), "bf16")  # HERE'), "'bf16'"),
    "UnknownDTypeObjectError": Program(inside("T.alloc_shared((8,), complex)  # HERE"), "complex"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name):
    refuse(getattr(codes, name), PROGRAMS[name])
