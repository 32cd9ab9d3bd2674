"""Workspaces of a host half, its launches replaced by a function that sees what a kernel would be given."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm_ffi
import tvm_ffi_orcjit
from torch.profiler import ProfilerActivity, profile

import tile_core.language as T
from tile_core.device import SET_LAUNCHER, host_object, split_launches

ON_THE_HOST = 1
"""The DLPack number of a CPU: the host half is the same for every device."""
ROOM = 100_000
"""So many elements lie on no stack."""
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_int
)


@T.prim_func
def through_workspaces(A: T.Tensor((T.dynamic("n"),), "float32"), B: T.Tensor((8,), "float32")):
    sums = T.alloc_global((A.shape[0] * 3,), "float32")
    places = T.alloc_global((ROOM,), "int16")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(A.shape[0]):
            sums[i] = A[i]
        for i in T.Parallel(ROOM):
            places[i] = i
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = sums[i] + places[i]


@pytest.fixture(scope="module")
def host() -> bytes:
    return host_object(split_launches(through_workspaces), ON_THE_HOST)


def entry(host: bytes, launch: Callable[[int, list[int]], int]) -> Any:
    """The packed function; `launch` gets the number of a kernel and the first two values of its cells."""

    def called(_context: int, kernel: int, cells: int, *_rest: int) -> int:
        words = (ctypes.c_uint64 * 6).from_address(cells)
        return launch(kernel, [words[1], words[3], words[5]])

    module = tvm_ffi_orcjit.default_session().load_module(host)
    keep = _LAUNCH(called)
    record = (ctypes.c_void_p * 3)(ctypes.cast(keep, ctypes.c_void_p).value, None, None)
    module[SET_LAUNCHER](ctypes.c_void_p(ctypes.addressof(record)))
    function = module[str(through_workspaces.attrs["global_symbol"])]
    return lambda *arguments: (function(*arguments), module, keep, record)[0]


@pytest.mark.parametrize("n", [1, 333, 0])
def test_torch_gives_the_memory_and_gets_it_back(host, n):
    seen: list[list[int]] = []

    def launch(kernel: int, pointers: list[int]) -> int:
        seen.append(pointers)
        for pointer, size in ((pointers[2], 2 * ROOM), (pointers[1], 12 * n)) if kernel == 0 else ():
            ctypes.memset(pointer, 255, size)
        return 0

    a, b = torch.ones(n), torch.zeros(8)
    run = entry(host, launch)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run(a, b)
    changes = [event.nbytes() for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    assert sum(changes) == 0
    assert sorted(size for size in changes if size > 0) == sorted((max(12 * n, 1), 2 * ROOM))
    assert len(seen) == 2
    assert seen[0][0] == a.data_ptr()
    assert seen[0][1:] == seen[1][1:]
    assert torch.equal(b, torch.zeros(8))


def test_tensors_of_a_library_without_an_allocator_get_memory_of_the_runtime(host):
    seen: list[int] = []

    def launch(kernel: int, pointers: list[int]) -> int:
        if kernel == 0:
            seen.extend(pointers)
            ctypes.memset(pointers[2], 255, 2 * ROOM)
        return 0

    a, b = np.ones(5, "float32"), np.zeros(8, "float32")
    entry(host, launch)(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b))
    assert len(set(seen)) == 3
    assert 0 not in seen
    assert not b.any()
