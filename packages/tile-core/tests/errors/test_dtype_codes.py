"""One use for every code of the data types: its class and what its message names."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tile_core import dtypes
from tile_core.dtypes import DType, casts
from tile_core.errors import TileError
from tile_core.errors import dtypes as codes

USES = {
    "CastModeError": (lambda: casts.cast(np.float32([1]), DType("float32"), DType("float16"), rounding="up"), "'up'"),
    "DTypeMappingError": (lambda: DType("float32x4").torch, "float32x4"),
    "GemmOperandDTypeError": (lambda: dtypes.validate_gemm_ab_dtypes("int8", "uint8"), "uint8"),
    "UnknownDTypeError": (lambda: DType("bf16"), "'bf16'"),
    "UnknownDTypeObjectError": (lambda: DType(complex), "complex"),
}
ELSEWHERE = {"DTypeCallError"}
"""Raised where the frontend cannot be loaded."""


@pytest.mark.parametrize("name", USES)
def test_a_use_for_each_code(name):
    use, word = USES[name]
    kind = getattr(codes, name)
    with pytest.raises(kind) as caught:
        use()
    assert type(caught.value) is kind
    assert word in caught.value.message
    assert caught.value.remedy
    assert kind.code in str(caught.value)


def test_every_code_has_a_use():
    assert set(codes.__all__) == USES.keys() | ELSEWHERE


def test_codes_are_distinct_and_documented():
    classes = [getattr(codes, name) for name in codes.__all__]
    assert len({each.code for each in classes}) == len(classes)
    for each in classes:
        assert issubclass(each, TileError)
        assert each.__bases__[-1] is not TileError, f"{each} is no builtin exception"
        assert each.code.startswith("TILE-E03")
        assert len(inspect.getdoc(each) or "") > 60, each
