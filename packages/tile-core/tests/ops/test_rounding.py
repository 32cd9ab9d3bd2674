"""Conversions with a rounding mode: the expansion against the reference cast, bit by bit."""

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
EIGHT = ["e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"]
TARGETS = ["float16", "bfloat16", *(f"float8_{name}" for name in EIGHT)]
CASES = [(name, True) for name in TARGETS] + [(f"float8_{name}", False) for name in EIGHT]


def values(dtype: DType) -> np.ndarray:
    random = np.random.default_rng(3)
    limit, smallest = float(dtype.max), float(dtype.float_format.smallest)
    spread = random.standard_normal(2_000, np.float32) * np.exp2(random.integers(-30, 20, 2_000)).astype(np.float32)
    with np.errstate(over="ignore"):
        near = np.float32([limit * 2.0**shift * factor for shift in (0, 1, 5) for factor in (1, 1.003, 1.03, 1.1, 1.2)])
        ends = np.float32([limit * (1 + step / 64) for step in range(20)])
    small = np.float32([smallest * step / 8 for step in range(40)])
    special = np.float32([0, 1, 1e-30, 1e-45, 2.0**-130, 3.4e38, np.inf, np.nan])
    positive = np.concatenate([near, ends, small, special])
    return np.concatenate([spread, positive, -positive])


def expanded(inputs: np.ndarray, dtype: DType, rounding: str, saturate: bool, random: np.ndarray) -> np.ndarray:
    """What the expansion computes."""
    kinds = (("float32", "A"), ("uint32", "R"), (dtype.tvm, "Out"))
    a, bits, out = (tirx.decl_buffer((len(inputs),), kind, label) for kind, label in kinds)
    index = tirx.Var("i", "int32")
    draws = tirx.BufferLoad(bits, [index]) if rounding == "rs" else None
    value = directed_cast(tirx.BufferLoad(a, [index]), dtype, rounding, saturate=saturate, random_bits=draws)
    zero, extent = tirx.IntImm("int32", 0), tirx.IntImm("int32", len(inputs))
    body = S.For(index, zero, extent, S.ForKind.SERIAL, S.BufferStore(out, value, [index]))
    found = np.zeros(len(inputs), dtype.numpy)
    Program(tirx.PrimFunc([a, bits, out], body))(inputs, random, found)
    return found


@pytest.mark.parametrize("rounding", ["rn", "rz", "rp", "rm", "rs"])
@pytest.mark.parametrize(("name", "saturate"), CASES)
def test_expansion_equals_the_reference(name: str, saturate: bool, rounding: str) -> None:
    dtype, inputs = DType(name), values(DType(name))
    draws = np.random.default_rng(4).integers(0, 1 << 32, len(inputs), dtype=np.uint32)
    draws[::7], draws[1::7] = 0, 2**32 - 1
    found = expanded(inputs, dtype, rounding, saturate, draws)
    expected = cast(
        inputs, FLOAT32, dtype, rounding=rounding, saturate=saturate, random_bits=draws if rounding == "rs" else None
    )
    width = f"uint{dtype.bits}"
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found.view(width)[numbers], expected.view(width)[numbers])


@pytest.mark.parametrize("name", ["float32", "float8_e8m0fnu", "float6_e3m2fn", "float4_e2m1fn"])
def test_what_has_no_expansion(name: str) -> None:
    assert directed_cast(tirx.Var("x", "float32"), DType(name), "rz", saturate=True) is None


def test_a_source_that_float32_does_not_hold_has_no_expansion() -> None:
    assert directed_cast(tirx.Var("x", "float64"), DType("float16"), "rz", saturate=True) is None
