"""Functions of the C library, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T

VALUES = np.array([0.0, -0.0, 1e-30, -1e-8, 0.3, -0.5, 0.999, 1.0, -1.0, 5.0, -7.0, 30.0, np.inf, -np.inf, np.nan])
CASES = [(name, dtype) for name in ("sinh", "cosh", "atanh") for dtype in ("float32", "float64")]
CASES += [("tanh", "float64"), ("exp10", "float64")]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_within_two_ulp(name: str, dtype: str) -> None:
    function = getattr(T, name)
    size = len(VALUES)

    @T.prim_func
    def kernel(A: T.Tensor((size,), dtype), B: T.Tensor((size,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(size):
                B[i] = function(A[i])

    a, b = VALUES.astype(dtype), np.full(size, 99, dtype)
    tl.compile(kernel, target="cpu")(a, b)
    reference = {"exp10": lambda x: 10.0**x, "atanh": np.arctanh}.get(name, getattr(np, name, None))
    assert reference is not None
    with np.errstate(all="ignore"):
        expected = reference(a.astype(np.longdouble)).astype(dtype)
    np.testing.assert_array_almost_equal_nulp(b[np.isfinite(expected)], expected[np.isfinite(expected)], 2)
    assert np.array_equal(b[~np.isfinite(expected)], expected[~np.isfinite(expected)], equal_nan=True)
