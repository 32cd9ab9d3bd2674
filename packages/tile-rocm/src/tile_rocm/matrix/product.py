"""Products by waves: which instruction computes a `tile.gemm`, and how the threads hold its tiles.

Waves are dealt to the rows and columns of C; waves that are left repeat the work of others. Where a lane holds
neighbouring rows of an instruction's D, the operands change places: D is then C transposed, a lane holds neighbouring
columns of a row, which it moves in vectors, and what it holds of C is what it must hold of an A, so that one product's
result is the next one's operand. (RDNA 3 deals the rows of D singly to the halves of a wave: there D is C.)

Of K only its order within both operands must agree. A lane holds runs along K, as long as a vector from shared memory
where the tiles allow it, several instructions' elements at once. An operand whose rows are not along K is read in
vectors all the same: a lane takes neighbouring rows (columns, for B) for several instructions, so that those of an
instruction are `spread` apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.dtypes import as_dtype
from tile_core.ir import regions
from tile_core.layouts.digits import AxisDigits, Digit
from tile_core.layouts.registers import COLUMNS, ROWS, axis_digits
from tile_core.layouts.swizzle import UNIT_BYTES, SwizzledTile
from tile_core.ops.base import OpCall
from tile_core.ops.gemm import packed, sizes, transposed
from tile_core.passes.allow_rounding import TF32
from tile_core.passes.matrix import Held
from tile_core.passes.matrix_operands import SharedMatrix, shared_matrix
from tile_core.passes.matrix_products import Refusal, shares
from tile_core.passes.thread_scope import ThreadScope
from tile_rocm.instructions.shapes import MatrixInstruction
from tile_rocm.matrix.issue import WaveIssue

WIDE = 64
"""Rows and columns of a wave's share from which on an instruction of 32 × 32 is taken: half as many instructions."""
SWIZZLED_ROWS = 8
"""Rows after which the order of a swizzled tile repeats."""
LANES_OF_A_VECTOR = 4
"""Elements of C, of 32 bits, that are moved at once."""
_RUN, _RUN_REST, _D, _D_REST, _REPEATS, _SPREAD_ROWS, _REPEATS_ROWS = range(7)
"""The order of the register digits of a tile: those of columns, then those of rows."""


@dataclass(frozen=True)
class WaveProduct:
    """One `tile.gemm` by `instruction`; `down` × `across` waves share C. An operand that is a fragment is `None`.

    `run`: neighbours along K in a lane; `spread_a` and `spread_b`: neighbouring rows of A and columns of B that a lane
    reads at once for as many instructions.
    """

    call: OpCall
    instruction: MatrixInstruction
    down: int
    across: int
    a: SharedMatrix | None
    b: SharedMatrix | None
    run: int
    spread_a: int = 1
    spread_b: int = 1

    @property
    def name(self) -> str:
        """What runs, for the report."""
        flushed = ", subnormal operands count as zeros" if self.instruction.flushes else ""
        return f"{self.instruction.family.removesuffix('_gfx12')} {self.instruction.name}{flushed}"

    @property
    def is_turned(self) -> bool:
        """Whether D is C transposed."""
        return self.instruction.run > 1

    @property
    def rows(self) -> AxisDigits:
        """How the rows of C are dealt."""
        m, _n, _k = sizes(self.call)
        own = axis_digits(self.instruction.d_layout, COLUMNS if self.is_turned else ROWS, rank=_D)
        spread = Digit(self.spread_a, rank=_SPREAD_ROWS)
        waves = Digit(self.down, stride=self.instruction.wave)
        return _digits(spread, *own, waves, rank=_REPEATS_ROWS, extent=m)

    @property
    def columns(self) -> AxisDigits:
        """How the columns of C are dealt."""
        _m, n, _k = sizes(self.call)
        own = axis_digits(self.instruction.d_layout, ROWS if self.is_turned else COLUMNS, rank=_D)
        waves = Digit(self.across, stride=self.instruction.wave * self.down)
        return _columns([*_vector(self.spread_b), *own], waves, extent=n)

    @property
    def held(self) -> tuple[Held, ...]:
        """C, and the operands that are fragments."""
        _m, _n, k = sizes(self.call)
        found = [Held(self.call.region("c").source, self.rows, self.columns)]
        lanes = self.instruction.m
        parts = Digit(self.instruction.groups, stride=lanes)
        if self.a is None:
            depth = _columns([*_vector(self.run), parts], None, extent=k)
            rows = self.rows if self.is_turned else self._outer("a", _REPEATS_ROWS)
            found.append(Held(self.call.region("a").source, rows, depth, shares_rows=self.is_turned))
        if self.b is None:
            found.append(self._held_b(parts, k))
        return tuple(found)

    def _held_b(self, parts: Digit, k: int) -> Held:
        buffer = self.call.region("b").source
        if transposed(self.call, "b"):
            depth = _columns([*_vector(self.run), parts], None, extent=k)
            return Held(buffer, self._outer("b", _REPEATS_ROWS), depth, shares_rows=False)
        depth = _digits(Digit(self.run, rank=_RUN), parts, rank=_D, extent=k)
        return Held(buffer, depth, self._outer("b", _REPEATS_ROWS), shares_rows=False)

    def _outer(self, side: str, rank: int) -> AxisDigits:
        """How the rows of A, or the columns of B, are dealt as an operand."""
        m, n, _k = sizes(self.call)
        wave, lanes = self.instruction.wave, Digit(self.instruction.m, stride=1)
        if side == "a":
            return _digits(lanes, Digit(self.down, stride=wave), rank=rank, extent=m)
        waves = Digit(self.across, stride=wave * self.down)
        repeats = n // (self.instruction.n * self.across)
        return tuple(digit for digit in (lanes, Digit(repeats, rank=rank), waves) if digit.count > 1)

    @property
    def tiles(self) -> Mapping[ir.Var, SwizzledTile]:
        """The shared operands that are swizzled."""
        operands = [operand for operand in (self.a, self.b) if operand is not None]
        return {operand.buffer: operand.tile for operand in operands if operand.tile is not None}

    def emit(self, scope: ThreadScope) -> S.Stmt:
        """Load operands and multiply, step by step along K."""
        return WaveIssue(self, scope).result()


