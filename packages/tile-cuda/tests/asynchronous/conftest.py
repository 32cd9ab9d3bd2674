"""Running programs that were written by hand: in the emulator, in the emulator with checks, and on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tile_core.jit.artifact import CompileRequest
from tile_cuda import runtime
from tile_cuda.compiler import compile_lowered
from tile_cuda.target import detect, parse_target

_found = detect()
_EMULATE, _GPU = (
    pytest.mark.emulate,
    (pytest.mark.device, pytest.mark.skipif(not _found.available, reason=_found.reason)),
)
Run = Callable[..., None]


def emulated(program: Any, *arrays: Any, check: bool = True) -> None:
    """Run `program` on the CPU; arrays are changed in place."""
    target = parse_target("cuda", {"arch": "sm_90"})
    request = CompileRequest(target, {"tile.emulate_check": check}, execution="emulate")
    runtime.load(compile_lowered(program, request, {}), request)(*arrays)


def on_gpu(program: Any, *arrays: Any) -> None:
    """Run `program` on the first GPU with copies of arrays, which are changed in place."""
    import torch

    def copied(array: np.ndarray) -> Any:
        """A copy with the array's strides, as far from a multiple of 16 bytes as the array is."""
        begin = array.ctypes.data % 16 // array.itemsize
        strides = [stride // array.itemsize for stride in array.strides]
        length = 1 + sum((extent - 1) * stride for extent, stride in zip(array.shape, strides, strict=True))
        contiguous = torch.from_numpy(np.ascontiguousarray(array))
        memory = torch.empty(begin + length, dtype=contiguous.dtype, device="cuda")
        return memory.as_strided(array.shape, strides, begin).copy_(contiguous)

    request = CompileRequest(parse_target("cuda", {}))
    kernel = runtime.load(compile_lowered(program, request, {}), request)
    given = [copied(array) if isinstance(array, np.ndarray) else array for array in arrays]
    kernel(*given)
    torch.cuda.synchronize()
    for array, tensor in zip(arrays, given, strict=True):
        if isinstance(array, np.ndarray):
            array[...] = tensor.cpu().numpy()


@pytest.fixture(
    params=[
        pytest.param("emulated", marks=_EMULATE),
        pytest.param("checked", marks=_EMULATE),
        pytest.param("gpu", marks=_GPU),
    ]
)
def run(request: pytest.FixtureRequest) -> Run:
    """`run(program, *arrays)` in one of the three ways."""
    if request.param == "gpu":
        return on_gpu
    check = request.param == "checked"
    return lambda program, *arrays: emulated(program, *arrays, check=check)


@pytest.fixture
def emulate() -> Run:
    """`emulate(program, *arrays)` with checks."""
    return emulated


@pytest.fixture
def source_for() -> Callable[..., str]:
    """From a program to its source, after NVRTC has compiled it for an architecture."""
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")

    def build(program: Any, arch: str = "sm_90") -> str:
        request = CompileRequest(parse_target("cuda", {"arch": arch}))
        return compile_lowered(program, request, {}).kernel_source

    return build
