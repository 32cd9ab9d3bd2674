"""Every name of the language, called with values that it was not made for: a coded error at the line, or a result."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

import tile_core.language as T
from tile_core.errors import InternalCompilerError, TileError

# Types of Python itself, whose call makes no statement of a kernel.
PYTHONS = {"Any", "AnyDType", "GemmWarpPolicy", "Macro", "PrimExpr", "dtype"}
NAMES = sorted(T.exports() - {"Kernel", "inline", "macro", "prim_func"} - PYTHONS)
CALLS = 4


def odd_values(A: Any, X: Any, tile: Any, variable: Any) -> list[Any]:
    """Buffers, elements, slices, and what is none of the language's."""
    device = [A, X, tile, variable, A[0], X[0], A[0:4], tile[1:3, :], A[0] + 1, X[0] * 2.0, A[0] > 1]
    plain = [None, "x", "float32", 1, -1, 0, 1.5, float("nan"), 10**400, [], [1, 2], (4,), {}, True]
    return [*device, *plain, lambda i: i, T.float32, object(), np.int64(3), np.zeros(2), torch.zeros(2)]


def refusal(name: str, picks: list[float]) -> TileError | None:
    """What a call of `T.name` with some of the odd values is refused with; `None` where it is accepted."""
    try:

        @T.prim_func
        def kernel(A: T.Tensor((8,), "int32"), X: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((8, 4), "float16")
                variable = T.alloc_var("int32", init=1)
                values = odd_values(A, X, tile, variable)
                getattr(T, name)(*[values[int(pick * len(values))] for pick in picks])
    except TileError as error:
        return error
    return None


@pytest.mark.parametrize("name", NAMES)
def test_a_name_called_with_odd_values(name: str) -> None:
    chosen = random.Random(name)
    for _ in range(CALLS):
        error = refusal(name, [chosen.random() for _ in range(chosen.choice([0, 1, 1, 2, 2, 3, 4]))])
        assert not isinstance(error, InternalCompilerError), error
        assert error is None or error.span is not None
