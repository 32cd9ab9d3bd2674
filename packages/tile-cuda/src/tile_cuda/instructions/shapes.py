"""Matrix instructions as data: shapes, dtypes, where they exist, and which lane's register holds which element.

Layouts are those of PTX ISA, "Matrix Fragments for mma" and "wgmma.mma_async: Register Fragments".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

from tile_core.layouts.registers import COLUMNS, ROWS, Digit, FragmentLayout

if TYPE_CHECKING:
    from tile_core.dtypes import DType

LANES = 32
WARPGROUP = 128

Family = Literal["mma", "wgmma", "tcgen05"]

PTX_TYPES = {
    "float64": "f64",
    "float32": "f32",
    "tfloat32": "tf32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3": "e4m3",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float6_e3m2fn": "e3m2",
    "float6_e2m3fn": "e2m3",
    "float4_e2m1fn": "e2m1",
    "int32": "s32",
    "int8": "s8",
    "uint8": "u8",
    "int4": "s4",
    "uint4": "u4",
}
"""dtype to PTX's name."""
BITS = {
    "f64": 64,
    "f32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "e3m2": 8,
    "e2m3": 8,
    "e2m1": 8,
    "s32": 32,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
}
"""PTX's name of a type to the bits that an element takes among operands: six and four bits of a float take a byte."""


NARROW_FORMATS = (
    ("float8_e4m3fn", 0),
    ("float8_e5m2", 1),
    ("float6_e2m3fn", 3),
    ("float6_e3m2fn", 4),
    ("float4_e2m1fn", 5),
)
"""The floats of 8, 6 and 4 bits that are mixed, and the numbers that descriptors give them."""
UNITS = frozenset({"float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"})
"""Of these, those which lie packed in units of 16 bytes in shared memory."""


def register_bits(dtype: DType) -> int:
    """The bits that an element of an operand takes; its own for a dtype that no instruction multiplies.

    >>> from tile_core.dtypes import DType
    >>> register_bits(DType("float6_e2m3fn")), register_bits(DType("int4"))
    (8, 4)
    """
    return BITS[PTX_TYPES[dtype.name]] if dtype.name in PTX_TYPES else dtype.bits


def _digits(*digits: tuple[int, int, int]) -> tuple[Digit, ...]:
    return tuple(Digit(*digit) for digit in digits if digit[0] > 1)


