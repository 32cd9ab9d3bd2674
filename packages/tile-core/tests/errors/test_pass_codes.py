"""One program for every code of the passes.

What the front end already refuses (a constant index outside, a `break` without a loop that has an order, a tensor
outside of the kernel) reaches the passes only in programs of other makers: there a plugin's pass makes it. Codes that
only a backend raises have their programs in its tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tvm import tirx
from tvm.tirx import stmt as S

import tile_core as tl
from tile_core.errors import passes as codes
from tile_core.ir import launch, visit
from tile_core.ops import OPS
from tile_core.passes.base import PassContext, run_pipeline
from tile_core.passes.pipeline import apply_edits, default_pipeline, drop
from tile_core.passes.threads import thread_edits
from tile_core.passes.verify import verifying
from tile_core.plugins import manager
from tile_core.targets import Capabilities
from tile_core.testing.codes import Program, inside, refuse

PROGRAMS = {
    "HostAccessError": Program(
        inside("A[0] = 1  # HERE", then="lower(kernel, without_launch)"), "A is used outside of every T.Kernel"
    ),
    "IndexOutOfRangeError": Program(
        inside("A[7] = 1  # HERE", then="lower(kernel, shifted)"), "index 8 is out of range for axis 0 of A"
    ),
    "LocalMemoryLimitError": Program(
        """
@T.prim_func
def kernel(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=32):
        large = T.alloc_fragment((32 * 300,), "int32")  # HERE
        T.clear(large)
facts = {"registers_per_thread": 255, "local_bytes": 1024}
lower(kernel, threads=True, max_threads=256, warp_size=32, shared_bytes=1024, facts=facts)
""",
        "each of the block's 32 threads holds 1200 bytes of large, but a thread has 1024 bytes of local memory",
    ),
    "LoopControlError": Program(
        inside(
            """
            for i in T.serial(8):
                A[i] = 1
                break  # HERE
            """,
            then="lower(kernel, parallelised)",
        ),
        "`break`",
    ),
    "MalformedProgramError": Program(
        inside("for i in T.serial(8):\n    A[i] = 1  # HERE", then="lower(kernel, without_loops, verifying=True)"),
        "after change: i is used where it is not defined",
    ),
    "MissingLoweringError": Program(
        inside('tile = T.alloc_shared((4,), "int32")\nT.clear(tile)  # HERE', then="lower(kernel, lowerings=False)"),
        "'made-up' has no lowering of fill",
    ),
    "ParallelNestError": Program(
        inside("for i in T.Parallel(8):\n    T.copy(A, A)  # HERE", then="lower(kernel)"),
        "the tile operation copy stands inside of T.Parallel, over i",
    ),
    "ParallelStorageError": Program(
        inside(
            """
            mine = T.alloc_local((8,), "int32")
            for i in T.Parallel(8):
                mine[i] = A[i]  # HERE
            """,
            then="lower(kernel)",
        ),
        "mine is local memory of one thread, but the parallel variable i",
    ),
    "PassFailedError": Program(
        inside("A[0] = 1", then="compile_with(kernel, failing)"), "the pass change failed: 'oh'"
    ),
    "PipelineEditError": Program("edited('nowhere')", "'nowhere'"),
    "RegionOutOfRangeError": Program(
        inside('tile = T.alloc_shared((4,), "int32")\nT.copy(A[8:12], tile)  # HERE', then="lower(kernel)"),
        "a region of A starts at 8 on axis 0",
    ),
    "SharedMemoryLimitError": Program(
        """
@T.prim_func
def kernel(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=32):  # HERE
        large = T.alloc_shared((300,), "int32")
        T.clear(large)
lower(kernel, threads=True, max_threads=256, warp_size=32, shared_bytes=1024)
""",
        "the limit is 1024; in bytes: large 1200",
    ),
    "ThreadIndexError": Program(
        inside("A[T.get_thread_binding()] = 1  # HERE", then="lower(kernel)"), "thread index of axis x"
    ),
    "ThreadLimitError": Program(
        """
