"""Literals that a compiler turns back into the same bits."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.printer import print_function
from tile_core.printer.c import C
from tile_core.printer.literals import ROUND, shortest


def _float32(bits: int) -> float:
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return float(value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_constants_have_the_same_bits(run_c: Any, dtype: str) -> None:
    random = np.random.default_rng(1)
    width = np.dtype(dtype).itemsize
    values = random.integers(0, 256, 1500 * width, dtype=np.uint8).view(dtype)
    edges = [np.finfo(dtype).max, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal, 1 / 3, 16777217, 8388608.5]
    values = np.concatenate([values[np.isfinite(values)], np.array([*edges, *(-e for e in edges)], dtype)])
    out = tirx.decl_buffer((len(values),), dtype, "out")
    stores = [
        S.BufferStore(out, tirx.FloatImm(dtype, float(v)), [tirx.IntImm("int32", n)]) for n, v in enumerate(values)
    ]
    result = np.zeros_like(values)
    run_c(print_function(tirx.PrimFunc([out], S.SeqStmt(stores)), C), result)
    np.testing.assert_array_equal(result.view(f"u{width}"), values.view(f"u{width}"))


@given(st.integers(0, 2**32 - 1).map(_float32).filter(math.isfinite))
def test_shortest_float32_is_numpys(value: float) -> None:
    text = shortest(value, "float32")
    assert np.float32(text) == np.float32(value)
    # The largest value has no neighbour above, and subnormals have fewer digits than numpy's shortest form needs.
    numpys = str(np.float32(value))
    if 2.0**-126 <= abs(value) < 3.4e38 and not _is_halfway(numpys, value):
        assert _digits(text) <= _digits(numpys)


def _is_halfway(text: str, value: float) -> bool:
    """Whether a text lies in the middle between `value` and a neighbour: compilers may round it to either."""
    size, target = Fraction(text), Fraction(value)
    neighbours = (Fraction(float(np.nextafter(np.float32(value), np.float32(to)))) for to in (-np.inf, np.inf))
    return any(2 * size == target + neighbour for neighbour in neighbours)


def _digits(text: str) -> int:
    return len(text.lower().split("e")[0].strip("-").replace(".", "").strip("0"))


@pytest.mark.parametrize(("dtype", "reference"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
@given(value=st.floats(allow_nan=False) | st.floats(width=16, allow_nan=False) | st.floats(-1e-37, 1e-37))
def test_rounding_to_16_bits_is_done_once(dtype: str, reference: Any, value: float) -> None:
    with np.errstate(over="ignore"):
        # float64 → bfloat16 goes through float32 in ml_dtypes, which rounds twice.
        twice = dtype == "bfloat16" and float(np.float32(value)) != value
        expected = float(np.array(value).astype(reference))
    assert ROUND[dtype](value) == expected or twice


def test_bfloat16_ties_go_to_even_and_sticky_bits_count() -> None:
    tie = 1 + 2**-8
    assert ROUND["bfloat16"](tie) == 1.0
    assert ROUND["bfloat16"](tie + 2**-40) == 1 + 2**-7
    assert ROUND["bfloat16"](3.4e38) == math.inf
