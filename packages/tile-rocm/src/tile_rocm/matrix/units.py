"""The matrix instructions of an AMD architecture, as core asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ops.base import OpCall
from tile_core.passes.matrix import MatrixProduct
from tile_core.passes.matrix_products import Refusal
from tile_core.passes.thread_scope import ThreadScope
from tile_rocm.instructions.shapes import MatrixInstruction
from tile_rocm.matrix.product import WaveProduct, wave_product

GEMM = "tile.gemm"


@dataclass(frozen=True)
class MatrixCores:
    """Those of an architecture whose waves have `wave` lanes. No product is ever in flight."""

    wave: int
    instructions: tuple[MatrixInstruction, ...]

    @property
    def memories(self) -> frozenset[str]:
        """See `tile_core.passes.matrix.MatrixUnits`: none."""
        return frozenset()

    def product(self, call: OpCall, threads: int, _capabilities: Any) -> MatrixProduct | None:
        """See `tile_core.passes.matrix.MatrixUnits`."""
        found = self._tried(call, threads)
        return found if isinstance(found, WaveProduct) else None

    def explain(self, call: OpCall, threads: int) -> str:
        """See `tile_core.passes.matrix.MatrixUnits`."""
        found = self._tried(call, threads)
        return found.name if isinstance(found, WaveProduct) else f"scalar code ({found.why})"

    def _tried(self, call: OpCall, threads: int) -> WaveProduct | Refusal:
        if call.op.name != GEMM:
            return Refusal(f"{call.op.name.removeprefix('tile.')} has no instruction")
        return wave_product(call, threads, self.wave, self.instructions)

    def takes_moved(self, call: OpCall) -> bool:
        """See `tile_core.passes.matrix.TakesMoved`: where a chain of products cannot stay in registers."""
        return call.op.name == GEMM

    def store(self, _call: OpCall, _scope: ThreadScope) -> S.Stmt | None:
        """See `tile_core.passes.matrix.MatrixUnits`: results are stored by loops."""
        return None

    def hold(self, _fragment: ir.Var, _scope: ThreadScope) -> S.Stmt:
        """See `tile_core.passes.matrix.MatrixUnits`: there is nothing to wait for."""
        return visit.sequence([])

    def settle(self, _fragment: ir.Var, _in_flight: int, _scope: ThreadScope, _span: ir.Span | None = None) -> S.Stmt:
        """See `tile_core.passes.matrix.MatrixUnits`: there is nothing to wait for."""
        return visit.sequence([])
