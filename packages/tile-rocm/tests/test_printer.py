"""The HIP printer: what it declares, and how little it repeats of the other SIMT backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

PACKAGES = Path(__file__).parents[2]
MOST = 0.15


def code_lines(path: Path) -> list[str]:
    """The lines of a module that say something: no blank ones, no lone brackets and no imports."""
    stripped = (line.strip() for line in path.read_text("utf-8").splitlines())
    return [
        line
        for line in stripped
        if any(letter.isalnum() for letter in line) and not line.startswith(("from ", "import "))
    ]


def test_the_printers_of_two_vendors_share_their_base() -> None:
    """Under 15 % of the lines of either stand in the other."""
    paths = [PACKAGES / f"tile-{vendor}/src/tile_{vendor}/printer.py" for vendor in ("cuda", "rocm")]
    if not all(path.exists() for path in paths):
        pytest.skip("the sources of the other backend are not here")
    one, other = map(code_lines, paths)
    assert sum(line in set(other) for line in one) < MOST * len(one)
    assert sum(line in set(one) for line in other) < MOST * len(other)


def emulated(func: Any) -> Any:
    return tl.compile(func, target={"kind": "rocm", "arch": "gfx942"}, execution="emulate")


@T.prim_func
def functions(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            B[i] = T.sigmoid(A[i]) + T.exp(A[i]) * T.floor(A[i])


@T.prim_func
def wide_sum(A: T.Tensor((4, 256), "float64"), B: T.Tensor((4,), "float64")):
    with T.Kernel(1, threads=256) as _:
        x = T.alloc_fragment((4, 256), "float64")
        total = T.alloc_fragment((4,), "float64")
        T.copy(A, x)
        T.reduce_sum(x, total, dim=1)
        T.copy(total, B)


@pytest.mark.emulate
def test_functions_of_the_device_library_are_declared_once() -> None:
    kernel = emulated(functions)
    a, b = torch.randn(64), torch.full((64,), torch.nan)
    kernel(a, b)
    torch.testing.assert_close(b, torch.sigmoid(a) + a.exp() * a.floor())
    source = kernel.get_kernel_source()
    assert source.count('extern "C" __device__ float __ocml_exp_f32(float);') == 1
    assert "__ocml_sin" not in source


@pytest.mark.emulate
def test_lanes_of_a_wave_exchange_eight_bytes() -> None:
    kernel = emulated(wide_sum)
    a, b = torch.randn(4, 256, dtype=torch.float64), torch.full((4,), torch.nan, dtype=torch.float64)
    kernel(a, b)
    torch.testing.assert_close(b, a.sum(1))
    assert "tile_shuffle_xor" in kernel.get_kernel_source()
