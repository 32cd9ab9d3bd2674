"""Products by warps (`mma`): a warp multiplies 16 (or 8) rows by 8 columns, all operands in registers.

Warps are dealt to the rows and columns of C. Of the instructions for the dtypes, the one with the largest k that
divides the tile is taken. Registers are in PTX's order ("Matrix fragments for mma.m16n8k16" and its relatives), but
that of K is free: the sum is the same in any order that both operands share. So a B that is a fragment gives each
thread whole runs, which is what it can be computed from in whole vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions
from tile_core.layouts.digits import AxisDigits, Digit
from tile_core.ops.base import OpCall
from tile_core.ops.build import widened
from tile_core.ops.gemm import transposed
from tile_core.ops.gemm_scaled import GEMM_SCALED
from tile_core.passes.matrix import Held
from tile_core.passes.matrix_products import Refusal, shares
from tile_core.passes.thread_scope import ThreadScope
from tile_cuda.instructions.mma_scaled import FIRST as SCALED_FROM
from tile_cuda.instructions.mma_scaled import OF_BYTES, find
from tile_cuda.instructions.shapes import MatrixInstruction, instructions
from tile_cuda.instructions.shapes import find as find_instruction
from tile_cuda.matrix.operands import SharedMatrix, shared_matrix
from tile_cuda.matrix.places import places_refusal
from tile_cuda.matrix.product import (
    SPARSE,
    Product,
    covered,
    operand_type,
    sizes,
    sums_in_float16,
)
from tile_cuda.matrix.warp import COLUMNS, QUAD, WARP
from tile_cuda.matrix.warp_issue import WarpIssue

BYTE = 8
RUN_BYTES = (32, 16)
"""Bytes of a run: two units of 16, so that the rows of a quad lie in other banks than the next ones, or one."""


@dataclass(frozen=True)
class WarpProduct(Product):
    """One `tile.gemm` as warp instructions; `down` × `across` warps share C.

    `run` is the number of elements along K that a thread holds in a row: those of a register, or more. Bytes that hold
    two values each are operands of the shape of `instruction`, which is the one of single bytes; `issued` is what runs.
    """

    run: int = 0
    issued: MatrixInstruction | None = None

    @property
    def name(self) -> str:
        """What runs, for the report."""
        issued = self.issued or self.instruction
        return f"{issued.family} {issued.name}"

    @property
    def packed(self) -> int:
        """Elements of a register of A and B."""
        return max(1, 32 // self.instruction.operand_bits)

    @property
    def groups(self) -> int:
        """Registers along K that the instruction takes at once: groups of `QUAD * packed` elements."""
        return self.instruction.k // (QUAD * self.packed)

    @property
    def held_groups(self) -> int:
        """The same of A, of which a sparse instruction holds half."""
        return self.groups // 2 if self.instruction.sparse else self.groups

    @property
    def total(self) -> str:
        """The dtype that is summed in; C may be another."""
        return self.instruction.d

    def rows(self, m: int) -> AxisDigits:
        """Rows of C: lane / 4, two registers, warps, repetitions."""
        halves = self.instruction.m // COLUMNS
        repeats = m // (self.instruction.m * self.down)
        return _without_ones(
            Digit(8, stride=QUAD), Digit(halves, rank=1), Digit(self.down, stride=WARP), Digit(repeats, rank=3)
        )

    def columns(self, n: int, across: int) -> AxisDigits:
        """Columns of C: two registers, lane % 4, repetitions, warps."""
        return (
            Digit(2, rank=0, lane=True),
            Digit(QUAD, stride=1),
            Digit(n // (COLUMNS * across), rank=2),
            Digit(across, stride=WARP * self.down),
        )

    @property
    def held(self) -> tuple[Held, ...]:
        """C, and the operands that are fragments."""
        m, n, k = sizes(self.call)
        found = [Held(self.call.region("c").source, self.rows(m), self.columns(n, self.across))]
        if self.a is None:
            found.append(Held(self.call.region("a").source, self.rows(m), self._depth(k, rank=2, is_last=True)))
        if self.b is None:
            columns = _without_ones(
                Digit(COLUMNS, stride=QUAD),
                Digit(n // (COLUMNS * self.across), rank=3),
                Digit(self.across, stride=WARP * self.down),
            )
            is_last = transposed(self.call, "b")
            depth = self._depth(k, rank=1, is_last=is_last)
            rows, last = (columns, depth) if is_last else (depth, columns)
            found.append(Held(self.call.region("b").source, rows, last, shares_rows=False))
        return tuple(found)

    def _depth(self, k: int, *, rank: int, is_last: bool) -> AxisDigits:
        """K of an operand in registers: a run, the lanes of a quad, repetitions."""
        run = () if self.run == 1 else (Digit(self.run, rank=0, lane=is_last),)
        return (*run, Digit(QUAD, stride=1), Digit(k // (QUAD * self.run), rank=rank))

    def emit(self, scope: ThreadScope) -> S.Stmt:
        """Load operands and multiply, step by step along K."""
        return WarpIssue(self, scope).result()


def warp_product(call: OpCall, threads: int, capability: int) -> WarpProduct | Refusal:
    """The product, or why no instruction makes it."""
    c_dtype, (a, b) = as_dtype(str(call.region("c").source.dtype)), (operand_type(call, side) for side in "ab")
    total = c_dtype if c_dtype.is_integer or sums_in_float16(call) else widened(a, b, c_dtype)
    sparse = call.op.name == SPARSE
    found = instructions(total.name, a.name, b.name, capability, "mma", sparse=sparse)
    if call.op is GEMM_SCALED and (why := _scaled_refusal(call, capability)):
        return Refusal(why)
    if not found:
        if a.name == "float32":
            return Refusal("float32 is summed exactly by scalar code; `tile.allow_tf32` lets operands be rounded")
        kind = "mma with a sparse A" if sparse else "mma"
        others = covered("mma", capability, sparse=sparse)
        return Refusal(f"sm_{capability} has no {kind} of {a} and {b} into {total}; {others}")
    if threads % WARP:
        return Refusal(f"{threads} threads are not whole warps")
    if regions.scope(call.region("c").source) != regions.FRAGMENT:
        return Refusal("C is not a fragment")
    reasons = []
    for instruction in found:
        product = _fitted(call, instruction, threads // WARP)
        if isinstance(product, WarpProduct):
            return product
        reasons.append(product)
    return reasons[-1]


def _of_bytes(instruction: MatrixInstruction) -> MatrixInstruction:
    """The instruction whose operands are the bytes of those of `instruction`: the same registers, half of K."""
    if instruction.operand_bits >= BYTE or instruction.sparse:
        return instruction
    shape = instruction.m, COLUMNS, instruction.k * instruction.operand_bits // BYTE
    found = find_instruction("mma", shape, instruction.d, "uint8", "uint8")
    assert found is not None
    return found


def _scaled_refusal(call: OpCall, capability: int) -> str:
    """Why no instruction takes factors of its operands; empty where one does."""
    a, b = (operand_type(call, side).name for side in "ab")
    if capability < SCALED_FROM or find(*OF_BYTES, a, b) is None or {as_dtype(a).bits, as_dtype(b).bits} != {8}:
        return f"sm_{capability} has no block-scaled mma of {a} and {b}; sm_120 has it for floats of 8 bits"
    if str(call.region("c").source.dtype) != "float32":
        return "block-scaled mma sums in float32"
    scopes = {regions.scope(call.region(side).source) for side in ("fa", "fb")}
    return "" if scopes <= set(regions.SHARED) else "block-scaled mma takes its factors from shared memory"


def shared_by_warps(call: OpCall, rows: int, threads: int) -> tuple[int, int] | None:
    """Warps along M and N that share C in pieces of `rows` × `COLUMNS`; `None` where they cannot."""
    m, n, _k = sizes(call)
    if threads % WARP or not threads:
        return None
    return shares(m, n, rows, COLUMNS, threads // WARP, int(call.attrs.get("policy", 0)))


def _fitted(call: OpCall, issued: MatrixInstruction, warps: int) -> WarpProduct | Refusal:
    (m, n, k), instruction = sizes(call), _of_bytes(issued)
    split = shared_by_warps(call, instruction.m, warps * WARP)
    if split is None or k % instruction.k or not k:
        return Refusal(_nearest(issued, m, n, k * (issued.k // instruction.k), warps))
    a, b = _operand(call, "a"), _operand(call, "b")
    for side, operand in (("A", a), ("B", b)):
        if isinstance(operand, Refusal):
            return Refusal(f"{side} {operand.why}")
    if instruction.sparse and (why := _sparse_refusal(call, instruction)):
        return Refusal(why)
    if a is None and transposed(call, "a"):
        return Refusal("A is a fragment that is stored transposed")
    assert not isinstance(a, Refusal) and not isinstance(b, Refusal)
    product = WarpProduct(call, instruction, *split, a, b, issued=issued)
    return replace(product, run=_run(product, k))


def _sparse_refusal(call: OpCall, instruction: MatrixInstruction) -> str:
    """Why the instruction cannot have its operands; empty where it can."""
    scopes = {side: regions.scope(call.region(side).source) for side in "aeb"}
    if regions.FRAGMENT in scopes.values():
        return "a sparse A, its places and B are in shared memory"
    return places_refusal(call, instruction)


def _run(product: WarpProduct, k: int) -> int:
    """Elements in a row along K: more than a register's where B is computed and A can follow."""
    a = product.a
    if product.b is not None or a is None or not a.depth_is_contiguous or not a.has_units:
        return product.packed
    runs = (size * 8 // product.instruction.operand_bits for size in RUN_BYTES)
    return next((run for run in runs if k % (QUAD * run) == 0), product.packed)


def _operand(call: OpCall, side: str) -> SharedMatrix | Refusal | None:
    """An operand in shared memory; `None` for a fragment."""
    region = call.region(side)
    if regions.scope(region.source) == regions.FRAGMENT:
        return None
    found = shared_matrix(region, depth_is_last=transposed(call, side) == (side == "b"))
    return found if found is not None else Refusal("has elements that are not whole bytes")


def _nearest(instruction: MatrixInstruction, m: int, n: int, k: int, warps: int) -> str:
    """What the tile would have to be."""
    unit = f"multiples of {instruction.m} × {COLUMNS} × {instruction.k}"
    near = [max(1, -(-size // step)) * step for size, step in ((m, instruction.m), (n, COLUMNS), (k, instruction.k))]
    if near != [m, n, k]:
        return f"the tile {m} × {n} × {k} is not made of {unit}; the nearest is {near[0]} × {near[1]} × {near[2]}"
    return f"{warps} warps cannot share {m} × {n} in pieces of {instruction.m} × {COLUMNS}"


def _without_ones(*digits: Digit) -> AxisDigits:
    """Digits with more than one value."""
    return tuple(digit for digit in digits if digit.count > 1)
