"""The matrix instructions of a CUDA architecture, in the order in which they are preferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ops.base import OpCall
from tile_core.ops.gemm_scaled import GEMM_SCALED
from tile_core.passes.coded_tiles import Form
from tile_core.passes.matrix import MatrixProduct
from tile_core.passes.thread_scope import ThreadScope
from tile_cuda.matrix.block_scaled import product_of
from tile_cuda.matrix.coded import coded_forms
from tile_cuda.matrix.load import matrix_load
from tile_cuda.matrix.mma import warp_product
from tile_cuda.matrix.product import Product, Refusal
from tile_cuda.matrix.store import matrix_store
from tile_cuda.matrix.tcgen05 import FIRST, LAST, TENSOR_MEMORY, in_tensor_memory
from tile_cuda.matrix.wgmma import held_in_place, settled, warpgroup_product

WARPGROUP_PRODUCTS = 90
TENSOR_MEMORY_OPTION = "tile.tensor_memory"
"""The pass config that switches products in tensor memory off."""


@dataclass(frozen=True)
class TensorCores:
    """Those of the architecture `sm_<capability>`."""

    capability: int

    @property
    def memories(self) -> frozenset[str]:
        """See `tile_core.passes.matrix.MatrixUnits`: tensor memory."""
        return frozenset({TENSOR_MEMORY} if FIRST <= self.capability <= LAST else ())

    @property
    def packed(self) -> frozenset[str]:
        """The dtypes of four bits whose bytes are multiplied as they are: by architectures with units for them.

        Later ones make the instruction of others: on an H200, 4096³ is 45 TOPS by it and 393 as int8
        (docs/verified.md).
        """
        return frozenset({"int4", "uint4"} if self.capability < WARPGROUP_PRODUCTS else ())

    def forms(self, call: OpCall, threads: int, options: Mapping[str, Any]) -> Mapping[str, Form]:
        """See `tile_core.passes.coded_tiles.CodedOperands`."""
        return coded_forms(call, threads, self.capability, in_memory=bool(options.get(TENSOR_MEMORY_OPTION, True)))

    def product(self, call: OpCall, threads: int, _capabilities: Any) -> MatrixProduct | None:
        """See `tile_core.passes.matrix.MatrixUnits`."""
        return next((found for found in self._tried(call, threads) if not isinstance(found, Refusal)), None)

    def explain(self, call: OpCall, threads: int) -> str:
        """See `tile_core.passes.matrix.MatrixUnits`: the instruction, or the reasons against each kind."""
        found = list(self._tried(call, threads))
        reasons = "; ".join(product.why for product in found if isinstance(product, Refusal))
        chosen = next((product for product in found if isinstance(product, Product)), None)
        name = "scalar code" if chosen is None else chosen.name
        return f"{name} ({reasons})" if reasons else name

    def _tried(self, call: OpCall, threads: int) -> Iterator[Product | Refusal]:
        """By warpgroups where the architecture has them, then by warps; the first that is found is the last."""
        if in_tensor_memory(call.region("c").source):
            yield product_of(call)
            return
        if self.capability == WARPGROUP_PRODUCTS and call.op is not GEMM_SCALED:
            found = warpgroup_product(call, threads)
            yield found
            if isinstance(found, Product):
                return
        yield warp_product(call, threads, self.capability)

    def store(self, call: OpCall, scope: ThreadScope) -> S.Stmt | None:
        """See `tile_core.passes.matrix.MatrixUnits`."""
        if self.capability < WARPGROUP_PRODUCTS:
            return None
        return matrix_store(call, scope) or matrix_load(call, scope)

    def hold(self, fragment: ir.Var, scope: ThreadScope) -> S.Stmt:
        """See `tile_core.passes.matrix.MatrixUnits`."""
        return held_in_place(fragment, scope)

    def settle(self, fragment: ir.Var, in_flight: int, scope: ThreadScope, span: ir.Span | None = None) -> S.Stmt:
        """See `tile_core.passes.matrix.MatrixUnits`: only warpgroup products are ever in flight."""
        return settled(fragment, in_flight, scope, span)
