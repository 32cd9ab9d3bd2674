"""Compiling without a Mac: the source is there, running it is refused, and emulated kernels need none."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import CodeGenerationUnimplementedError, NoDeviceError, SharedMemoryLimitError
from tile_metal import target


@T.prim_func
def double(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
    with T.Kernel(2, threads=64) as block:
        for i in T.Parallel(128):
            B[block * 128 + i] = A[block * 128 + i] + A[block * 128 + i]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target.platform, "system", lambda: "Linux")


@pytest.mark.usefixtures("elsewhere")
def test_a_kernel_is_printed_anywhere_and_run_nowhere_else() -> None:
    kernel = tl.compile(double, target="metal")
    assert "kernel void double_kernel(device const float* A [[buffer(0)]]" in kernel.get_kernel_source()
    with pytest.raises(NoDeviceError, match="macOS on Apple silicon") as raised:
        kernel(torch.zeros(256), torch.zeros(256))
    assert "emulate" in raised.value.remedy


@pytest.mark.emulate
@pytest.mark.parametrize("arch", ["apple7", "apple8", "apple9", "apple10"])
def test_a_kernel_runs_emulated_for_every_family(arch: str) -> None:
    kernel = tl.compile(double, target={"kind": "metal", "arch": arch}, execution="emulate")
    a, b = torch.randn(256), torch.full((256,), torch.nan)
    kernel(a, b)
    assert torch.equal(b, a + a)
    assert "device const uint2*" in kernel.get_kernel_source()


def workspace(size: int) -> object:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        between = T.alloc_global((size,), "float32")
        with T.Kernel(1, threads=32):
            T.copy(A, between)
        with T.Kernel(1, threads=32):
            T.copy(between, B)

    return kernel


@pytest.mark.emulate
def test_workspaces_are_emulated_only() -> None:
    a, b = torch.randn(32), torch.full((32,), torch.nan)
    tl.compile(workspace(32), target="metal", execution="emulate")(a, b)
    assert torch.equal(a, b)
    with pytest.raises(CodeGenerationUnimplementedError, match="workspace between"):
        tl.compile(workspace(32), target="metal")


def test_more_threadgroup_memory_than_there_is_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((96, 128), "float32"), B: T.Tensor((96, 128), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((96, 128), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    with pytest.raises(SharedMemoryLimitError, match="32768"):
        tl.compile(kernel, target="metal")
