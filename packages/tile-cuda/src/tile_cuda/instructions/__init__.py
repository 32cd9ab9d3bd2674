"""The matrix instructions of NVIDIA GPUs: what is in the table, how each is printed, and what it does in the emulator.

    from tile_cuda.instructions import shapes
    found = shapes.instructions("float32", "float16", "float16", capability=80)[0]
    S.Evaluate(mma(address_of(d, 0), address_of(a, 0), address_of(b, 0), instruction=found))

`CALLS` is for the table of calls of a language.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tile_core.layouts.registers import FragmentLayout
from tile_core.printer.language import ExprHandler
from tile_cuda.instructions import block_scaled, cluster_control, compiler_hints, descriptors, mma_scaled, tcgen05
from tile_cuda.instructions.base import Instruction, address_of
from tile_cuda.instructions.compiler_hints import hold, pin, uniform
from tile_cuda.instructions.descriptors import descriptor_advance, smem_descriptor
from tile_cuda.instructions.ldmatrix import LDMATRIX, STMATRIX, ldmatrix, stmatrix
from tile_cuda.instructions.mma import MMA, MMA_SP, ROUND_TF32, mma, mma_sp, round_tf32
from tile_cuda.instructions.nibbles import WIDEN
from tile_cuda.instructions.shapes import TABLE, MatrixInstruction, find, instructions
from tile_cuda.instructions.wgmma import ALL as PRODUCTS
from tile_cuda.instructions.wgmma import (
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_rs,
    wgmma_sp,
    wgmma_sp_rs,
    wgmma_wait,
)

__all__ = [
    "CALLS",
    "TABLE",
    "FragmentLayout",
    "Instruction",
    "MatrixInstruction",
    "address_of",
    "descriptor_advance",
    "find",
    "hold",
    "instructions",
    "ldmatrix",
    "mma",
    "mma_sp",
    "pin",
    "round_tf32",
    "smem_descriptor",
    "stmatrix",
    "uniform",
    "wgmma",
    "wgmma_commit",
    "wgmma_fence",
    "wgmma_rs",
    "wgmma_sp",
    "wgmma_sp_rs",
    "wgmma_wait",
]

_WARP = (MMA, MMA_SP, mma_scaled.MMA_SCALED, LDMATRIX, STMATRIX, ROUND_TF32, WIDEN)
_WARPGROUP = (*PRODUCTS, *compiler_hints.ALL, *descriptors.ALL)
CALLS: Mapping[str, ExprHandler] = MappingProxyType(
    {
        instruction.op: instruction.forms
        for instruction in (*_WARP, *_WARPGROUP, *tcgen05.ALL, *block_scaled.ALL, *cluster_control.ALL)
    }
)
"""How each is printed, for the device and for the host."""
