"""Evaluates expressions of the language on the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.interpreter import Program


@pytest.fixture
def evaluate() -> Callable[..., torch.Tensor]:
    """`evaluate(f, *inputs, dtype=…)`: `f` of the inputs, element by element, as a tensor of `dtype`."""

    def run(function: Callable[..., Any], *inputs: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        count = inputs[0].numel()
        first, second = inputs[0], inputs[-1]
        out = torch.zeros(count, dtype=dtype or first.dtype)

        @T.prim_func
        def kernel(
            A: T.Tensor((count,), first.dtype), B: T.Tensor((count,), second.dtype), Out: T.Tensor((count,), out.dtype)
        ):
            with T.Kernel(1):
                for i in T.serial(count):
                    Out[i] = function(A[i], B[i]) if len(inputs) == 2 else function(A[i])

        Program(kernel)(first, second.clone(), out)
        return out

    return run
