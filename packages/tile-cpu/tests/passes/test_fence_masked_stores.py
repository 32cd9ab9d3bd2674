"""A vector of which one lane exists is stored in its own width, whatever it was computed from."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T

WIDE = {"int16": ("int8",), "int32": ("int16", "int8", "uint8"), "int64": ("int32", "int16", "int8")}
NARROWINGS = [(source, target) for source, targets in WIDE.items() for target in targets]
FLOATS = [("float32", "bfloat16"), ("float32", "float8_e4m3fn"), ("bfloat16", "bfloat16"), ("float64", "float16")]


@pytest.mark.parametrize(("source", "target"), [*NARROWINGS, *FLOATS, ("float32", "int8"), ("float64", "int16")])
def test_nothing_behind_the_last_element(source: str, target: str) -> None:
    sizes = (1, 2, 3, 5, 9, 17, 33, 65)

    @T.prim_func
    def kernel(A: T.Tensor((sizes[-1],), source), B: T.Tensor((len(sizes), 2 * sizes[-1]), target)):
        with T.Kernel(1):
            for row, size in enumerate(sizes):
                for i in T.Parallel(size):
                    value = A[i] * A[i] * 3
                    # A division by a power of two keeps LLVM from computing in the narrow dtype throughout.
                    B[row, i] = T.cast(value // 4 if source.startswith("int") else value * 0.25, target)

    kind = getattr(torch, target)
    a = torch.randint(1, 7, (sizes[-1],)).to(getattr(torch, source))
    out = torch.full((len(sizes), 2 * sizes[-1]), 1.0).to(kind)
    behind = out.clone()
    tl.compile(kernel, target="cpu")(a, out)
    exact = a.double() ** 2 * 3 / 4
    expected = (exact.floor() if not kind.is_floating_point else exact).to(kind)
    for row, size in enumerate(sizes):
        assert torch.equal(out[row, :size].double(), expected[:size].double()), size
        assert torch.equal(out[row, size:].double(), behind[row, size:].double()), size
