"""Products in tensor memory whose operands have factors there, too: `tcgen05.mma` of the kind mxf8f6f4.

Each step of 32 along K takes one byte of the words of factors; which one follows from where K begins and from how many
elements share a factor, in the running kernel. Factors of 128 rows of A are four columns, those of B a column for each
32 of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions
from tile_core.ir.ops import tile_op
from tile_core.ops.base import LowerContext, OpCall
from tile_core.ops.gemm import sizes
from tile_core.ops.gemm_scaled import FACTORS, GEMM_SCALED, IN_A_WORD, granularity
from tile_core.passes.thread_scope import ThreadScope, int32
from tile_cuda.instructions.block_scaled import MXF8F6F4, factors_at, scaled_descriptor, tcgen05_mma_scaled
from tile_cuda.instructions.descriptors import descriptor_advance
from tile_cuda.matrix.product import Refusal, operand_type
from tile_cuda.matrix.tcgen05 import LANES, Issue, TensorProduct, address, in_tensor_memory, tensor_product

LINES = 32
"""Lines whose factors are in one column."""


@dataclass(frozen=True)
class ScaledTensorProduct(TensorProduct):
    """One `tile.gemm_scaled` into tensor memory."""

    def emit(self, scope: ThreadScope) -> S.Stmt:
        """One thread issues the instructions; the others wait with it."""
        return _ScaledIssue(self, scope).result()


def product_of(call: OpCall) -> TensorProduct | Refusal:
    """The product into tensor memory, with or without factors, or why no instruction makes it."""
    return _scaled_product(call) if call.op is GEMM_SCALED else tensor_product(call)


def made_by_instructions(call: OpCall, _context: LowerContext) -> S.Stmt:
    """What stands beside the instructions: nothing that could be printed."""
    return S.Evaluate(ir.Call(tile_op("cuda.product_without_instructions"), [], ret_ty="void"), call.span)


def _scaled_product(call: OpCall) -> ScaledTensorProduct | Refusal:
    found = tensor_product(call)
    if isinstance(found, Refusal):
        return found
    a, b = (operand_type(call, side).name for side in "ab")
    if found.a is None or str(call.region("c").source.dtype) != "float32" or None in map(MXF8F6F4.format_of, (a, b)):
        return Refusal("block-scaled tcgen05 reads floats of 8 bits from shared memory, and sums in float32")
    for side in "ab":
        factors = call.region(FACTORS[side]).source
        if not in_tensor_memory(factors) or not regions.is_whole(call.region(FACTORS[side])):
            return Refusal(f"block-scaled tcgen05 wants the factors of {side.upper()} in a whole tile of tensor memory")
    m, n, k = sizes(call)
    if m % LANES:
        return Refusal(f"block-scaled tcgen05 multiplies {LANES} rows at once, not {m}")
    if n > found.instruction.n and found.instruction.n % LINES:
        return Refusal(f"the factors of {n} columns cannot be taken {found.instruction.n} at a time")
    width = regions.constant(call.region("fa").source.shape[-1]) or 0
    if width < IN_A_WORD * (m // LANES):
        return Refusal(f"{m} rows of A have factors in {IN_A_WORD * (m // LANES)} columns, not {width}")
    start = regions.constant(call.args["k_start"])
    for side in "ab":
        each = granularity(call, side)
        if start is not None and start // each % IN_A_WORD + -(-(start % each + k) // each) > IN_A_WORD:
            return Refusal(
                f"K from {start} on takes factors of {side.upper()} from two words, {each} of K for each factor"
            )
    return ScaledTensorProduct(call, found.instruction, found.down, found.across, found.a, found.b)


class _ScaledIssue(Issue):
    def instructions(self, a_start: ir.Var, b_start: ir.Var) -> Iterator[ir.Expr]:
        product, wide, depth = self.product, self.product.instruction.n, MXF8F6F4.k
        assert product.a is not None
        call = product.call
        a_trans, b_trans = (not operand.depth_is_contiguous for operand in (product.a, product.b))
        dtypes = [operand_type(call, side).name for side in "ab"]
        word = scaled_descriptor(MXF8F6F4, wide, dtypes[0], dtypes[1], a_trans=a_trans, b_trans=b_trans)
        for row in range(0, self.m, LANES):
            for column in range(0, self.n, wide):
                for at in range(0, self.k, depth):
                    yield tcgen05_mma_scaled(
                        address(self.c, row // LANES * self.n + column),
                        descriptor_advance(a_start, product.a.advance(row, at)),
                        descriptor_advance(b_start, product.b.advance(column, at)),
                        self._descriptor(word, at),
                        address(call.region("fa").source, row // LANES * IN_A_WORD),
                        address(call.region("fb").source, column // LINES),
                        self.keep() if at == 0 else int32(1),
                        kind=MXF8F6F4,
                    )

    def _descriptor(self, word: int, at: int) -> ir.Expr:
        """The descriptor of the step at `at`: which factors it takes may be known in the running kernel only."""
        call = self.product.call
        start = call.args["k_start"]
        known = regions.constant(start)
        each = {side: granularity(call, side) for side in "ab"}
        if known is not None:
            a, b = ((known + at) // each[side] % IN_A_WORD for side in "ab")
            return E.IntImm("uint32", word | int(factors_at(a, b)))
        first = start if str(start.ty.dtype) == "int32" else tirx.Cast("int32", start)
        numbers = [
            tirx.Cast("uint32", tirx.floormod(tirx.floordiv(first + at, int32(each[side])), int32(IN_A_WORD)))
            for side in "ab"
        ]
        shifts = [E.IntImm("uint32", int(factors_at(1, 0))), E.IntImm("uint32", int(factors_at(0, 1)))]
        return E.IntImm("uint32", word) + numbers[0] * shifts[0] + numbers[1] * shifts[1]
