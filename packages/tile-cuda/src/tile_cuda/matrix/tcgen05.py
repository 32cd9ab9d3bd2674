"""Products in tensor memory (`tcgen05.mma`): one thread multiplies 128 rows at once, or 64, C stays where it is.

C is a tile of tensor memory, B is in shared memory, A in either. Rows of a C of more than 128 lie beside each other,
128 at a time; 64 rows are the first 16 lanes of each warp, and their A is in shared memory. One thread of the block's
first warp issues every instruction, and all threads wait for them at a barrier of the product's own; where the author
waits for the product (`IN_FLIGHT`), nothing waits here. Operands in shared memory lie as those of `wgmma` do. PTX ISA,
"tcgen05.mma". This was compiled and emulated, and has not run on hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.ops import tile_op
from tile_core.ops.base import OpCall
from tile_core.ops.gemm import coded, transposed
from tile_core.ops.products import IN_FLIGHT
from tile_core.passes.insert_barriers import barrier
from tile_core.passes.matrix import Held
from tile_core.passes.nests import FOREIGN
from tile_core.passes.thread_scope import ThreadScope, int32, phase
from tile_cuda.instructions.descriptors import descriptor_advance
from tile_cuda.instructions.mbarrier import fence_async, mbarrier_wait
from tile_cuda.instructions.shapes import MatrixInstruction, find, register_bits
from tile_cuda.instructions.tcgen05 import (
    tcgen05_commit,
    tcgen05_descriptor,
    tcgen05_fence,
    tcgen05_mma,
    tcgen05_mma_ts,
)
from tile_cuda.instructions.threads import elect
from tile_cuda.matrix.operands import DESCRIPTOR_ROWS, SharedMatrix, reading, shared_matrix
from tile_cuda.matrix.product import Product, Refusal, operand_type, sizes
from tile_cuda.matrix.warp import WARP

TENSOR_MEMORY = "shared.tmem"
"""The scope of tiles in tensor memory."""
FIRST, LAST = 100, 119
"""The capabilities between which there is tensor memory."""
LANES, WORD_BITS, DEPTH_BYTES = 128, 32, 32
HALF = 64
"""Rows of the smaller instruction: of each warp's lanes the first half."""
MOST_COLUMNS, COLUMN_STEP = 256, 16
MOST_THREADS = 256
"""Threads of a block that share fragments of products made in tensor memory."""
COMPLETION = "tile.completion"
"""Attribute around a product that is waited for: its node is the barrier, its value the parity of the next phase."""
AT = "cuda.tensor_memory_at"
"""The address of a tile in tensor memory; its argument is the tile's first element."""


@dataclass(frozen=True)
class TensorProduct(Product):
    """One `tile.gemm` into tensor memory. A that is there, too, is `None`."""

    b: SharedMatrix

    @property
    def held(self) -> tuple[Held, ...]:
        """No fragments."""
        return ()

    def emit(self, scope: ThreadScope) -> S.Stmt:
        """One thread issues the instructions; the others wait with it."""
        return Issue(self, scope).result()


def in_tensor_memory(buffer: ir.Var) -> bool:
    """Whether a tile is in tensor memory."""
    return regions.scope(buffer) == TENSOR_MEMORY


