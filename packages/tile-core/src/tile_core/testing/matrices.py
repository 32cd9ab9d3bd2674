"""Matrices for tests of matrix instructions: their bits, the registers that hold them, and their product."""

from __future__ import annotations

import functools
from typing import Protocol

import ml_dtypes
import numpy as np

NUMPY = {
    "float64": np.float64,
    "float32": np.float32,
    "tfloat32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float6_e3m2fn": ml_dtypes.float6_e3m2fn,
    "float6_e2m3fn": ml_dtypes.float6_e2m3fn,
    "float4_e2m1fn": ml_dtypes.float4_e2m1fn,
    "int32": np.int32,
    "int8": np.int8,
    "uint8": np.uint8,
}
"""dtype to numpy's; two integers of four bits are a byte."""
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


class Layout(Protocol):
    """Which element of a matrix each register of each lane holds."""

    def __hash__(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def registers(self) -> int: ...
    def element(self, lane: int, register: int) -> tuple[int, int]:
        """Row and column."""


def random(shape: tuple[int, int], dtype: str, rng: np.random.Generator, special: bool = False) -> np.ndarray:
    """Small values that `dtype` has, so that sums are exact; with `special` NaN, infinities and zeros among them."""
    if dtype in ("int4", "uint4"):
        return rng.integers(-8 if dtype == "int4" else 0, 8 if dtype == "int4" else 16, shape).astype(np.int8)
    kind = np.dtype(NUMPY[dtype])
    if dtype in ("int8", "uint8", "int32"):
        info = np.iinfo(kind)
        return rng.integers(max(info.min, -1000), min(info.max, 1000) + 1, shape).astype(kind)
    values = rng.integers(-6, 7, shape).astype(np.float64) / 2
    if special and not np.dtype(kind).name.startswith(("float6", "float4")):
        for value in SPECIAL:
            values[rng.integers(shape[0]), rng.integers(shape[1])] = value
    return values.astype(kind)


@functools.cache
def _elements(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Row and column, by lane and register."""
    found = [[layout.element(lane, at) for at in range(layout.registers)] for lane in range(layout.lanes)]
    rows, columns = np.moveaxis(np.array(found), -1, 0)
    return rows, columns


def to_registers(matrix: np.ndarray, layout: Layout, dtype: str) -> np.ndarray:
    """A row of words a lane: its elements, packed."""
    out = np.ascontiguousarray(matrix[_elements(layout)])
    if dtype in ("int4", "uint4"):
        nibbles = out.astype(np.uint8) & 15
        out = (nibbles[:, ::2] | nibbles[:, 1::2] << 4).astype(np.uint8)
    if dtype == "float4_e2m1fn":
        out = out.view(np.uint8) << 2
    return out.view(np.uint32)


def from_registers(words: np.ndarray, layout: Layout, dtype: str) -> np.ndarray:
    """The matrix that lanes hold."""
    values = words.view(NUMPY[dtype])
    out = np.empty((layout.rows, layout.columns), values.dtype)
    out[_elements(layout)] = values
    return out


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: str) -> np.ndarray:
    """A × B + C in float64 or int64, rounded once to `d`."""
    wide = np.int64 if d == "int32" else np.float64
    with np.errstate(all="ignore"):
        return (a.astype(wide) @ b.astype(wide) + c.astype(wide)).astype(NUMPY[d])


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal, NaN where NaN is expected."""
    np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64))