@T.prim_func
def kernel(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=(64, 8)):  # HERE
        A[0] = 1
lower(kernel, threads=True, max_threads=256, warp_size=32, shared_bytes=1024)
""",
        "a block of (64, 8, 1) has 512 threads, the limit is 256",
    ),
    "TileExtentError": Program(
        inside(
            'tile = T.alloc_fragment((n,), "int32")  # HERE\nT.clear(tile)',
            parameters='n: T.int32, A: T.Tensor((8,), "int32")',
            then="lower(kernel, threads=True, max_threads=256, warp_size=32, shared_bytes=1024)",
        ),
        "the extent n of tile",
    ),
    "VectorBoundsError": Program(
        inside("for i in T.serial(8):\n    A[i] = 1  # HERE", then="lower(kernel, vectorised)"),
        "A may leave axis 0, whose extent is 8",
    ),
}


@dataclass(frozen=True)
class _Change:
    """A plugin's pass in front of all others."""

    change: Any
    name: ClassVar[str] = "change"

    def __call__(self, func, context):
        return self.change(func)


def lower(kernel, change=None, *, lowerings=True, verifying=False, **facts):
    """Run the pipeline of a made-up target of these facts over what `change` makes of a kernel."""
    capabilities = Capabilities(vector_bytes=16, dtypes=frozenset({"float32", "int32"}), **facts)
    context = PassContext(None, capabilities, SimpleNamespace(name="made-up", op_lowerings={}))
    pipeline = (*([_Change(change)] if change else []), *default_pipeline(capabilities))
    if capabilities.threads:
        pipeline = apply_edits(pipeline, thread_edits())
    with pytest.MonkeyPatch.context() as patch:
        if not lowerings:
            patch.setattr(
                "tile_core.passes.lower_tile_ops.OPS", {name: replace(op, lower=None) for name, op in OPS.items()}
            )
        run_pipeline(kernel, pipeline, context, after=verify_each if verifying else lambda *_: None)


def verify_each(name, func):
    verifying(name, func)


def compile_with(kernel, change):
    """Compile for the host with a plugin's pass."""
    edit = SimpleNamespace(apply=lambda pipeline: (_Change(change), *pipeline))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manager, "plugin_edits", lambda target, pipeline: (edit,))
        tl.compile(kernel, target="cpu")


def without_launch(func):
    return func.with_body(launch.from_stmt(next(launch.launches(func.body))).body)


def shifted(func):
    def store(stmt, mutator):
        return S.BufferStore(stmt.buffer, stmt.value, [index + 1 for index in stmt.indices], stmt.span)

    return func.with_body(visit.mutate(func.body, (S.BufferStore, store)))


def parallelised(func):
    def loop(stmt, mutator):
        if str(stmt.loop_var.name) != "i":
            return mutator.default_mutate(stmt)
        return S.For(stmt.loop_var, stmt.min, stmt.extent, S.ForKind.PARALLEL, stmt.body, span=stmt.span)

    return func.with_body(visit.mutate(func.body, (S.For, loop)))


def vectorised(func):
    def store(stmt, mutator):
        ramp = tirx.Ramp(stmt.indices[0], tirx.IntImm("int32", 1), 4)
        return S.BufferStore(stmt.buffer, tirx.Broadcast(stmt.value, 4), [ramp], stmt.span)

    return func.with_body(visit.mutate(func.body, (S.BufferStore, store)))


def without_loops(func):
    def loop(stmt, mutator):
        return stmt.body if str(stmt.loop_var.name) == "i" else mutator.default_mutate(stmt)

    return func.with_body(visit.mutate(func.body, (S.For, loop)))


def failing(func):
    raise KeyError("oh")


def edited(name):
    apply_edits(default_pipeline(None), [drop(name)])


SCOPE = {
    each.__name__: each
    for each in (lower, compile_with, without_launch, shifted, parallelised, vectorised, without_loops, failing, edited)
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name):
    refuse(getattr(codes, name), PROGRAMS[name], SCOPE)