def tensor_product(call: OpCall) -> TensorProduct | Refusal:
    """The product, or why no instruction makes it."""
    a_dtype, b_dtype = (operand_type(call, side) for side in "ab")
    c = call.region("c").source
    types = str(c.dtype), a_dtype.name, b_dtype.name
    depth = DEPTH_BYTES * 8 // register_bits(a_dtype)
    if find("tcgen05", (LANES, COLUMN_STEP, depth), *types) is None:
        return Refusal(f"tcgen05 does not multiply {types[1]} and {types[2]} into {types[0]}")
    if not in_tensor_memory(c) or not regions.is_whole(call.region("c")):
        return Refusal("tcgen05 wants C to be a whole tile of tensor memory")
    m, n, k = sizes(call)
    rows, wide = rows_at_once(m), columns_at_once(n)
    if rows is None or wide is None or k % depth or not k:
        least = HALF if m <= HALF else LANES
        near = [max(1, -(-size // step)) * step for size, step in ((m, least), (n, COLUMN_STEP), (k, depth))]
        units = f"{LANES} × {COLUMN_STEP} × {depth} (or has {HALF} rows)"
        return Refusal(
            f"the tile {m} × {n} × {k} is not made of multiples of {units}; the nearest is "
            f"{near[0]} × {near[1]} × {near[2]}"
        )
    instruction = find("tcgen05", (rows, wide, depth), *types)
    assert instruction is not None
    return placed(call, instruction)


def rows_at_once(m: int) -> int | None:
    """The rows of the instruction that divides `m` rows of C."""
    return HALF if m == HALF else LANES if m and m % LANES == 0 else None


def columns_at_once(n: int) -> int | None:
    """The widest instruction that divides `n` columns."""
    return next((wide for wide in range(MOST_COLUMNS, 0, -COLUMN_STEP) if n and n % wide == 0), None)


def placed(call: OpCall, instruction: MatrixInstruction) -> TensorProduct | Refusal:
    """The product if its operands lie where the instruction reads them."""
    dtype = operand_type(call, "a")
    if regions.scope(call.region("b").source) not in regions.SHARED:
        return Refusal("tcgen05 reads B from shared memory")
    b = shared_matrix(call.region("b"), depth_is_last=transposed(call, "b"))
    a = None
    if in_tensor_memory(call.region("a").source):
        if transposed(call, "a") or not regions.is_whole(call.region("a")) or dtype.bits not in (8, 16):
            return Refusal("tcgen05 reads an A in tensor memory whole, by rows, with elements of 8 or 16 bits")
        if instruction.m != LANES:
            return Refusal(f"tcgen05 reads {instruction.m} rows of A from shared memory")
    elif regions.scope(call.region("a").source) in regions.SHARED:
        a = shared_matrix(call.region("a"), depth_is_last=not transposed(call, "a"))
        if a is None:
            return Refusal("A has elements that are not whole bytes")
    else:
        return Refusal("tcgen05 reads A from shared or tensor memory")
    for side, operand, step in (("B", b, instruction.n), *([] if a is None else [("A", a, instruction.m)])):
        if operand is None or not operand.is_in_strips():
            return Refusal(f"tcgen05 reads {side} in strips of 32, 64 or 128 bytes and eight rows")
        if not operand.depth_is_contiguous and (
            dtype.bits == 32 or coded(call, side.lower()) or step % operand.order.strip
        ):
            return Refusal(f"tcgen05 reads {dtype} with K as the fast axis, or whole strips of {side}")
    assert b is not None
    return TensorProduct(call, instruction, 1, 1, a, b)


def address(memory: ir.Var, column: int = 0) -> ir.Expr:
    """The address of a column of a tile in tensor memory, as uint32."""
    first = tirx.BufferLoad(memory, [int32(0)] * len(memory.shape))
    at = ir.Call(tile_op(AT, pure=True), [first], ret_ty=ir.PrimType("uint32"))
    return at if column == 0 else at + E.IntImm("uint32", column)


def is_issuer(thread: ir.Expr, first: int = 0) -> ir.Expr:
    """Whether this is the thread that issues products: the one that is elected of the warp of thread `first`."""
    return E.And(E.LT(thread, int32(first + WARP)), elect())


def foreign(stmt: S.Stmt) -> S.Stmt:
    """A statement that is already a thread's."""
    return S.AttrStmt(int32(0), FOREIGN, int32(0), stmt, stmt.span)


class Issue:
    """The statements of one product."""

    def __init__(self, product: TensorProduct, scope: ThreadScope) -> None:
        self.product, self._scope, self._span = product, scope, product.call.span
        self.m, self.n, self.k = sizes(product.call)
        self.c = product.call.region("c").source

    def result(self) -> S.Stmt:
        """The instructions, and the wait for them."""
        own = bool(self.product.call.attrs.get(IN_FLIGHT))
        a_start, b_start = tirx.Var("a_matrix", "uint64"), tirx.Var("b_matrix", "uint64")
        issue: list[S.Stmt] = [self._do(tcgen05_fence("after"))]
        if self.product.a is not None:
            issue.append(S.Bind(a_start, descriptor(self.product.a), self._span))
        issue.append(S.Bind(b_start, descriptor(self.product.b), self._span))
        issue += [self._do(each) for each in self.instructions(a_start, b_start)]
        if own:
            return self._by_one(issue, lingers=True)
        done = tirx.decl_buffer((1,), "uint64", f"{self.c.name}_done", scope=regions.SHARED[0])
        parity = tirx.decl_buffer((1,), "int32", f"{self.c.name}_parity", scope=regions.VAR)
        at = tirx.address_of(tirx.BufferLoad(done, [int32(0)]))
        phase_of = tirx.BufferLoad(parity, [int32(0)])
        issue.append(self._do(tcgen05_commit(at)))
        wait = [
            self._do(mbarrier_wait(at, phase_of)),
            S.BufferStore(parity, int32(1) - phase_of, [int32(0)]),
            self._do(tcgen05_fence("after")),
        ]
        body = visit.sequence([self._by_one(issue), foreign(visit.sequence(wait, self._span))], self._span)
        return S.AttrStmt(done, COMPLETION, phase_of, body, self._span)

    def _by_one(self, issue: list[S.Stmt], *, lingers: bool = False) -> S.Stmt:
        """The instructions by the first thread, behind what the others wrote to the operands."""
        first = S.IfThenElse(is_issuer(self._scope.thread), visit.sequence(issue, self._span), None, self._span)
        before: list[S.Stmt] = []
        if not all(buffer in self._scope.asynchronous for buffer in self.product.tiles):
            before = [self._do(fence_async()), barrier(self._span)]
        return visit.sequence([*before, phase(first, lingers=lingers)], self._span)

    def instructions(self, a_start: ir.Var, b_start: ir.Var) -> Iterator[ir.Expr]:
        """Those of the thread that issues, from descriptors of the operands' beginnings on."""
        product, wide, depth = self.product, self.product.instruction.n, self.product.instruction.k
        for row in range(0, self.m, product.instruction.m):
            for column in range(0, self.n, wide):
                d = address(self.c, row // LANES * self.n + column)
                for at in range(0, self.k, depth):
                    keep = self.keep() if at == 0 else int32(1)
                    b = descriptor_advance(b_start, product.b.advance(column, at))
                    b_trans = not product.b.depth_is_contiguous
                    if product.a is None:
                        bits = product.instruction.operand_bits
                        a = address(product.call.region("a").source, (row // LANES * self.k + at) * bits // WORD_BITS)
                        yield tcgen05_mma_ts(d, a, b, keep, instruction=product.instruction, b_trans=b_trans)
                        continue
                    a_trans, a = (
                        not product.a.depth_is_contiguous,
                        descriptor_advance(a_start, product.a.advance(row, at)),
                    )
                    yield tcgen05_mma(d, a, b, keep, instruction=product.instruction, a_trans=a_trans, b_trans=b_trans)

    def keep(self) -> ir.Expr:
        """1 to add to what C holds, 0 to begin at zero."""
        clear = self.product.call.args["clear_accum"]
        fixed = regions.constant(clear)
        return E.Select(clear, int32(0), int32(1)) if fixed is None else int32(int(not fixed))

    def _do(self, call: ir.Expr) -> S.Stmt:
        return S.Evaluate(call, self._span)


def descriptor(operand: SharedMatrix) -> ir.Expr:
    """The descriptor of a shared operand, from its first element on."""
    index = [axis.min for axis in operand.region.region]
    return reading(
        tcgen05_descriptor(
            tirx.address_of(tirx.BufferLoad(operand.buffer, index)),
            leading_bytes=operand.order.strip_bytes,
            stride_bytes=DESCRIPTOR_ROWS * operand.order.span,
            swizzle=operand.order.span,
        )
    )
