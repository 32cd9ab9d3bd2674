"""Comparisons of floats with NaN and of bool, in vectors and scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
VALUES = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-40]


def compared(dtype: str, name: str, size: int, serial: bool) -> Any:
    compare = COMPARISONS[name]

    @T.prim_func
    def kernel(A: T.Tensor((size,), dtype), B: T.Tensor((size,), dtype), Out: T.Tensor((size,), "bool")):
        with T.Kernel(1):
            if serial:
                for i in T.serial(size):
                    Out[i] = compare(A[i], B[i])
            else:
                for i in T.Parallel(size):
                    Out[i] = compare(A[i], B[i])

    return tl.compile(kernel, target="cpu")


@pytest.mark.parametrize("serial", [True, False])
@pytest.mark.parametrize("name", COMPARISONS)
def test_floats(name: str, serial: bool) -> None:
    pairs = np.array([(a, b) for a in VALUES for b in VALUES])
    for dtype in ("float32", "float64"):
        a, b = (np.ascontiguousarray(pairs[:, at]).astype(dtype) for at in (0, 1))
        out = np.zeros(len(a), bool)
        compared(dtype, name, len(a), serial)(a, b, out)
        assert np.array_equal(out, COMPARISONS[name](a, b))


@pytest.mark.parametrize("serial", [True, False])
@pytest.mark.parametrize("name", ["==", "!="])
def test_bool(name: str, serial: bool) -> None:
    a, b = np.array([0, 0, 1, 1] * 25, bool), np.array([0, 1, 0, 1] * 25, bool)
    out = np.zeros(100, bool)
    compared("bool", name, 100, serial)(a, b, out)
    assert np.array_equal(out, COMPARISONS[name](a, b))
