"""Leave loops over arrays that no thread has the registers for as loops.

Code over a thread's share of a fragment is unrolled, so that every index is a constant and the array lies in registers.
One that is larger than all registers of a thread lies in its local memory, whatever the code looks like; written out,
it only takes device compilers minutes. Short loops inside stay unrolled: vectors and lanes. So do loops with matrix
instructions, whose operands are registers. The report's `fragments_in_local` names these arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import LocalMemoryLimitError
from tile_core.ir import launch, regions, visit
from tile_core.ir.spans import from_tvm
from tile_core.ops.threads import is_instruction
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_core.passes.plan_shared_memory import size_in_bytes
from tile_core.passes.thread_nests import UNROLLED_STEPS
from tile_core.passes.unroll_loops import UNROLL_FACTOR

REGISTERS, LOCAL_BYTES = "registers_per_thread", "local_bytes"
REGISTER_BYTES = 4


@dataclass(frozen=True)
class RollLoops:
    """See the module. The target's facts `registers_per_thread` and `local_bytes` decide.

    Raises:
        LocalMemoryLimitError: an array is larger than the local memory of a thread.
    """

    name: ClassVar[str] = "roll_loops"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        room = REGISTER_BYTES * int(context.capabilities.fact(REGISTERS, 0))
        told = context.report.setdefault("fragments_in_local", [])
        arrays = [alloc for alloc in visit.collect(func.body, S.AllocBuffer) if _is_array(alloc.buffer)]
        large = {alloc.buffer for alloc in arrays if room and size_in_bytes(alloc.buffer) > room}
        if not large:
            return func
        limit = int(context.capabilities.fact(LOCAL_BYTES, 0))
        for nest in launch.launches(func.body):
            _check(nest, large, limit)
        told += sorted({str(array.name) for array in large}.difference(told))
        return func.with_body(visit.mutate(func.body, (S.For, _Roller(large).loop)), func.span)


def _is_array(buffer: ir.Var) -> bool:
    is_known = all(regions.constant(extent) is not None for extent in buffer.shape)
    return is_known and regions.scope(buffer) == regions.LOCAL


def _check(nest: S.Stmt, large: set[ir.Var], limit: int) -> None:
    for alloc in visit.collect(nest, S.AllocBuffer):
        if limit and alloc.buffer in large and size_in_bytes(alloc.buffer) > limit:
            threads = launch.from_stmt(nest).threads
            raise LocalMemoryLimitError(
                f"each of the block's {prod(threads)} threads holds {size_in_bytes(alloc.buffer)} bytes of "
                f"{alloc.buffer.name}, but a thread has {limit} bytes of local memory",
                remedy="use a smaller tile, a tile in shared memory, or more threads",
                span=from_tvm(alloc.span or nest.span),
            )


class _Roller:
    def __init__(self, large: set[ir.Var]) -> None:
        self._large = large

    def loop(self, loop: S.For, mutator: Any) -> S.Stmt:
        if loop.kind != S.ForKind.UNROLLED:
            return mutator.default_mutate(loop)
        if _steps(loop) <= UNROLLED_STEPS or not self._touches(loop):
            return loop
        body = mutator.mutate(loop.body)
        if UNROLL_FACTOR in loop.annotations or any(map(is_instruction, visit.collect(loop.body, ir.Call))):
            return rebuild.loop(loop, body=body)
        return rebuild.loop(loop, body=body, annotations={**loop.annotations, UNROLL_FACTOR: 1})

    def _touches(self, loop: S.For) -> bool:
        loads = any(load.source in self._large for load in visit.collect(loop.body, ir.TensorLoad))
        return loads or any(store.buffer in self._large for store in visit.collect(loop.body, S.BufferStore))


def _steps(stmt: S.Stmt) -> int:
    """How often the innermost statements are written out, where most."""
    inner = max(map(_steps, visit.children(stmt)), default=1)
    if isinstance(stmt, S.For) and stmt.kind == S.ForKind.UNROLLED:
        return inner * (regions.constant(stmt.extent) or 1)
    return inner
