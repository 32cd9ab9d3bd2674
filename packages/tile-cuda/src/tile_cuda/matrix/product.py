"""What products by warps and by warpgroups have in common: who shares C, and which tiles the operands are."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.ir import regions
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops.base import OpCall
from tile_core.ops.gemm import coded, packed, transposed
from tile_core.passes.allow_rounding import HALF_SUMS, TF32
from tile_core.passes.matrix import Held
from tile_core.passes.matrix_products import FULL_COLUMN, FULL_ROW, Refusal
from tile_core.passes.thread_scope import ThreadScope
from tile_cuda.instructions.shapes import TABLE, Family, MatrixInstruction
from tile_cuda.matrix.operands import SharedMatrix

__all__ = [
    "FULL_COLUMN",
    "FULL_ROW",
    "SPARSE",
    "Product",
    "Refusal",
    "covered",
    "operand_type",
    "sizes",
    "sums_in_float16",
]

SPARSE = "tile.gemm_sp"
"""The op of a product with a sparse A."""


@functools.cache
def covered(family: Family, capability: int, totals: tuple[str, ...] = (), *, sparse: bool = False) -> str:
    """What the instructions of a family multiply on an architecture, into `totals` where they are given.

    >>> covered("mma", 75)
    'it multiplies float16 into float32; float16 into float16; int8, uint8, int4, uint4 into int32'
    """
    fitting = (one for one in TABLE if one.family == family and one.sparse == sparse and one.exists_on(capability))
    found: dict[str, dict[str, None]] = {}
    for one in fitting:
        if one.d in (totals or (one.d,)):
            found.setdefault(one.d, {})[one.a] = None
    listed = "; ".join(f"{', '.join(operands)} into {total}" for total, operands in found.items())
    return f"it multiplies {listed}" if listed else f"it has no {family}"


def sizes(call: OpCall) -> tuple[int, int, int]:
    """M, N and K of a product: K is that of B, since a sparse A holds half, in bytes where these hold two values."""
    (m, n), right = (_shape(call, side) for side in "cb")
    return m, n, right[1] if transposed(call, "b") else right[0]


def _shape(call: OpCall, side: str) -> tuple[int, int]:
    rows, columns = (regions.constant(axis.extent) for axis in call.region(side).region[-2:])
    assert rows is not None and columns is not None
    return rows, columns


def operand_type(call: OpCall, side: str) -> DType:
    """What instructions take an operand for: bytes of values of four bits for these, and codes for theirs."""
    narrow = packed(call, side) or coded(call, side)
    if narrow is not None:
        return narrow
    dtype = as_dtype(str(call.region(side).source.dtype))
    return as_dtype("tfloat32") if dtype.name == "float32" and call.attrs.get(TF32) else dtype


def sums_in_float16(call: OpCall) -> bool:
    """Whether an instruction may sum in C itself, which is float16."""
    return bool(call.attrs.get(HALF_SUMS)) and str(call.region("c").source.dtype) == "float16"


@dataclass(frozen=True)
class Product(ABC):
    """One `tile.gemm` by `instruction`; `down` × `across` units share C. An operand that is a fragment is `None`."""

    call: OpCall
    instruction: MatrixInstruction
    down: int
    across: int
    a: SharedMatrix | None
    b: SharedMatrix | None

    @property
    def name(self) -> str:
        """What runs, for the report."""
        return f"{self.instruction.family} {self.instruction.name}"

    @abstractmethod
    def emit(self, scope: ThreadScope) -> S.Stmt:
        """The statements that every thread of the block runs."""

    @property
    @abstractmethod
    def held(self) -> tuple[Held, ...]:
        """C, and the operands that are fragments."""

    @property
    def tiles(self) -> Mapping[ir.Var, SwizzledTile]:
        """The shared operands that are swizzled."""
        operands = [operand for operand in (self.a, self.b) if operand is not None]
        return {operand.buffer: operand.tile for operand in operands if operand.tile is not None}
