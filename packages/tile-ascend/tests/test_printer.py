"""The Ascend C printer: how a core walks over blocks, what it refuses, and how little it repeats of other printers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors.plugins import UnprintableError

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


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
def test_the_printers_of_two_vendors_share_their_base(vendor: str) -> None:
    """Under 15 % of the lines of either stand in the other."""
    paths = [PACKAGES / f"tile-{name}/src/tile_{name}/printer.py" for name in ("ascend", vendor)]
    if not all(path.exists() for path in paths):
        pytest.skip("the sources of the other backend are not here")
    one, other = map(code_lines, paths)
    assert sum(line in set(other) for line in one) < MOST * len(one)
    assert sum(line in set(one) for line in other) < MOST * len(other)


def emulated(func: Any) -> Any:
    return tl.compile(func, target="ascend", execution="emulate")


@pytest.mark.emulate
@pytest.mark.parametrize("grid", [(5,), (3, 7), (2, 3, 5), (1, 1, 1)])
def test_few_cores_walk_over_a_grid_of_any_rank(grid: tuple[int, ...]) -> None:
    x, y, z = (*grid, 1, 1)[:3]

    @T.prim_func
    def numbers(A: T.Tensor((z, y, x), "int32")):
        with T.Kernel(*grid, threads=32) as blocks:
            bx, by, bz = (*(blocks if len(grid) > 1 else [blocks]), 0, 0)[:3]
            A[bz, by, bx] = bx + 10 * by + 100 * bz

    a = torch.full((z, y, x), -1, dtype=torch.int32)
    emulated(numbers)(a)
    expected = torch.arange(x) + 10 * torch.arange(y)[:, None] + 100 * torch.arange(z)[:, None, None]
    assert torch.equal(a, expected.int())


@pytest.mark.emulate
def test_a_grid_that_only_the_call_knows() -> None:
    @T.prim_func
    def copy(A: T.Tensor((T.dynamic("n"), 6), "float32"), B: T.Tensor((T.dynamic("n"), 6), "float32")):
        with T.Kernel(A.shape[0], 2, threads=32) as (row, half):
            for i in T.Parallel(3):
                B[row, half * 3 + i] = A[row, half * 3 + i] + 1.0

    kernel = emulated(copy)
    for rows in (0, 1, 7):
        a, b = torch.randn(rows, 6), torch.full((rows, 6), torch.nan)
        kernel(a, b)
        assert torch.equal(b, a + 1)


def test_float64_is_refused_by_name() -> None:
    @T.prim_func
    def double(A: T.Tensor((64,), "float64")):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(64):
                A[i] = A[i] + 1.0

    with pytest.raises(UnprintableError, match="Ascend C.*float64.*A"):
        emulated(double)


@pytest.mark.emulate
def test_pointers_say_where_they_point() -> None:
    @T.prim_func
    def through(A: T.Tensor((100, 64), "float32"), B: T.Tensor((100, 64), "float32")):
        with T.Kernel(T.ceildiv(100, 16), threads=64) as block:
            tile = T.alloc_shared((16, 64), "float32")
            T.copy(A[block * 16, 0], tile)
            T.copy(tile, B[block * 16, 0])

    kernel = emulated(through)
    a, b = torch.randn(100, 64), torch.full((100, 64), torch.nan)
    kernel(a, b)
    assert torch.equal(a, b)
    source = kernel.get_kernel_source()
    assert "__ubuf__ float* const tile = reinterpret_cast<__ubuf__ float*>(tile_shared" in source
    assert "*reinterpret_cast<__ubuf__ tile_uint4*>(&tile[" in source
    assert (
        "(__gm__ const float* __restrict__ A, __gm__ float* __restrict__ B, __ubuf__ unsigned char* tile_shared"
        in source
    )
