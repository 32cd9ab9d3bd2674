"""Host code that launches by a function of Python: what the function is told, and what its status does."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import tile_core.language as T
from tile_core.device import host_object, set_launcher, split_launches, value_address
from tile_core.errors.device import KernelLaunchError
from tile_core.jit.objects import load_object

ON_THE_HOST = 1


@T.prim_func
def shifted(A: T.Tensor((64,), "float32"), by: T.float32, n: T.int32):
    with T.Kernel(n, 2, threads=32):
        for i in T.Parallel(64):
            A[i] = A[i] + by
    with T.Kernel(3, threads=32):
        for i in T.Parallel(64):
            A[i] = A[i] - by


class Device:
    """Keeps what it is told, and answers with a status."""

    def __init__(self, status: int = 0) -> None:
        self.status, self.told = status, []

    def launch(self, _context: object, kernel: int, cells: int, x: int, y: int, z: int, device: int) -> int:
        pointer = ctypes.c_uint64.from_address(value_address(cells, 0)).value
        number = ctypes.c_float.from_address(value_address(cells, 1)).value
        self.told.append((kernel, pointer, number, (x, y, z), device))
        return self.status


@pytest.fixture(scope="module")
def image() -> bytes:
    return host_object(split_launches(shifted), ON_THE_HOST)


def entry(image: bytes, device: Device) -> Any:
    host = load_object(image)
    set_launcher(host, device.launch)
    # Nobody but the record holds the function now.
    gc.collect()
    return host["shifted"]


@pytest.mark.parametrize("n", [1, 7])
def test_kernels_are_launched_in_order_with_cells_and_blocks(image: bytes, n: int) -> None:
    device, a = Device(), np.zeros(64, "float32")
    entry(image, device)(a, -1.5, n)
    assert [(kernel, number, grid) for kernel, _pointer, number, grid, _device in device.told] == [
        (0, -1.5, (n, 2, 1)),
        (1, -1.5, (3, 1, 1)),
    ]
    assert {pointer for _kernel, pointer, *_rest in device.told} == {a.ctypes.data}


def test_no_blocks_are_no_launch(image: bytes) -> None:
    device = Device()
    entry(image, device)(np.zeros(64, "float32"), 1.0, 0)
    assert [kernel for kernel, *_rest in device.told] == [1]


def test_a_status_ends_the_call(image: bytes) -> None:
    device = Device(status=7)
    with pytest.raises(KernelLaunchError):
        entry(image, device)(np.zeros(64, "float32"), 1.0, 2)
    assert len(device.told) == 1
