"""Conversions on the CPU are those of `tile_core.dtypes.casts`: every code of the 8-bit types, random values of others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.dtypes import DType, casts

NAMES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16"]
NAMES += ["float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
COUNT = 1 << 16


def program(source, target):
    @T.prim_func
    def convert(A: T.Tensor((COUNT,), source), B: T.Tensor((COUNT,), target)):
        with T.Kernel(COUNT // 4096) as bx:
            for i in T.Parallel(4096):
                B[bx * 4096 + i] = A[bx * 4096 + i]

    return convert


def values(name):
    """All bit patterns of the narrow types; random bits, and moderate numbers, of the wide ones."""
    dtype = DType(name)
    rng = np.random.default_rng(17)
    raw = rng.integers(0, 256, COUNT * dtype.bytes, np.uint8)
    if dtype.is_bool:
        raw &= 1
    found = raw.view(dtype.numpy)
    if dtype.bits == 8 and not dtype.is_bool:
        found.view(np.uint8)[:256] = np.arange(256, dtype=np.uint8)
    elif dtype.is_float:
        moderate = rng.standard_normal(COUNT // 2) * np.exp2(rng.integers(-14, 14, COUNT // 2))
        found[: COUNT // 2] = moderate.astype(dtype.numpy)
    return found


def tensor(array, name):
    return torch.from_numpy(array.view(np.uint8)).view(DType(name).torch)


@pytest.mark.parametrize("target", NAMES)
def test_conversions_are_the_reference(target):
    with np.errstate(all="ignore"):
        for source in NAMES:
            given = values(source)
            result = np.zeros(COUNT, DType(target).numpy)
            tl.compile(program(source, target), target="cpu")(tensor(given, source), tensor(result, target))
            wanted = casts.cast(given, DType(source), DType(target))
            wrong = (result != wanted) & ~((result != result) & (wanted != wanted))
            at = int(np.argmax(wrong))
            assert not wrong.any(), f"{source} {given[at]} to {target}: {result[at]}, expected {wanted[at]}"
