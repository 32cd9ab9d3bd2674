"""Indices that leave int32 and the tensor at once read the safe value; they neither wrap nor crash."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T


@pytest.mark.parametrize("kind", ["product", "shift"])
def test_an_index_beyond_int32_is_outside(kind: str) -> None:
    @T.prim_func
    def kernel(X: T.Tensor((96,), T.float32), Y: T.Tensor((8, 48), T.float32)):
        with T.Kernel(8, threads=128) as b:
            for j in T.Parallel(48):
                if kind == "shift":
                    Y[b, j] = X[b * 48 << j]
                else:
                    Y[b, j] = X[b * 2147483647 + j]

    x, y = torch.arange(1.0, 97.0), torch.full((8, 48), float("nan"))
    tl.compile(kernel, target="cpu")(x, y)
    expected = torch.zeros(8, 48)
    for b in range(8):
        for j in range(48):
            index = b * 48 << j if kind == "shift" else b * 2147483647 + j
            if index < 96:
                expected[b, j] = x[index]
    assert torch.equal(y, expected)


def test_bits_of_an_index_beyond_int32() -> None:
    @T.prim_func
    def kernel(X: T.Tensor((64,), T.int32), Y: T.Tensor((2, 16), T.int32)):
        with T.Kernel(1, threads=32) as b:
            for i in T.Parallel(16):
                Y[0, i] = X[((b + 1) * 2147483647 + 4 | i) & 63]
                Y[1, i] = X[(b + 1) * 2147483647 + 4 ^ i]

    for target in ("interpret", "cpu"):
        y = torch.full((2, 16), -1, dtype=torch.int32)
        tl.compile(kernel, target=target)(torch.arange(64, dtype=torch.int32), y)
        assert y.tolist() == [[(3 | i) for i in range(16)], [0] * 16]
