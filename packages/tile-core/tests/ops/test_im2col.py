"""`tile.im2col` against torch's convolution."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import CopyShapeError, OpArgumentError


@pytest.mark.parametrize(
    ("kernel_size", "stride", "dilation", "pad"), [(3, 1, 1, 1), (3, 2, 1, 1), (1, 1, 1, 0), (3, 1, 2, 2), (2, 1, 1, 0)]
)
def test_convolution(run: Any, kernel_size: int, stride: int, dilation: int, pad: int) -> None:
    n, height, width, channels, filters = 2, 7, 6, 3, 4
    out_height, out_width = (
        (size + 2 * pad - dilation * (kernel_size - 1) - 1) // stride + 1 for size in (height, width)
    )
    pixels, taps = n * out_height * out_width, kernel_size * kernel_size * channels
    block_m, block_k = 16, 8

    @T.prim_func
    def kernel(
        Image: T.Tensor((n, height, width, channels), "float32"),
        Weight: T.Tensor((taps, filters), "float32"),
        Out: T.Tensor((pixels, filters), "float32"),
    ):
        with T.Kernel(T.ceildiv(pixels, block_m)) as by:
            patches = T.alloc_shared((block_m, block_k), "float32")
            weights = T.alloc_shared((block_k, filters), "float32")
            total = T.alloc_fragment((block_m, filters), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(taps, block_k)):
                T.im2col(Image, patches, by, k, kernel_size, stride, dilation, pad)
                T.copy(Weight[k * block_k, 0], weights)
                T.gemm(patches, weights, total)
            T.copy(total, Out[by * block_m, 0])

    image, weight = torch.randn(n, height, width, channels), torch.randn(kernel_size, kernel_size, channels, filters)
    out = torch.zeros(pixels, filters)
    run(kernel, image, weight.reshape(taps, filters), out)
    expected = torch.nn.functional.conv2d(
        image.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), stride=stride, padding=pad, dilation=dilation
    )
    torch.testing.assert_close(out, expected.permute(0, 2, 3, 1).reshape(pixels, filters), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "stride", "error", "word"),
    [((4, 8), 1, CopyShapeError, "Image"), ((1, 4, 4, 2), 0, OpArgumentError, "stride=0")],
)
def test_refusals(shape: tuple[int, ...], stride: int, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):

        @T.prim_func
        def kernel(Image: T.Tensor(shape, "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared((4, 4), "float32")
                T.im2col(Image, tile, 0, 0, 3, stride, 1, 1)
