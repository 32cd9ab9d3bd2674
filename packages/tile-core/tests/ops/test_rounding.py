"""Directed rounding: the expansion against the reference cast, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.dtypes.casts import cast
from tile_core.interpreter import Program
from tile_core.ops.rounding import directed_cast

FLOAT32 = DType("float32")


def values(dtype: DType) -> np.ndarray:
    random = np.random.default_rng(3)
    limit = float(dtype.max)
    spread = random.standard_normal(20_000, np.float32) * np.exp2(random.integers(-30, 20, 20_000)).astype(np.float32)
    special = [0, -0.0, 1, -1, limit, -limit, limit * 1.003, -limit * 1.003, 1e-30, -1e-30, np.inf, -np.inf, np.nan]
    return np.concatenate([spread, np.float32(special)])


@pytest.mark.parametrize("rounding", ["rz", "rp", "rm"])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_expansion_equals_the_reference(name: str, rounding: str) -> None:
    dtype, inputs = DType(name), values(DType(name))
    a, out = (tirx.decl_buffer((len(inputs),), kind, label) for kind, label in (("float32", "A"), (dtype.tvm, "Out")))
    index = tirx.Var("i", "int32")
    value = directed_cast(tirx.BufferLoad(a, [index]), dtype, rounding, saturate=True)
    zero, extent = tirx.IntImm("int32", 0), tirx.IntImm("int32", len(inputs))
    body = S.For(index, zero, extent, S.ForKind.SERIAL, S.BufferStore(out, value, [index]))
    found = np.zeros(len(inputs), dtype.numpy)
    Program(tirx.PrimFunc([a, out], body))(inputs, found)
    expected = cast(inputs, FLOAT32, dtype, rounding=rounding)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize(
    ("name", "rounding"), [("float16", "rs"), ("float16", "rn"), ("float32", "rz"), ("float8_e8m0fnu", "rz")]
)
def test_what_has_no_expansion(name: str, rounding: str) -> None:
    assert directed_cast(tirx.Var("x", "float32"), DType(name), rounding, saturate=True) is None
