"""Runs a kernel twice: with every tile op in its reference meaning, and with its portable lowering."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tile_core.interpreter import Options, Program
from tile_core.passes.base import PassContext
from tile_core.passes.legalize_bounds import LegalizeBounds
from tile_core.passes.lower_tile_ops import LowerTileOps
from tile_core.targets import Capabilities

NO_BACKEND = SimpleNamespace(name="portable", op_lowerings={})
FACTS = Capabilities(vector_bytes=16, dtypes=frozenset())


def lowered(program: Any) -> Any:
    """`program` with every tile op replaced by its portable lowering."""
    context = PassContext(target=None, capabilities=FACTS, backend=NO_BACKEND)
    for step in (LowerTileOps(), LegalizeBounds()):
        program = step(program, context)
    return program


@pytest.fixture(params=["reference", "lowered"])
def run(request: pytest.FixtureRequest) -> Any:
    """`run(kernel, *tensors)`: carry out the kernel in place."""

    def carry_out(kernel: Any, *tensors: Any, **options: Any) -> None:
        program = kernel if request.param == "reference" else lowered(kernel)
        Program(program, Options(**options))(*tensors)

    return carry_out
