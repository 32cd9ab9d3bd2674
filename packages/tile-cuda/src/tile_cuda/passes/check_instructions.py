"""Refuse instructions, written by hand, that the architecture does not have.

`FIRST` and `LAST` are the compute capabilities, as `90` for `sm_90`, between which an instruction exists. Those of the
table of matrix instructions say it themselves. PTX ISA, "Target ISA Notes" of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.passes import UnsupportedOnTargetError
from tile_core.ir import regions, visit
from tile_core.ir.spans import from_tvm
from tile_core.ops.threads import is_instruction
from tile_core.passes.base import PassContext
from tile_cuda.instructions.mma import instruction_of
from tile_cuda.instructions.shapes import Family
from tile_cuda.matrix.tcgen05 import TENSOR_MEMORY

PREFIX = "cuda."
FIRST = {
    "mma_scaled": 120,
    "ldmatrix": 75,
    "stmatrix": 90,
    "fence_barrier_init": 90,
    "tma_gather4": 100,
    "tma_scatter4": 100,
    "tma_load_2sm": 100,
    "tma": 90,
    "tcgen05": 100,
    "clc": 100,
}
"""By the beginning of an instruction's name, the longer one first."""
LAST = dict.fromkeys(("tma_gather4", "tma_scatter4", "tma_load_2sm", "tcgen05", "clc_try_cancel_multicast"), 119)
ANY = 999
"""A capability above all."""
_FAMILIES: tuple[Family, ...] = ("wgmma", "tcgen05", "mma")


@dataclass(frozen=True)
class CheckInstructions:
    """See the module."""

    name: ClassVar[str] = "check_instructions"
    capability: int

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """Check `func`; it is returned as it is.

        Raises:
            UnsupportedOnTargetError: an instruction that this architecture does not have.
        """
        for alloc in visit.collect(func.body, S.AllocBuffer):
            if (
                regions.scope(alloc.buffer) == TENSOR_MEMORY
                and not FIRST["tcgen05"] <= self.capability <= LAST["tcgen05"]
            ):
                raise UnsupportedOnTargetError(
                    f"{context.target} has no tensor memory, which {alloc.buffer.name} is",
                    remedy=f"compile for sm_{FIRST['tcgen05']}, or use T.alloc_fragment",
                    span=from_tvm(alloc.span),
                )
        for stmt in visit.collect(func.body, S.Evaluate):
            if is_instruction(stmt):
                first, last, shown = _range(stmt.value)
                if not first <= self.capability <= last:
                    later = "" if last == first else " or later" if last == ANY else f" to sm_{last}"
                    raise UnsupportedOnTargetError(
                        f"{context.target} has no {shown}",
                        remedy=f"compile for sm_{first}{later}, or use T.gemm, which takes what there is",
                        span=from_tvm(stmt.span),
                    )
        return func


def _range(call: ir.Call) -> tuple[int, int, str]:
    """The first and the last capability of an instruction, and its name."""
    name = str(call.op.name).removeprefix(PREFIX)
    family = next((family for family in _FAMILIES if name.startswith(family)), None)
    if family is not None and "a_dtype" in call.attrs:
        found = instruction_of(family, call.attrs)
        return found.first, found.last or ANY, f"{family} {found.name}"
    first = next((first for start, first in FIRST.items() if name.startswith(start)), 0)
    return first, next((last for start, last in LAST.items() if name.startswith(start)), ANY), name
