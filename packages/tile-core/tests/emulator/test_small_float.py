"""Half and bfloat16 of the emulator, bit for bit against torch."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.emulate

FORMATS = [(0, torch.float16), (1, torch.bfloat16)]


def pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def codes_of(values: torch.Tensor, dtype: torch.dtype) -> Any:
    return values.to(dtype).view(torch.int16).numpy().view(np.uint16)


def encoded(kernels: Any, number: int, values: Any) -> Any:
    codes = np.empty(len(values), dtype=np.uint16)
    kernels.library.encode(number, ctypes.c_int64(len(values)), pointer(values), pointer(codes))
    return codes


@pytest.mark.parametrize(("number", "dtype"), FORMATS)
def test_every_code_decodes_as_in_torch(kernels: Any, number: int, dtype: torch.dtype) -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = np.empty(1 << 16, dtype=np.float32)
    kernels.library.decode(number, ctypes.c_int64(1 << 16), pointer(codes), pointer(values))
    wanted = torch.from_numpy(codes.view(np.int16)).view(dtype).float().numpy()
    is_nan = np.isnan(wanted)
    assert (np.isnan(values) == is_nan).all()
    assert (values[~is_nan].view(np.uint32) == wanted[~is_nan].view(np.uint32)).all()


@pytest.mark.parametrize(("number", "dtype"), FORMATS)
def test_every_code_survives_a_round_trip(kernels: Any, number: int, dtype: torch.dtype) -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = torch.from_numpy(codes.view(np.int16)).view(dtype).float().numpy()
    is_nan = np.isnan(values)
    found = encoded(kernels, number, values)
    assert (found[~is_nan] == codes[~is_nan]).all()
    assert torch.from_numpy(found.view(np.int16)).view(dtype).isnan().numpy()[is_nan].all()


def bit_patterns() -> Any:
    """Floats of every magnitude, and the halfway points between neighbours of both formats with their neighbours."""
    random = np.random.default_rng(7)
    words = [random.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32)]
    for dropped in (13, 16):
        tops = random.integers(0, 1 << (32 - dropped), 20_000, dtype=np.uint64) << dropped
        halves = tops + (1 << (dropped - 1))
        words += [(halves.astype(np.int64) + step).astype(np.uint32) for step in (-1, 0, 1)]
    small = np.arange(0, 1 << 12, dtype=np.float64) * 2.0**-26
    return np.concatenate([*words, small.astype(np.float32).view(np.uint32)]).view(np.float32)


@pytest.mark.parametrize(("number", "dtype"), FORMATS)
def test_rounding_is_that_of_torch(kernels: Any, number: int, dtype: torch.dtype) -> None:
    values = bit_patterns()
    found, wanted = encoded(kernels, number, values), codes_of(torch.from_numpy(values), dtype)
    is_nan = np.isnan(values)
    assert (found[~is_nan] == wanted[~is_nan]).all()
    assert torch.from_numpy(found.view(np.int16)).view(dtype).isnan().numpy()[is_nan].all()


@pytest.mark.parametrize(("number", "dtype"), FORMATS)
def test_every_operation_rounds(kernels: Any, number: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    a, b, c = (torch.randn(100_000, generator=generator).to(dtype) for _ in range(3))
    codes = [value.view(torch.int16).numpy().view(np.uint16).copy() for value in (a, b, c)]
    found = np.empty(100_000, dtype=np.uint16)
    kernels.library.multiply_add(number, ctypes.c_int64(100_000), *map(pointer, codes), pointer(found))
    assert (found == codes_of(a * b + c, dtype)).all()
