"""What the pass tests share: contexts with made-up facts, and access to parts of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tile_core.passes.base import PassContext, run_pipeline
from tile_core.passes.pipeline import apply_edits, default_pipeline
from tile_core.passes.threads import thread_edits
from tile_core.targets import Capabilities

DTYPES = frozenset({"float32", "int32"})


def _context(**facts: Any) -> PassContext:
    backend = SimpleNamespace(name="made-up", op_lowerings={})
    return PassContext(None, Capabilities(vector_bytes=16, dtypes=DTYPES, **facts), backend)


@pytest.fixture
def context() -> PassContext:
    """A target whose blocks have no threads."""
    return _context()


@pytest.fixture
def simt() -> PassContext:
    """A target with threads and 1024 bytes of shared memory."""
    return _context(threads=True, max_threads=256, warp_size=32, shared_bytes=1024)


@pytest.fixture
def lowered(context: PassContext) -> Callable[..., Any]:
    """Run the passes up to, not including, `legalize_bounds`."""
    from tile_core.passes.lower_scalar_ops import LowerScalarOps
    from tile_core.passes.lower_tile_ops import LowerTileOps

    def run(func: Any) -> Any:
        return LowerScalarOps()(LowerTileOps()(func, context), context)

    return run


THREADS = Capabilities(
    threads=True,
    max_threads=1024,
    warp_size=32,
    vector_bytes=16,
    shared_bytes=48 * 1024,
    dtypes=frozenset({"float32", "float16", "int32"}),
)


@pytest.fixture
def run_until() -> Callable[..., tuple[Any, PassContext]]:
    """Runs the pipeline of a target with threads up to a pass: the program, and the context with its decisions."""

    def run(func: Any, last: str, op_lowerings: Mapping[str, str] | None = None) -> tuple[Any, PassContext]:
        backend = SimpleNamespace(name="threads", op_lowerings=dict(op_lowerings or {}))
        context = PassContext(target=None, capabilities=THREADS, backend=backend)
        pipeline = apply_edits(default_pipeline(THREADS), thread_edits())
        names = [step.name for step in pipeline]
        return run_pipeline(func, pipeline[: names.index(last) + 1], context), context

    return run
