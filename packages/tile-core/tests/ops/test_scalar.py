"""Scalar functions: the expansion means what the numpy reference means, NaN and halves included."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.interpreter import Program
from tile_core.ops.scalar import SCALARS
from tile_core.passes.base import PassContext
from tile_core.passes.lower_scalar_ops import LowerScalarOps

VALUES = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.49999997,
    8388609.0,
    1e30,
    3.7,
    -7.3,
    float("inf"),
    float("-inf"),
    float("nan"),
]


MAY_ROUND_OTHERWISE = {"tile.fma", "tile.fast_rcp"}
EXPANDED = sorted({name for name, op in SCALARS.items() if op.expand and not op.result} - MAY_ROUND_OTHERWISE)


def program(name: str, dtype: str, count: int) -> tirx.PrimFunc:
    """Out[i] = f(In0[i], …), with the function expanded."""
    op = SCALARS[name]
    inputs = [tirx.decl_buffer((count,), dtype, f"In{position}") for position in range(op.arity)]
    out = tirx.decl_buffer((count,), dtype, "Out")
    index = tirx.Var("i", "int32")
    value = op.expand(*(tirx.BufferLoad(buffer, [index]) for buffer in inputs))
    zero, extent = tirx.IntImm("int32", 0), tirx.IntImm("int32", count)
    body = S.For(index, zero, extent, S.ForKind.SERIAL, S.BufferStore(out, value, [index]))
    return tirx.PrimFunc([*inputs, out], body)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EXPANDED)
def test_expansion_equals_reference(name: str, dtype: str) -> None:
    op = SCALARS[name]
    combinations = np.array(list(itertools.product(VALUES, repeat=min(op.arity, 2))), dtype=dtype)
    columns = [np.ascontiguousarray(combinations[:, position % combinations.shape[1]]) for position in range(op.arity)]
    out = np.full(len(combinations), 77, dtype)
    Program(program(name, dtype, len(combinations)))(*columns, out)
    with np.errstate(all="ignore"):
        expected = op.reference(*columns)
    np.testing.assert_array_equal(out, expected)


def test_fma_rounds_at_most_twice() -> None:
    x, y, z = np.random.default_rng(0).standard_normal((3, 1000), np.float32)
    out = np.zeros(1000, np.float32)
    Program(program("tile.fma", "float32", 1000))(x, y, z, out)
    once = SCALARS["tile.fma"].reference(x, y, z)
    unit = np.finfo(np.float32).eps * (np.abs(x * y) + np.abs(once))
    assert (np.abs(out - once) <= unit).all()


@pytest.mark.parametrize("name", ["tile.max", "tile.min", "tile.maxnum", "tile.minnum"])
def test_extremes_do_not_depend_on_the_order(name: str) -> None:
    pairs = np.array(list(itertools.product(VALUES, repeat=2)), dtype=np.float32)
    function = SCALARS[name].reference
    np.testing.assert_array_equal(function(pairs[:, 0], pairs[:, 1]), function(pairs[:, 1], pairs[:, 0]))


def test_propagation_and_ignorance_of_nan() -> None:
    nan, one = np.float32("nan"), np.float32(1)
    for name in ("tile.max", "tile.min"):
        assert np.isnan(SCALARS[name].reference(nan, one))
        assert SCALARS[f"{name}num"].reference(nan, one) == 1
        assert np.isnan(SCALARS[f"{name}num"].reference(nan, nan))


def test_round_takes_halves_away_from_zero() -> None:
    values = np.array([0.5, 1.5, -2.5, 0.49999997, 8388609.0, -0.3], np.float32)
    assert SCALARS["tile.round"].reference(values).tolist() == [1, 2, -3, 0, 8388609, 0]


def test_calls_are_expanded_once_per_operand() -> None:
    x = tirx.Var("x", "float32")
    nested = x
    for _ in range(12):
        nested = SCALARS["tile.max"].call(nested, tirx.FloatImm("float32", 1.0))
    out = tirx.decl_buffer((1,), "float32", "Out")
    func = tirx.PrimFunc([x, out], S.BufferStore(out, nested, [tirx.IntImm("int32", 0)]))
    expanded = LowerScalarOps()(func, PassContext(target=None, capabilities=None, backend=None))
    assert len(expanded.script()) < 20_000
