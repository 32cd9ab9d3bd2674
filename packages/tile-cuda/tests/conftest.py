"""One program everywhere: interpreted, emulated with checks, on a GPU where there is one, and compiled for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile_core as tl
from tile_cuda.target import detect

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
CHECKED = {"tile.emulate_check": True}
Agree = Callable[..., list[np.ndarray]]


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a multiple of 256 bytes, as an allocation on a GPU does."""
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 256
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.fixture
def on_gpu() -> Callable[..., list[np.ndarray] | None]:
    """Run a kernel natively on copies of arrays; what it leaves in them, `None` where there is no GPU."""

    def run(func: Any, *arrays: Any) -> list[np.ndarray] | None:
        if not detect().available:
            return None
        import torch

        given = [torch.from_numpy(np.copy(one)).cuda() if isinstance(one, np.ndarray) else one for one in arrays]
        tl.compile(func, target="cuda")(*given)
        return [one.cpu().numpy() if isinstance(one, torch.Tensor) else one for one in given]

    return run


@pytest.fixture
def agree(on_gpu: Any) -> Agree:
    """Run a kernel in the interpreter, emulated and on a GPU where there is one, on copies of the same arrays.

    What they leave there is the same: to the bit on the host, and on a GPU but for the last digits of floats.
    """

    def run(func: Any, *arrays: Any, arch: str = "sm_90") -> list[np.ndarray]:
        target = {"kind": "cuda", "arch": arch}
        left, right = ([aligned(array) if isinstance(array, np.ndarray) else array for array in arrays] for _ in "12")
        tl.compile(func, target="interpret")(*left)
        tl.compile(func, target=target, execution="emulate", pass_configs=CHECKED)(*right)
        for one, other in zip(left, right, strict=True):
            np.testing.assert_array_equal(one, other)
        for native, other in zip(on_gpu(func, *arrays) or (), right, strict=False):
            np.testing.assert_allclose(native, other, rtol=1e-6)
        return right

    return run


@pytest.fixture
def build() -> Callable[..., str]:
    """Compile a kernel for every architecture in `architectures`; its source for the last one."""
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")

    def compile_for_all(func: Any, architectures: tuple[str, ...] = ARCHITECTURES) -> str:
        source = ""
        for arch in architectures:
            source = tl.compile(func, target={"kind": "cuda", "arch": arch}).get_kernel_source()
        return source

    return compile_for_all
