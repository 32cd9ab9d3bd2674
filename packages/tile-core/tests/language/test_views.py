"""Views of tiles: other shapes and dtypes of the same memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import OpArgumentError, ViewError
from tile_core.interpreter import Program


def test_reshape() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 6), "float32"), Out: T.Tensor((8, 3), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((4, 6), "float32")
            T.copy(A, tile)
            other = T.reshape(tile, (8, 3))
            for i, j in T.Parallel(8, 3):
                other[i, j] += 1.0
            T.copy(T.reshape(tile, [8, 3]), Out)

    a, out = torch.arange(24.0).reshape(4, 6), torch.zeros(8, 3)
    Program(kernel)(a, out)
    assert torch.equal(out, a.reshape(8, 3) + 1)


def test_a_view_of_another_dtype_has_the_same_bytes() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "bfloat16"), Out: T.Tensor((32, 32), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((32, 64), "bfloat16")
            T.copy(A, tile)
            T.copy(T.view(tile, (32, 32), "float32"), Out)

    a, out = torch.randn(32, 64).bfloat16(), torch.zeros(32, 32)
    Program(kernel)(a, out)
    assert torch.equal(out.view(torch.bfloat16), a)


def test_a_view_without_shape_scales_the_last_axis() -> None:
    shapes = []

    @T.prim_func
    def kernel(A: T.Tensor((2, 8), "float32")):
        with T.Kernel(1):
            shapes.append(T.view(A, dtype="int8").shape)
            shapes.append(T.view(A, dtype="float64").shape)
            shapes.append(T.view(A, dtype="int32").shape)

    assert shapes == [(2, 32), (2, 4), (2, 8)]


CASES = [
    (lambda A, tile: T.reshape(tile, (5, 5)), ViewError, ["tile", "768", "800"]),
    (lambda A, tile: T.view(tile, (4, 6), "float16"), ViewError, ["tile"]),
    (lambda A, tile: T.view(A, dtype="float64"), ViewError, ["A", "96 bits"]),
    (lambda A, tile: T.view(tile, (4, 6), strides=(6,)), ViewError, ["1 strides"]),
    (lambda A, tile: T.view(tile, (4, 6), strides=(-6, 1)), ViewError, ["-6"]),
    (lambda A, tile: T.reshape(tile[0:2, :], (12,)), OpArgumentError, ["reshape"]),
]


@pytest.mark.parametrize(("build", "error", "words"), CASES)
def test_refusals(build: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4, 3), "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared((4, 6), "float32")
                build(A, tile)

    assert all(word in str(caught.value) for word in words), str(caught.value)
