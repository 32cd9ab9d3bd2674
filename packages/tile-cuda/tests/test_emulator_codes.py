"""One program for every code of emulated execution: its class, the line it points at, and what its message names.

A kernel of the language is used where it can do wrong; instructions of this backend are put together by hand where only
a mistake of the compiler could.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from tvm import tirx
from tvm.ir.prim.expr import Ramp
from tvm.tirx import stmt as S

import tile_core as tl
from tile_core.errors import device, emulator
from tile_core.ir import visit
from tile_core.ir.regions import GLOBAL, scope
from tile_core.jit.artifact import CompileRequest
from tile_core.passes import lower
from tile_core.passes.pipeline import build_pipeline
from tile_core.plugins import manager
from tile_core.printer.overflow import Overflow
from tile_core.testing.codes import Program, inside, refuse
from tile_cuda import runtime
from tile_cuda.compiler import compile_lowered
from tile_cuda.target import parse_target

pytestmark = pytest.mark.emulate


def emulated(body: str, run: str = "run(kernel)") -> str:
    """A kernel of one block of 32 threads with a shared tile of 4 int32."""
    tile = 'tx = T.get_thread_binding(0)\ntile = T.alloc_shared((4,), "int32")\n'
    return inside(tile + body, then=run)


HANDMADE = """
from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tile_core.ir.descriptors import named
from tile_core.testing import handmade as h
from tile_cuda.instructions import address_of, descriptor_advance, shapes, smem_descriptor, wgmma, wgmma_fence
from tile_cuda.instructions.mbarrier import mbarrier_wait
from tile_cuda.instructions.tensor_map import tensor_map
from tile_cuda.instructions.tma import tma_store

matrix = tirx.decl_buffer((8, 16), "float16", "matrix", scope="global")
tile, full = h.shared_buffer("tile", (2048,), "float16"), h.shared_buffer("full", (1,), "uint64")
first = lambda thread: E.EQ(thread, h.int32(0))
map_of_matrix = named("map_of_matrix")

def described(row_bytes):
    made = tensor_map(address_of(matrix, 0, 0), [16, 8], [row_bytes], dtype="float16", box=[16, 8])
    return S.Bind(map_of_matrix, made)
"""
WGMMA = """
instruction = next(i for i in shapes.TABLE if i.family == "wgmma" and (i.d, i.a, i.n) == ("float32", "float16", 8))
d = tirx.decl_buffer((4,), "float32", "d", scope="local")
operand = smem_descriptor(address_of(tile, 0), leading_bytes=128, stride_bytes=256, swizzle=0)

def body(block, thread):
    step = E.Cast("uint64", E.FloorDiv(thread, h.int32(64)))
    return [S.AllocBuffer(d), wgmma_fence(), wgmma(address_of(d, 0), operand, E.Add(operand, step), h.int32(0),
            instruction=instruction)]
run_by_hand(h.program([matrix], h.Kernel(body, shared=[tile]).launch()), check=False)
"""
STORE = """
def body(block, thread):
    half = E.FloatImm("float16", 1.0)
    return [h.store(tile, half, thread), h.barrier(),
            h.when(first(thread), tma_store(map_of_matrix, address_of(tile, 0), 0, 0))]  # HERE
run_by_hand(h.program([matrix], described(E.IntImm("int64", 32)), h.Kernel(body, shared=[tile]).launch()))
"""

PROGRAMS = {
    "DescriptorError": Program(
        HANDMADE
        + "run_by_hand(h.program([matrix], described(E.IntImm('int64', 20)), h.Kernel(lambda b, t: []).launch()))",
        "map_of_matrix of kernel handmade",
    ),
    "EmulatedAlignmentError": Program(
        inside(
            "for i in T.Parallel(128):\n    Y[i] = X[i]  # HERE",
            parameters='X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")',
            then="run(kernel, misaligned)",
        ),
        "Y[2:6] as one vector of 16 bytes",
    ),
    "EmulatedBarrierError": Program(emulated("if tx < 16:\n    T.sync_threads()  # HERE"), "threads 0 to 15 wait"),
    "EmulatedBoundsError": Program(emulated("tile[tx] = 1  # HERE"), "tile[4], outside of its extents (4)"),
    "EmulatedCopyError": Program(
        HANDMADE
        + "body = lambda block, thread: [mbarrier_wait(address_of(full, 0), 0)]\n"
        + "run_by_hand(h.program([matrix], h.Kernel(body, shared=[full]).launch()))  # HERE",
        "waits at full[0], which is no initialised barrier",
    ),
    "EmulatedDeadlockError": Program(
        emulated("if tx < 7:\n    A[tx] = shfl(A[tx])  # HERE\nT.sync_threads()"), "lanes of its warp"
    ),
    "EmulatedFenceError": Program(HANDMADE + STORE, "tile"),
    "EmulatedInstructionError": Program(HANDMADE + WGMMA, "another wgmma"),
    "EmulatedRaceError": Program(emulated("A[0] = tx  # HERE"), "writes A[0], which thread (0, 0, 0) wrote"),
    "EmulatedUndefinedError": Program(
        emulated("A[tx] = (A[tx] + 2147483647) * 2  # HERE", "run(kernel, printed=plainly)"),
        "a signed integer that leaves its range",
    ),
    "EmulatedUnwrittenError": Program(emulated("A[0] = tile[2]  # HERE"), "tile[2], which nothing has written"),
    "EmulatorCompilerError": Program(
        """