@functools.cache
def operand_a(m: int, k: int, packed: int, warps: int = 1) -> FragmentLayout:
    """A: `m` rows a warp, `k` columns, `packed` elements of a row in one 32-bit (float64: 64-bit) register."""
    lanes = _digits((4, COLUMNS, packed), (8, ROWS, 1), (warps, ROWS, m))
    registers = _digits((packed, COLUMNS, 1), (m // 8, ROWS, 8), (k // (4 * packed), COLUMNS, 4 * packed))
    return FragmentLayout(m * warps, k, lanes, registers)


@functools.cache
def operand_b(k: int, n: int, packed: int) -> FragmentLayout:
    """B: `k` rows, `n` = 8 columns, `packed` elements of a column in one register."""
    lanes = _digits((4, ROWS, packed), (8, COLUMNS, 1))
    registers = _digits((packed, ROWS, 1), (k // (4 * packed), ROWS, 4 * packed))
    return FragmentLayout(k, n, lanes, registers)


@functools.cache
def accumulator(m: int, n: int, warps: int = 1) -> FragmentLayout:
    """C and D: pairs of neighbouring columns, then rows 8 below, then blocks of 8 columns."""
    lanes = _digits((4, COLUMNS, 2), (8, ROWS, 1), (warps, ROWS, m))
    registers = _digits((2, COLUMNS, 1), (m // 8, ROWS, 8), (n // 8, COLUMNS, 8))
    return FragmentLayout(m * warps, n, lanes, registers)


@functools.cache
def rows_of_threads(m: int, n: int) -> FragmentLayout:
    """A row a thread: what a warpgroup holds of tensor memory, whose lanes are rows."""
    return FragmentLayout(m, n, _digits((m, ROWS, 1)), _digits((n, COLUMNS, 1)))


@functools.cache
def metadata(chunks: int, wide: bool, warps: int = 1) -> FragmentLayout:
    """Metadata of 16 rows a warp and `chunks` chunks, `wide` for types of 16 and 32 bits: as an H200 reads it."""
    quads = ((8, ROWS, 1), (warps, ROWS, 16))
    if wide:
        lanes = _digits((chunks // 4, COLUMNS, 4), *quads)
        return FragmentLayout(16 * warps, chunks, lanes, _digits((4, COLUMNS, 1), (2, ROWS, 8)))
    lanes = _digits((2, ROWS, 8), (chunks // 8, COLUMNS, 8), *quads)
    return FragmentLayout(16 * warps, chunks, lanes, _digits((8, COLUMNS, 1)))


@functools.cache
def matrix(trans: bool = False) -> FragmentLayout:
    """One 8 × 8 matrix of 16-bit elements as `ldmatrix` and `stmatrix` hold it: row, and pair of columns, of each lane.

    Register `2 * i + e` of an instruction on several matrices is register `e` of matrix `i`, whose row `r` is at the
    address that lane `8 * i + r` gives.
    """
    if trans:
        return FragmentLayout(8, 8, _digits((4, ROWS, 2), (8, COLUMNS, 1)), _digits((2, ROWS, 1)))
    return accumulator(8, 8)


@dataclass(frozen=True)
class MatrixInstruction:
    """D = A × B + D of one warp (`mma`), of four (`wgmma`), or in tensor memory (`tcgen05`): A is m × k, B is k × n.

    `d`, `a` and `b` are dtypes. `first` and `last` are the compute capabilities, as `80` for `sm_80`, between which it
    exists; `last` is 0 where it goes on. `b_layout` is `None` where B is in shared memory; A then is in registers (or
    tensor memory) as `a_layout` says or in shared memory. With `narrow`, floats of 8, 6 and 4 bits are mixed: one of 6
    bits lies in the low bits of its byte, one of 4 bits in bits 2 to 5 (PTX ISA, "mma", `.kind::f8f6f4`).

    With `sparse`, every chunk of a row of A has half of its elements. The k / 2 that are there lie one after another,
    and `metadata_layout` (m × chunks) says which four bits of which thread's word name their places (see `chunk`).
    """

    family: Family
    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    first: int
    last: int = 0
    narrow: bool = False
    sparse: bool = False

    @property
    def types(self) -> tuple[str, str, str]:
        """PTX's names of the types of D, A and B."""
        return PTX_TYPES[self.d], PTX_TYPES[self.a], PTX_TYPES[self.b]

    @property
    def name(self) -> str:
        """Shape and types, as in `m16n8k16_f32_f16_f16`."""
        return f"m{self.m}n{self.n}k{self.k}_{'_'.join(self.types)}{'_sp' * self.sparse}"

    @property
    def a_layout(self) -> FragmentLayout:
        """The registers of A."""
        if self.family == "tcgen05":
            return rows_of_threads(self.m, self.k)
        depth = self.k // 2 if self.sparse else self.k
        if self.family == "wgmma":
            return operand_a(16, depth, self._packed, WARPGROUP // LANES)
        return operand_a(self.m, depth, self._packed)

    @property
    def b_layout(self) -> FragmentLayout | None:
        """The registers of B; `None` where B is in shared memory."""
        return operand_b(self.k, self.n, self._packed) if self.family == "mma" else None

    @property
    def d_layout(self) -> FragmentLayout:
        """The registers of C and D; of `tcgen05` those into which its rows in tensor memory are loaded.

        Of 64 such rows each 16 lanes are the first of a warp.
        """
        if self.family == "tcgen05":
            return rows_of_threads(self.m, self.n)
        return accumulator(16, self.n, WARPGROUP // LANES) if self.family == "wgmma" else accumulator(self.m, self.n)

    @property
    def chunk(self) -> int:
        """Elements of a chunk of a sparse A: 4, of which two are named by two bits each, in order, the first low.

        tfloat32: 2, of which 0b0100 names the first and 0b1110 the second. Four bits: 8, of which two pairs are named.
        """
        return {32: 2, 16: 4, 8: 4, 4: 8}[BITS[PTX_TYPES[self.a]]]

    @property
    def metadata_layout(self) -> FragmentLayout:
        """Whose word has the four bits of a chunk: lanes are those that `metadata_lane` names, registers count by 4."""
        warps = WARPGROUP // LANES if self.family == "wgmma" else 1
        return metadata(self.k // self.chunk, BITS[PTX_TYPES[self.a]] >= 16, warps)

    def metadata_lane(self, lane: int, selector: int) -> int:
        """The thread that is lane `lane` of `metadata_layout`, for a selector of the instruction."""
        count = self.metadata_threads
        return lane // count * 4 + selector * count + lane % count

    @property
    def metadata_threads(self) -> int:
        """How many of four neighbouring threads give their words: selectors are below 4 divided by it."""
        return self.metadata_layout.lanes // (8 * (WARPGROUP // LANES if self.family == "wgmma" else 1))

    @property
    def operand_bits(self) -> int:
        """Bits of an element of A and B in registers."""
        return BITS[PTX_TYPES[self.a]]

    @property
    def _packed(self) -> int:
        return max(1, 32 // self.operand_bits)

    def exists_on(self, capability: int) -> bool:
        """Whether an architecture, as `90` for `sm_90`, has it."""
        return self.first <= capability <= (self.last or capability)


_E4M3, _E5M2 = "float8_e4m3fn", "float8_e5m2"


def _pairs(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((a, b) for a in names for b in names)


_BYTES, _NIBBLES, _FP8 = _pairs("int8", "uint8"), _pairs("int4", "uint4"), _pairs(_E4M3, _E5M2)
_NARROW = _pairs(*dict(NARROW_FORMATS))
_ALL_N = tuple(range(8, 257, 8))
# PTX ISA, "wgmma.mma_async: Shape": for integers 8, 24 and the multiples of 16.
_INTEGER_N = tuple(n for n in _ALL_N if n in (8, 24) or n % 16 == 0)


_F16, _BF16, _TF32, _F64 = ((name, name) for name in ("float16", "bfloat16", "tfloat32", "float64"))
# First capability, m, dtypes of D, of A and B, and k. PTX ISA, "mma", with its "Target ISA notes".
_MMA_KINDS: tuple[tuple[int, int, tuple[str, ...], tuple[tuple[str, str], ...], tuple[int, ...]], ...] = (
    (80, 16, ("float32", "float16"), (_F16,), (16,)),
    (75, 16, ("float32", "float16"), (_F16,), (8,)),
    (80, 16, ("float32",), (_BF16,), (16, 8)),
    (80, 16, ("float32",), (_TF32,), (8, 4)),
    (90, 16, ("float64",), (_F64,), (16, 8, 4)),
    (80, 8, ("float64",), (_F64,), (4,)),
    (80, 16, ("int32",), _BYTES, (32, 16)),
    (75, 8, ("int32",), _BYTES, (16,)),
    (80, 16, ("int32",), _NIBBLES, (64, 32)),
    (75, 8, ("int32",), _NIBBLES, (32,)),
    (89, 16, ("float32",), _FP8, (32,)),
    (120, 16, ("float32",), tuple(pair for pair in _NARROW if pair not in _FP8), (32,)),
    (120, 16, ("float16",), _NARROW, (32,)),
)
_FIRST_NARROW = 120
# The same for sparse A.
_SPARSE_KINDS: tuple[tuple[int, tuple[str, ...], tuple[tuple[str, str], ...], tuple[int, ...]], ...] = (
    (80, ("float32", "float16"), (_F16,), (32, 16)),
    (80, ("float32",), (_BF16,), (32, 16)),
    (80, ("float32",), (_TF32,), (16, 8)),
    (80, ("int32",), _BYTES, (64, 32)),
    (80, ("int32",), _NIBBLES, (128, 64)),
    (89, ("float32",), _FP8, (64,)),
)


def _mma() -> Iterator[MatrixInstruction]:
    for first, m, ds, pairs, ks in _MMA_KINDS:
        for (a, b), d, k in product(pairs, ds, ks):
            yield MatrixInstruction("mma", m, 8, k, d, a, b, first, narrow=first == _FIRST_NARROW)
    for first, ds, pairs, ks in _SPARSE_KINDS:
        for (a, b), d, k in product(pairs, ds, ks):
            yield MatrixInstruction("mma", 16, 8, k, d, a, b, first, sparse=True)


def _wgmma() -> Iterator[MatrixInstruction]:
    kinds = [
        ("float32", "float16", "float16", 16),
        ("float16", "float16", "float16", 16),
        ("float32", "bfloat16", "bfloat16", 16),
        ("float32", "tfloat32", "tfloat32", 8),
        *((d, a, b, 32) for d in ("float32", "float16") for a, b in _FP8),
        *(("int32", a, b, 32) for a, b in _BYTES),
    ]
    for d, a, b, k in kinds:
        for n in _INTEGER_N if d == "int32" else _ALL_N:
            yield MatrixInstruction("wgmma", 64, n, k, d, a, b, 90, 90)
            yield MatrixInstruction("wgmma", 64, n, 2 * k, d, a, b, 90, 90, sparse=True)


def _tcgen05() -> Iterator[MatrixInstruction]:
    """Rows are the lanes of tensor memory: all 128, or of each warp's 32 the first 16.

    PTX ISA, "tcgen05.mma", "Data Path Layout Organization"; of one CTA, without sparsity and scales.
    """
    kinds = [
        ("float32", *_F16, 16),
        ("float32", *_BF16, 16),
        ("float32", *_TF32, 8),
        *(("float32", a, b, 32) for a, b in _NARROW),
        *(("int32", a, b, 32) for a, b in _BYTES),
    ]
    for d, a, b, k in kinds:
        for m, n in product((128, 64), range(16, 257, 16)):
            yield MatrixInstruction("tcgen05", m, n, k, d, a, b, 100, 100 if d == "int32" else 110)


TABLE: tuple[MatrixInstruction, ...] = (*_mma(), *_wgmma(), *_tcgen05())
"""Every matrix instruction, for each triple of dtypes the largest k first."""


@functools.cache
def _by_key() -> dict[tuple[object, ...], MatrixInstruction]:
    return {(i.family, i.m, i.n, i.k, *i.types, i.sparse): i for i in TABLE}


def find(
    family: Family, shape: tuple[int, int, int], d: str, a: str, b: str, *, sparse: bool = False
) -> MatrixInstruction | None:
    """The instruction of a shape (m, n, k) and dtypes, `None` where there is none.

    >>> found = find("mma", (16, 8, 16), "float32", "bfloat16", "bfloat16")
    >>> found.name, found.first, found.a_layout.registers
    ('m16n8k16_f32_bf16_bf16', 80, 8)
    """
    if not {d, a, b} <= PTX_TYPES.keys():
        return None
    return _by_key().get((family, *shape, PTX_TYPES[d], PTX_TYPES[a], PTX_TYPES[b], sparse))


def instructions(
    d: str, a: str, b: str, capability: int, family: Family | None = None, *, sparse: bool = False
) -> tuple[MatrixInstruction, ...]:
    """The instructions for D, A and B of these dtypes on an architecture (`90` for `sm_90`), the largest k first.

    >>> [i.name for i in instructions("float32", "float16", "float16", 75)]
    ['m16n8k8_f32_f16_f16']
    """
    if not {d, a, b} <= PTX_TYPES.keys():
        return ()
    types = (PTX_TYPES[d], PTX_TYPES[a], PTX_TYPES[b])
    fitting = (i for i in TABLE if i.types == types and i.sparse == sparse and i.exists_on(capability))
    return tuple(i for i in fitting if family in (None, i.family))