def wave_product(call: OpCall, threads: int, wave: int, listed: Sequence[MatrixInstruction]) -> WaveProduct | Refusal:
    """The product by the instruction that suits it best, or why none makes it."""
    narrow = next((side for side in "ab" if packed(call, side) is not None), None)
    dtypes = tuple(str(call.region(side).source.dtype) for side in "ab")
    c_dtype = as_dtype(str(call.region("c").source.dtype))
    total = c_dtype.name if c_dtype.is_integer else "float64" if c_dtype.bits == 64 else "float32"
    fitting = [one for one in listed if (one.a, one.b) == dtypes and one.d == total and narrow is None]
    if call.attrs.get(TF32) and dtypes == ("float32", "float32"):
        fitting = [one for one in listed if one.a == "tfloat32" and one.d == total] or fitting
    if not fitting:
        return Refusal(f"there is no instruction for {' and '.join(dtypes)} into {total}")
    if threads % wave:
        return Refusal(f"{threads} threads are not whole waves of {wave}")
    if regions.scope(call.region("c").source) != regions.FRAGMENT:
        return Refusal("C is not a fragment")
    found = [_fitted(call, one, threads // wave) for one in fitting]
    products = [one for one in found if isinstance(one, WaveProduct)]
    if not products:
        return next(one for one in found if isinstance(one, Refusal))
    return max(products, key=_preference)


def _preference(product: WaveProduct) -> tuple[bool, int, int]:
    """32 × 32 for large shares whose rows are along K; then what takes most of K at once.

    Where they are not, more pieces mean wider vectors.
    """
    m, n, _k = sizes(product.call)
    along = all(operand is None or operand.depth_is_contiguous for operand in (product.a, product.b))
    is_wide = along and min(m // product.down, n // product.across) >= WIDE
    one = product.instruction
    return (one.m == 32) == is_wide, product.down * product.across, one.k


def _fitted(call: OpCall, instruction: MatrixInstruction, waves: int) -> WaveProduct | Refusal:
    m, n, k = sizes(call)
    split = _split(m, n, instruction, waves, int(call.attrs.get("policy", 0)))
    if split is None or k % instruction.k or not k:
        unit = f"{instruction.m} × {instruction.n} × {instruction.k}"
        return Refusal(f"the tile {m} × {n} × {k} is not made of pieces of {unit}")
    a, b = _operand(call, "a"), _operand(call, "b")
    for side, operand in (("A", a), ("B", b)):
        if isinstance(operand, Refusal):
            return Refusal(f"{side} {operand.why}")
    if a is None and transposed(call, "a"):
        return Refusal("A is a fragment that is stored transposed")
    assert not isinstance(a, Refusal) and not isinstance(b, Refusal)
    down, across = split
    run = _run(instruction, a, b, k)
    spread_a = _spread(a, m // (instruction.m * down))
    spread_b = _spread(b, n // (instruction.n * across))
    return WaveProduct(call, instruction, down, across, a, b, run, spread_a, spread_b)


def _split(m: int, n: int, instruction: MatrixInstruction, waves: int, policy: int) -> tuple[int, int] | None:
    """Waves along M and N: as many as can share C, which divide all of them."""
    for several in range(waves, 0, -1):
        if waves % several == 0 and (found := shares(m, n, instruction.m, instruction.n, several, policy)):
            return found
    return None


def _operand(call: OpCall, side: str) -> SharedMatrix | Refusal | None:
    """An operand in shared memory; `None` for a fragment."""
    region = call.region(side)
    if regions.scope(region.source) == regions.FRAGMENT:
        return None
    found = shared_matrix(SharedMatrix, region, depth_is_last=transposed(call, side) == (side == "b"))
    return found if found is not None else Refusal("has elements that are not whole bytes")


def _run(instruction: MatrixInstruction, a: SharedMatrix | None, b: SharedMatrix | None, k: int) -> int:
    """Neighbours along K: as many as results have where an operand is a fragment, else whole vectors.

    Runs of eight rows lie in the same banks of a swizzled tile, so that lanes of different runs that read neighbours
    along a row meet no others.
    """
    positions = k // instruction.groups
    if a is None or b is None:
        wanted = [instruction.run if instruction.run > 1 else instruction.packed]
    else:
        vector = UNIT_BYTES // (as_dtype(instruction.a).bits // 8)
        wanted = [max(vector, SWIZZLED_ROWS), vector]
    return next((run for run in (*wanted, instruction.packed) if positions % run == 0), 1)


def _spread(operand: SharedMatrix | None, repeats: int) -> int:
    """Neighbours along the other axis that a lane reads at once; 1 where rows are along K."""
    if operand is None or operand.depth_is_contiguous:
        return 1
    widest = UNIT_BYTES // operand.itemsize
    return next(size for size in (16, 8, 4, 2, 1) if size <= widest and repeats % size == 0 and operand.has_runs(size))


def _vector(count: int) -> tuple[Digit, ...]:
    """A run of registers, of which as many as a vector has are moved at once."""
    lanes = min(count, LANES_OF_A_VECTOR)
    digits = Digit(lanes, rank=_RUN, lane=True), Digit(count // lanes, rank=_RUN_REST)
    return tuple(digit for digit in digits if digit.count > 1)


def _columns(digits: list[Digit], waves: Digit | None, *, extent: int) -> AxisDigits:
    """Columns dealt by `digits`, repeated over `extent`, then to waves; the first registers are a vector."""
    own = [digit for digit in digits if digit.count > 1]
    if own and own[0].is_step:
        own[:1] = _vector(own[0].count)
    several = 1 if waves is None else waves.count
    repeats = extent // (prod(digit.count for digit in own) * several)
    own.append(Digit(repeats, rank=_REPEATS))
    return _merged([*own, *([waves] if waves is not None else [])])


def _digits(*digits: Digit, rank: int, extent: int) -> AxisDigits:
    """Rows dealt by `digits`, repeated over `extent`."""
    own = [digit for digit in digits if digit.count > 1]
    repeats = extent // prod(digit.count for digit in own)
    return tuple(digit for digit in (*own, Digit(repeats, rank=rank)) if digit.count > 1)


def _merged(digits: Sequence[Digit]) -> AxisDigits:
    """Neighbouring register digits of columns as one: they follow each other in the registers, too."""
    found: list[Digit] = []
    for digit in digits:
        if digit.count == 1:
            continue
        if found and digit.is_step and found[-1].is_step:
            found[-1] = Digit(found[-1].count * digit.count, rank=digit.rank)
        else:
            found.append(digit)
    return tuple(found)
