"""What products by warps and by warpgroups have in common: who shares C, and which tiles the operands are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.layouts.digits import AxisDigits
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops.base import OpCall
from tile_core.ops.gemm import sizes
from tile_core.passes.matrix import Held
from tile_core.passes.thread_scope import ThreadScope
from tile_cuda.instructions.shapes import MatrixInstruction
from tile_cuda.matrix.operands import SharedMatrix

FULL_ROW, FULL_COLUMN = 1, 2
"""Values of a call's `policy`; anything else is as square as possible."""


@dataclass(frozen=True)
class Product(ABC):
    """One `tile.gemm` by `instruction`; `down` × `across` units share C. `a` is `None` where A is a fragment."""

    call: OpCall
    instruction: MatrixInstruction
    down: int
    across: int
    a: SharedMatrix | None
    b: SharedMatrix

    @abstractmethod
    def rows(self, m: int) -> AxisDigits:
        """How `m` rows of C, or of A, are dealt."""

    @abstractmethod
    def columns(self, n: int, across: int) -> AxisDigits:
        """How `n` columns are dealt to `across` units."""

    @abstractmethod
    def emit(self, scope: ThreadScope) -> S.Stmt:
        """The statements that every thread of the block runs."""

    @property
    def held(self) -> tuple[Held, ...]:
        """C, and A where it is a fragment."""
        m, n, k = sizes(self.call)
        found = [Held(self.call.region("c").source, self.rows(m), self.columns(n, self.across))]
        if self.a is None:
            found.append(Held(self.call.region("a").source, self.rows(m), self.columns(k, 1)))
        return tuple(found)

    @property
    def tiles(self) -> Mapping[ir.Var, SwizzledTile]:
        """The shared operands."""
        return {operand.buffer: operand.tile for operand in (self.a, self.b) if operand is not None}
