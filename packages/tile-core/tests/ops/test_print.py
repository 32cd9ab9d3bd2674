"""Printing: what appears, and that results stay the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import OpArgumentError
from tile_core.interpreter import Program
from tile_core.ops.print import line


def test_tiles_values_and_messages(capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2, 2), "int32"), x: T.float32):
        with T.Kernel(1):
            tile = T.alloc_shared((2, 2), "int32")
            T.copy(A, tile)
            T.print(tile, "tile")
            T.print(x)
            T.print(msg="done")
            T.copy(tile, A)

    a = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)
    Program(kernel)(a, 2.5)
    out = capfd.readouterr().out
    assert "tile: tile, shape (2, 2)" in out
    assert "[3 4]" in out
    assert "2.5" in out
    assert "done" in out
    assert a.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("msg", "A", "2.5", (0, 1)), "msg: A[0, 1] = 2.5"),
        (("", "x", "3"), "x = 3"),
        (("only", ""), "only"),
    ],
)
def test_line(arguments: tuple[Any, ...], text: str) -> None:
    assert line(*arguments) == text


@pytest.mark.parametrize("arguments", [(), ("text",), ([1],)])
def test_refusals(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(OpArgumentError, match="print"):

        @T.prim_func
        def kernel(A: T.Tensor((2,), "int32")):
            with T.Kernel(1):
                T.print(*arguments)
