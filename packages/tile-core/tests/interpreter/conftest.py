"""Helpers for tests of the interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tile_core.dtypes import DType
from tile_core.interpreter import Options, Program


@pytest.fixture
def interpret():
    """Run a traced program on tensors: `interpret(func, A, B)`; options as keywords."""

    def run(func: Any, *arguments: Any, **options: Any) -> None:
        Program(func, Options(**options))(*arguments)

    return run


@pytest.fixture
def nan():
    """An output of a shape, full of NaN, so that what nobody wrote shows."""

    def make(*shape: int, dtype: str = "float32") -> torch.Tensor:
        return torch.full(shape, float("nan")).to(DType(dtype).torch)

    return make