from tile_core.emulator.build import build_library
build_library('int f() { return __vendor_intrinsic(3); }')
""",
        "'__vendor_intrinsic'",
    ),
    "EmulatorRunError": Program(
        inside('large = T.alloc_shared((1 << 20,), "int32")\nT.clear(large)', then="run(kernel, shared_bytes=1 << 30)"),
        "asks for more shared memory",
    ),
    "KernelLaunchError": Program(
        """
import sys
# The emulator knows more than that a launch failed; without its word the launch's own error is left.
monkeypatch.setattr("tile_core.emulator.runtime._error", lambda failure, spans: sys.exc_info()[1])
"""
        + emulated("A[0] = tx"),
        "the kernel could not be launched",
    ),
    "MissingCompilerError": Program(
        """
from tile_core.emulator.build import build_library
monkeypatch.setenv("CXX", "no-such-compiler")
build_library("")
""",
        "no-such-compiler",
    ),
}


@dataclass(frozen=True)
class _Plant:
    """A faulty pass behind all others."""

    change: Any
    name: ClassVar[str] = "plant"

    def __call__(self, func, context):
        return func.with_body(self.change(func.body))


def plainly(patch):
    """A printer that takes signed integers for never leaving their range."""
    patch.setattr(Overflow, "wraps", lambda self, node: False)


def run(kernel, change=None, printed=lambda patch: None, **facts):
    """Run a kernel under the emulator's checks, with a faulty pass or printer and other facts of the target."""
    import torch

    planted = () if change is None else (_Plant(change),)
    resolve = manager.resolve

    def other_facts(reference):
        found = resolve(reference)
        return (lambda target: replace(found(target), **facts)) if reference.endswith(":capabilities") else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower, "build_pipeline", lambda *given: (*build_pipeline(*given), *planted))
        patch.setattr(manager, "resolve", other_facts)
        printed(patch)
        made = tl.compile(kernel, target="cuda", execution="emulate", pass_configs={"tile.emulate_check": not facts})
    made(*(torch.zeros(param.shape, dtype=param.dtype.torch) for param in made.params))


def misaligned(body):
    def store(stmt, mutator):
        indices = [
            tirx.Ramp(index.base + 2, index.stride, index.lanes) if isinstance(index, Ramp) else index
            for index in stmt.indices
            if scope(stmt.buffer) == GLOBAL
        ]
        return S.BufferStore(stmt.buffer, stmt.value, indices, stmt.span) if indices else stmt

    return visit.mutate(body, (S.BufferStore, store))


def run_by_hand(program, check=True):
    """Run a lowered program in the emulator."""
    import numpy as np

    configs = {"tile.emulate_check": check}
    request = CompileRequest(parse_target("cuda", {"arch": "sm_90"}), configs, execution="emulate")
    runtime.load(compile_lowered(program, request, {}), request)(np.zeros((8, 16), "float16"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, monkeypatch):
    import tile_cuda.language as cuda

    kind = getattr(emulator, name, None) or getattr(device, name)
    helpers = {
        "run": run,
        "misaligned": misaligned,
        "run_by_hand": run_by_hand,
        "monkeypatch": monkeypatch,
        "plainly": plainly,
    }
    refuse(kind, PROGRAMS[name], {**helpers, "shfl": lambda value: cuda.shfl_sync(value, 0)})
