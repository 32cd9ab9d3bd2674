"""From a tile program to an object file: the pipeline, then TVM's code generator with the passes it needs.

TVM's passes are listed here one by one. Its default pipelines contain `StmtSimplify`, which folds `x * 0` and `x - x`
on floats, and vectorisers and storage planners that this backend has its own of.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

import tvm
from tvm import ir
from tvm.tirx import transform

from tile_core.errors.base import TileError
from tile_core.errors.passes import CodegenError
from tile_core.ir import visit
from tile_core.jit.artifact import Artifact
from tile_core.jit.host import packed_entry
from tile_core.jit.objects import compiled_text, object_bytes
from tile_core.ops.threads import EXTERN_CALLS, called
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_cpu.passes.bind_extents import BindExtents
from tile_cpu.passes.fence_masked_stores import FenceMaskedStores
from tile_cpu.passes.fold_zero_bits import FoldZeroBits
from tile_cpu.passes.hoist_lets import HoistLets
from tile_cpu.passes.keep_memory import KeepMemory
from tile_cpu.passes.legalize_division import LegalizeDivision
from tile_cpu.passes.legalize_float_to_int import LegalizeFloatToInt
from tile_cpu.passes.legalize_narrow_floats import LegalizeNarrowFloats
from tile_cpu.passes.limit_unrolling import LimitUnrolling
from tile_cpu.passes.simplify_indices import SimplifyIndices
from tile_cpu.passes.widen_offsets import WidenOffsets
from tile_cpu.passes.wrap_integers import WrapIntegers
from tile_cpu.split_host import split_host
from tile_cpu.target import llvm_target

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.jit.artifact import CompileRequest
    from tile_core.targets import Target

KERNEL_OBJECT = "kernel.o"
Step = Callable[[Any], Any]
POOL_OBJECT = "pool.o"
EXTERNS = "externs"
"""The functions that the author calls by name, in the report."""


def _each(step: Callable[[tirx.PrimFunc], tirx.PrimFunc]) -> Step:
    """A pass over functions as a pass over a module."""
    return lambda module: _module(tuple(step(func) for func in module.functions.values()))


# Ours come first: TVM's passes carry its analyzer, which must meet neither a `let` inside of another one nor an
# unsigned constant below zero. What needs a value more than once binds it, so hoisting follows; wrapping sees the
# final sums, and unrolling makes constants.
_STEPS: tuple[Step, ...] = (
    _each(WidenOffsets()),
    _each(LegalizeNarrowFloats()),
    _each(LegalizeFloatToInt()),
    _each(FenceMaskedStores()),
    _each(BindExtents()),
    _each(LegalizeDivision()),
    _each(HoistLets()),
    _each(WrapIntegers()),
    transform.FlattenBuffer(),
    _each(SimplifyIndices()),
    _each(LimitUnrolling()),
    transform.UnrollLoop(),
    transform.ConvertSSA(),
    _each(FoldZeroBits()),
    transform.LowerTVMBuiltin(),
    _each(KeepMemory()),
    transform.LowerIntrin(),
)


def compile_program(program: tirx.PrimFunc, request: CompileRequest) -> Artifact:
    """Compile `program` for the CPU that `request.target` names.

    The artifact holds the object file `kernel.o`, loadable on any machine with the target's instructions.

    Raises:
        TileError: the program is refused by a pass.
        CodegenError: LLVM refused the lowered program.
    """
    lowered, report = lower(program, request, backend("cpu"))
    try:
        module = build_module(lowered, request)
    except TileError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise CodegenError(
            f"LLVM could not compile the kernel: {_first_line(error)}",
            remedy="report it with the kernel; TILE_DEBUG=3 shows the program after every pass",
        ) from error
    return Artifact(
        files={KERNEL_OBJECT: object_bytes(module), POOL_OBJECT: pool_object(request.target)},
        kernel_source=lowered.script(),
        report={**_json(report), "symbol": str(lowered.attrs["global_symbol"]), EXTERNS: _externs(program)},
    )


def _externs(program: tirx.PrimFunc) -> list[str]:
    calls = (call for call in visit.collect(program.body, ir.Call) if called(call) in EXTERN_CALLS)
    return sorted({str(call.args[0].value) for call in calls})


def build_module(lowered: tirx.PrimFunc, request: CompileRequest) -> Any:
    """The LLVM module of a function that went through the pipeline."""
    target = llvm_target(request.target)
    split = split_host(lowered)
    entries = (packed_entry(func) for func in (split.host, split.set_pool))
    attributes = {"target": target, "tirx.noalias": False}
    whole = _module(tuple(func.with_attr(attributes) for func in (*entries, *split.blocks)))
    for step in _STEPS:
        whole = step(whole)
    return tvm.get_global_func("target.build.llvm")(whole, target)


def pool_object(target: Target) -> bytes:
    """The object file of `pool/pool.ll`, which runs blocks on the cores: the same for every kernel of a target."""
    return _pool_object(target.option("cpu"), target.option("triple"))


@functools.cache
def _pool_object(cpu: str, triple: str) -> bytes:
    text = resources.files("tile_cpu").joinpath("pool/pool.ll").read_text("utf-8")
    return compiled_text(f'target triple = "{triple}"\n{text}', mtriple=triple, mcpu=cpu)


def _module(functions: tuple[tirx.PrimFunc, ...]) -> ir.IRModule:
    return tvm.IRModule({str(func.attrs["global_symbol"]): func for func in functions})


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _json(report: Mapping[str, Any]) -> dict[str, Any]:
    return {key: report[key] for key in sorted(report)}
