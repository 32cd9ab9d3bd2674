"""`tile.fill` and `tile.transpose`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import RegionBoundsError, TransposeShapeError

POISON = 77.0


@pytest.mark.parametrize(("low", "high"), [(0, 128), (3, 100), (200, 200), (255, 256)])
def test_only_the_region_is_filled(run: Any, low: int, high: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((256,), "float32"), a: T.int32, b: T.int32):
        with T.Kernel(1):
            T.fill(A[a:b], 1.5)

    x = torch.full((256,), POISON)
    run(kernel, x, low, high)
    assert (x[low:high] == 1.5).all()
    assert (x[:low] == POISON).all()
    assert (x[high:] == POISON).all()


def test_a_constant_region(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((256,), "int32")):
        with T.Kernel(1):
            T.fill(A[0:128], -1)
            T.clear(A[128:130])

    x = torch.full((256,), 77, dtype=torch.int32)
    run(kernel, x)
    assert x.tolist() == [-1] * 128 + [0] * 2 + [77] * 126


@pytest.mark.parametrize(("dtype", "value", "expected"), [("uint8", -1, 255), ("int32", 2.9, 2), ("bool", 3, True)])
def test_the_value_is_converted(run: Any, dtype: str, value: Any, expected: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((5,), dtype)):
        with T.Kernel(1):
            T.fill(A, value)

    x = torch.zeros(5).to(getattr(torch, dtype))
    run(kernel, x)
    assert x.tolist() == [expected] * 5


def test_a_variable_is_filled(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            v = T.alloc_var("float32", 3.0)
            T.clear(v)
            A[0] = v

    x = torch.ones(1)
    run(kernel, x)
    assert x.item() == 0


def test_a_constant_region_outside_is_refused() -> None:
    with pytest.raises(RegionBoundsError, match="A.*300"):

        @T.prim_func
        def kernel(A: T.Tensor((256,), "float32")):
            with T.Kernel(1):
                T.fill(A[200:300], 0)


@pytest.mark.parametrize("shape", [(16, 16), (3, 50), (1, 7), (2, 5, 9)])
def test_transpose(run: Any, shape: tuple[int, ...]) -> None:
    swapped = (*shape[:-2], shape[-1], shape[-2])

    @T.prim_func
    def kernel(A: T.Tensor(shape, "float32"), B: T.Tensor(swapped, "float16")):
        with T.Kernel(1):
            tile = T.alloc_shared(shape, "float32")
            other = T.alloc_shared(swapped, "float16")
            T.copy(A, tile)
            T.transpose(tile, other)
            T.copy(other, B)

    a, b = torch.randn(shape), torch.zeros(swapped).half()
    run(kernel, a, b)
    assert torch.equal(b, a.mT.half())


def test_transpose_of_elements_takes_the_other_side_s_extents(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((10, 20), "float32"), B: T.Tensor((20, 10), "float32")):
        with T.Kernel(T.ceildiv(10, 4), T.ceildiv(20, 8)) as (bx, by):
            tile = T.alloc_shared((8, 4), "float32")
            T.transpose(A[bx * 4, by * 8], tile)
            T.copy(tile, B[by * 8, bx * 4])

    a, b = torch.randn(10, 20), torch.zeros(20, 10)
    run(kernel, a, b)
    assert torch.equal(b, a.T)


@pytest.mark.parametrize(("source", "target"), [((4, 5), (4, 5)), ((4,), (4,)), ((2, 4, 5), (3, 5, 4))])
def test_wrong_shapes_are_refused(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    with pytest.raises(TransposeShapeError, match="tile"):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared(source, "float32")
                other = T.alloc_shared(target, "float32")
                T.transpose(tile, other)
