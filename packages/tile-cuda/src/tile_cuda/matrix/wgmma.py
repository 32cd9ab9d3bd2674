"""Products by warpgroups (`wgmma`): 128 threads multiply 64 rows at once, operands in shared memory, C in registers.

Warpgroups are dealt to the rows of C, then to its columns. The order of C's registers is PTX's ("Register fragments for
wgmma.mma_async"): lane and register digits of `rows` and `columns` below. A sixteen-bit C tile in that order is at the
same time A of a following product, register by register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.ir import regions, visit
from tile_core.layouts.digits import AxisDigits, Digit
from tile_core.ops.base import OpCall
from tile_core.ops.gemm import transposed
from tile_core.ops.products import IN_FLIGHT
from tile_core.passes.matrix import WAITED, Held
from tile_core.passes.thread_scope import ThreadScope, int32, phase
from tile_cuda.instructions.compiler_hints import hold, pin, uniform
from tile_cuda.instructions.descriptors import descriptor_advance
from tile_cuda.instructions.mbarrier import fence_async
from tile_cuda.instructions.shapes import find
from tile_cuda.instructions.wgmma import wgmma, wgmma_commit, wgmma_fence, wgmma_rs, wgmma_sp, wgmma_wait
from tile_cuda.matrix.operands import SharedMatrix, shared_matrix
from tile_cuda.matrix.places import places, places_refusal
from tile_cuda.matrix.product import (
    FULL_COLUMN,
    SPARSE,
    Product,
    Refusal,
    covered,
    operand_type,
    sizes,
    sums_in_float16,
)
from tile_cuda.matrix.warp import WARPGROUP

ROWS, COLUMNS, MOST_COLUMNS = 64, 8, 256
HELD = 2
"""Registers of a tile that keep what computes it above a wait."""
ACCUMULATORS = ("float32", "int32")
DEPTH_BYTES = 32
MOST_STEPS = 8
"""Instructions of one statement: compilers look at the registers of C once for all of them."""


@dataclass(frozen=True)
class WarpgroupProduct(Product):
    """One `tile.gemm` as warpgroup instructions; `down` × `across` warpgroups share C. B is in shared memory."""

    b: SharedMatrix

    def rows(self, m: int) -> AxisDigits:
        """See `_rows`."""
        return _rows(m, self.down)

    def columns(self, n: int, across: int) -> AxisDigits:
        """See `_columns`."""
        return _columns(n, self.down, across)

    @property
    def held(self) -> tuple[Held, ...]:
        """C, and A where it is a fragment: in the order of 32-bit registers of its own elements."""
        m, n, k = sizes(self.call)
        found = [Held(self.call.region("c").source, self.rows(m), self.columns(n, self.across))]
        if self.a is None:
            packed = max(1, 32 // self.instruction.operand_bits)
            pair = () if packed == 1 else (Digit(packed, rank=0, lane=True),)
            columns = (*pair, Digit(4, stride=1), Digit(k // (4 * packed), rank=2))
            found.append(Held(self.call.region("a").source, self.rows(m), columns))
        return tuple(found)

    def emit(self, scope: ThreadScope) -> S.Stmt:
        """Issue every instruction of the product, then wait for them."""
        return _Issue(self, scope).result()


def warpgroup_product(call: OpCall, threads: int) -> WarpgroupProduct | Refusal:
    """The product, or why no instruction makes it."""
    a_dtype, b_dtype = (operand_type(call, side) for side in "ab")
    types = str(call.region("c").source.dtype), a_dtype.name, b_dtype.name
    sparse = call.op.name == SPARSE
    depth = _depth(a_dtype, sparse=sparse)
    sums = types[0] in ACCUMULATORS or sums_in_float16(call)
    if find("wgmma", (ROWS, 8, depth), *types, sparse=sparse) is None or not sums:
        return Refusal(
            f"wgmma does not multiply {types[1]} and {types[2]} into {types[0]}; "
            + covered("wgmma", 90, ACCUMULATORS, sparse=sparse)
        )
    if threads % WARPGROUP:
        return Refusal(f"wgmma wants multiples of {WARPGROUP} threads, not {threads}")
    if regions.scope(call.region("c").source) != regions.FRAGMENT:
        return Refusal("wgmma wants C in a fragment")
    m, n, k = sizes(call)
    split = _split(m, n, threads // WARPGROUP, int(call.attrs.get("policy", 0)), depth, types, sparse=sparse)
    if split is None or k % depth or not k:
        return Refusal(_nearest((m, n, k), depth, threads // WARPGROUP))
    return _placed(call, split, types)


def _nearest(tile: tuple[int, int, int], depth: int, groups: int) -> str:
    """What the tile would have to be."""
    near = tuple(max(1, -(-size // unit)) * unit for size, unit in zip(tile, (ROWS, COLUMNS, depth), strict=True))
    if near != tile:
        sizes_of = [" × ".join(map(str, shape)) for shape in (tile, (ROWS, COLUMNS, depth), near)]
        return "wgmma: the tile {} is not made of multiples of {}; the nearest is {}".format(*sizes_of)
    shared = "a warpgroup cannot have" if groups == 1 else f"{groups} warpgroups cannot share"
    return f"wgmma: {shared} {tile[0]} × {tile[1]}: one has multiples of {ROWS} rows, at most {MOST_COLUMNS} columns"


def _placed(call: OpCall, split: tuple[int, int], types: tuple[str, str, str]) -> WarpgroupProduct | Refusal:
    """The product if its operands lie where the instruction reads them."""
    (down, across), (_m, n, _k), dtype = split, sizes(call), operand_type(call, "a")
    a_is_held, b_is_held = (regions.scope(call.region(side).source) == regions.FRAGMENT for side in "ab")
    if b_is_held:
        return Refusal("wgmma reads B from shared memory")
    b = shared_matrix(call.region("b"), depth_is_last=transposed(call, "b"))
    a = None if a_is_held else shared_matrix(call.region("a"), depth_is_last=not transposed(call, "a"))
    for side, operand in (("B", b), *([] if a_is_held else [("A", a)])):
        if operand is None or not operand.is_in_strips():
            return Refusal(f"wgmma reads {side} in strips of 32, 64 or 128 bytes and eight rows")
        if not _is_major(operand, dtype):
            return Refusal(f"wgmma reads {dtype} with K as the fast axis, which {side} has not")
    if a_is_held and transposed(call, "a"):
        return Refusal("wgmma wants an A in registers that is not transposed")
    if a is not None and not a.depth_is_contiguous and ROWS % a.order.strip:
        return Refusal("a strip of the transposed A is wider than the 64 rows of wgmma")
    assert b is not None
    sparse = call.op.name == SPARSE
    if sparse and (a is None or not a.depth_is_contiguous):
        return Refusal("wgmma reads a sparse A from shared memory, by rows")
    if across > 1 and not b.depth_is_contiguous and n // across % b.order.strip:
        return Refusal("a warpgroup's columns are no whole strips of B")
    instruction = find("wgmma", (ROWS, n // across, _depth(dtype, sparse=sparse)), *types, sparse=sparse)
    assert instruction is not None
    if sparse and (why := places_refusal(call, instruction)):
        return Refusal(why)
    return WarpgroupProduct(call, instruction, down, across, a, b)


def _depth(dtype: DType, *, sparse: bool) -> int:
    """The K of an instruction: 32 bytes of A, which are twice as many elements where it holds every other."""
    return DEPTH_BYTES * 8 // dtype.bits * (2 if sparse else 1)


def _is_major(operand: SharedMatrix, dtype: DType) -> bool:
    """Only 16-bit operands may be summed along their strided axis."""
    return operand.depth_is_contiguous or dtype.bits == 16


def _split(
    m: int, n: int, groups: int, policy: int, depth: int, types: tuple[str, str, str], *, sparse: bool
) -> tuple[int, int] | None:
    """Warpgroups along M and N: rows first, unless the policy says otherwise."""
    counts = [count for count in range(1, groups + 1) if groups % count == 0]
    order = counts if policy == FULL_COLUMN else counts[::-1]
    for down in order:
        across = groups // down
        fits = m and m % (ROWS * down) == 0 and n % across == 0
        if fits and find("wgmma", (ROWS, n // across, depth), *types, sparse=sparse) is not None:
            return down, across
    return None


def _rows(m: int, down: int) -> AxisDigits:
    """Rows of C: lane / 4, two registers, the warps of a warpgroup, the warpgroups, repetitions."""
    return (
        Digit(8, stride=4),
        Digit(2, rank=1),
        Digit(4, stride=32),
        Digit(down, stride=WARPGROUP),
        Digit(m // (ROWS * down), rank=3),
    )


def _columns(n: int, down: int, across: int) -> AxisDigits:
    """Columns of C: two registers, lane % 4, groups of eight columns, warpgroups."""
    return (
        Digit(2, rank=0, lane=True),
        Digit(4, stride=1),
        Digit(n // 8 // across, rank=2),
        Digit(across, stride=WARPGROUP * down),
    )


class _Issue:
    def __init__(self, product: WarpgroupProduct, scope: ThreadScope) -> None:
        self._product, self._scope, self._span = product, scope, product.call.span
        self._m, self._n, self._k = sizes(product.call)
        self._dtype = operand_type(product.call, "a")
        self._c = scope.registers[product.call.region("c").source].array
        self._accumulator = str(self._c.dtype)

    def result(self) -> S.Stmt:
        product = self._product
        a_start, b_start = tirx.Var("a_matrix", "uint64"), tirx.Var("b_matrix", "uint64")
        issue: list[S.Stmt] = []
        if product.a is not None:
            issue.append(S.Bind(a_start, product.a.descriptor(self._down() * ROWS), self._span))
        issue.append(S.Bind(b_start, product.b.descriptor(self._across() * (self._n // product.across)), self._span))
        repeats, steps = range(self._m // (ROWS * product.down)), range(self._k // self._depth)
        longest = 1 if product.instruction.sparse else MOST_STEPS
        runs = [(repeat, steps[at : at + longest]) for repeat in repeats for at in steps[::longest]]
        sparse = runs if product.instruction.sparse else []
        words = {(repeat, run[0]): tirx.Var("places", "uint32") for repeat, run in sparse}
        issue += [S.Bind(words[piece], self._places(*piece), self._span) for piece in words]
        issue.append(self._do(wgmma_fence()))
        for repeat, run in runs:
            word = words.get((repeat, run[0]))
            issue.append(self._do(self._instructions(a_start, b_start, repeat, run, word)))
        issue.append(self._do(wgmma_commit()))
        lingers = bool(product.call.attrs.get(IN_FLIGHT))
        if not lingers:
            issue.append(settled(product.call.region("c").source, 0, self._scope))
        return visit.sequence([*self._fence(), phase(visit.sequence(issue, self._span), lingers=lingers)], self._span)

    @property
    def _depth(self) -> int:
        return self._product.instruction.k

    def _places(self, repeat: int, step: int) -> ir.Expr:
        """A thread's word of metadata."""
        thread = tirx.floormod(self._scope.thread, int32(WARPGROUP))
        row = self._down() * ROWS + repeat * ROWS * self._product.down
        return places(self._product.instruction, self._product.call, thread, row, int32(step))

    def _down(self) -> ir.Expr:
        group = uniform(tirx.floordiv(self._scope.thread, int32(WARPGROUP)))
        return int32(0) if self._product.down == 1 else tirx.floormod(group, int32(self._product.down))

    def _across(self) -> ir.Expr:
        stride = WARPGROUP * self._product.down
        return int32(0) if self._product.across == 1 else uniform(tirx.floordiv(self._scope.thread, int32(stride)))

    def _fence(self) -> list[S.Stmt]:
        """What threads wrote to a tile becomes visible to the instructions, which read it another way."""
        if all(buffer in self._scope.asynchronous for buffer in self._product.tiles):
            return []
        return [self._do(fence_async())]

    def _instructions(
        self, a_start: ir.Var, b_start: ir.Var, repeat: int, steps: Sequence[int], word: ir.Var | None
    ) -> ir.Expr:
        """The products of some neighbouring steps, of which a sparse one is alone."""
        product, instruction = self._product, self._product.instruction
        c = self._address(self._c, repeat * 2 * (self._n // product.across // 8) * 2)
        first, *others = [(self._a_place(repeat, step), product.b.advance(0, step * self._depth)) for step in steps]
        run = [(a_at - first[0], b_at - first[1]) for a_at, b_at in others]
        b = descriptor_advance(b_start, first[1])
        keep = self._keep() if steps[0] == 0 else int32(1)
        b_trans = not product.b.depth_is_contiguous
        if product.a is None:
            array = self._scope.registers[product.call.region("a").source].array
            start = first[0] * 8 // int(array.dtype.bits)
            return wgmma_rs(c, self._address(array, start), b, keep, instruction=instruction, b_trans=b_trans, run=run)
        a_trans, a = not product.a.depth_is_contiguous, descriptor_advance(a_start, first[0])
        if word is not None:
            return wgmma_sp(c, a, b, keep, word, instruction=instruction, b_trans=b_trans)
        return wgmma(c, a, b, keep, instruction=instruction, a_trans=a_trans, b_trans=b_trans, run=run)

    def _a_place(self, repeat: int, step: int) -> int:
        """Bytes from the beginning of A, or of a thread's part of it, to the first that a product reads."""
        product = self._product
        if product.a is None:
            elements = repeat * (self._k // 2) + step * (self._depth // 2)
            return elements * self._dtype.bits // 8
        depth = step * self._depth
        row = repeat * ROWS * product.down
        return product.a.advance(row, depth // 2 if product.instruction.sparse else depth)

    def _keep(self) -> ir.Expr:
        """1 to add to what C holds, 0 to begin at zero."""
        clear = self._product.call.args["clear_accum"]
        fixed = regions.constant(clear)
        return E.Select(clear, int32(0), int32(1)) if fixed is None else int32(int(not fixed))

    def _address(self, array: ir.Var, register: int) -> ir.Expr:
        return tirx.address_of(tirx.BufferLoad(array, [int32(register)]))

    def _do(self, call: ir.Expr) -> S.Stmt:
        return S.Evaluate(call, self._span)


def settled(fragment: ir.Var, in_flight: int, scope: ThreadScope, span: ir.Span | None = None) -> S.Stmt:
    """Wait for all but the last `in_flight` products of this warpgroup; no register of `fragment` is read before.

    Where `in_flight` is `WAITED` that wait stands elsewhere.
    """
    held = scope.registers[fragment]
    first = tirx.address_of(tirx.BufferLoad(held.array, [int32(0)]))
    held_until_here = pin(first, count=held.placement.mapping.registers, dtype=str(held.array.dtype))
    wait = [] if in_flight == WAITED else [S.Evaluate(wgmma_wait(in_flight), span)]
    return visit.sequence([*wait, S.Evaluate(held_until_here, span)], span)


def held_in_place(fragment: ir.Var, scope: ThreadScope) -> S.Stmt:
    """Nothing that `fragment` needs sinks below this point, and no wait rises above it. For float32.

    One number of a row that was reduced depends on all of it; of a whole tile some are held, spread over it.
    """
    held = scope.registers[fragment]
    count = held.placement.mapping.registers
    places = [0] if count <= HELD else [(at + 1) * count // HELD - 1 for at in range(HELD)]
    return visit.sequence([S.Evaluate(hold(tirx.BufferLoad(held.array, [int32(place)]))) for place in places])
