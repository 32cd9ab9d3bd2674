"""Block-scaled products in tensor memory: runs of K share a factor, which lies in tensor memory, too (sm_100).

A factor is one byte, and four of a row are a word: row r of A, or column r of B, has its words in lane r mod 32, column
r / 32, repeated in each quarter of the lanes, as `tcgen05_copy_words` puts them there. An instruction takes one byte of
a word (`mxf8f6f4`), two or four neighbouring ones; which is the first its descriptor says. Floats of 6 and 4 bits lie
16 in 16 bytes, packed from the first bit on; those of `mxf4` and `mxf4nvf4` two in a byte. PTX ISA, "tcgen05.mma",
"Block Scaling", "Scale Factor A/B Layout", and "tcgen05.cp".
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir

from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer
from tile_cuda.instructions.shapes import NARROW_FORMATS

ROWS = 128
MOST_COLUMNS, COLUMN_STEP = 256, 16
CHUNK_WORDS, CHUNK_COLUMNS = 128, 4
"""Words of the factors of 128 rows, and the columns that they take."""
FACTORS_IN_A_WORD = 4


@dataclass(frozen=True)
class ScaledKind:
    """A kind of products: its k, how many factors a row of a step has, and formats of operands by their number."""

    name: str
    k: int
    factors: int
    scale: str
    formats: tuple[tuple[str, int], ...]

    @property
    def block(self) -> int:
        """Elements along K that share a factor."""
        return self.k // self.factors

    def format_of(self, dtype: str) -> int | None:
        """The number of an operand's format; `None` for another dtype."""
        return dict(self.formats).get(dtype)


MXF8F6F4 = ScaledKind("mxf8f6f4", 32, 1, "float8_e8m0fnu", NARROW_FORMATS)
MXF4 = ScaledKind("mxf4", 64, 2, "float8_e8m0fnu", (("float4_e2m1fn", 1),))
MXF4NVF4 = ScaledKind("mxf4nvf4", 64, 4, "float8_e4m3fn", (("float4_e2m1fn", 1),))
KINDS = {kind.name: kind for kind in (MXF8F6F4, MXF4, MXF4NVF4)}
_E8M0 = 1 << 23
_SF_A, _SF_B = 29, 4


def scaled_descriptor(kind: ScaledKind, n: int, a: str, b: str, *, a_trans: bool = False, b_trans: bool = False) -> int:
    """The 32 bits of an instruction on operands of dtypes `a` and `b` that takes the first factors of a word.

    Raises:
        ValueError: there is no such instruction.

    >>> hex(scaled_descriptor(MXF8F6F4, 128, "float8_e4m3fn", "float8_e5m2"))
    '0x8a00400'
    """
    formats = kind.format_of(a), kind.format_of(b)
    if None in formats or not 0 < n <= MOST_COLUMNS or n % COLUMN_STEP:
        raise ValueError(f"tcgen05 of {kind.name} does not multiply {a} and {b} into {ROWS} × {n}")
    if (a_trans or b_trans) and not (a.startswith("float8") and b.startswith("float8")):
        raise ValueError("floats of less than 8 bits have k as the fast axis")
    fields = ((formats[0], 7), (formats[1], 10), (a_trans, 15), (b_trans, 16), (n >> 3, 17), (ROWS >> 4, 24))
    word = sum(int(value or 0) << position for value, position in fields)
    return word | (_E8M0 if kind.scale == "float8_e8m0fnu" else 0)


def factors_at(a: ir.Expr | int, b: ir.Expr | int) -> ir.Expr | int:
    """The bits of a descriptor that say which byte of a word is the first factor, of A and of B."""
    return a * (1 << _SF_A) + b * (1 << _SF_B)


def kind_of(dtype: str, descriptor: int) -> ScaledKind | None:
    """The kind of a descriptor for operands of `dtype`; `None` where it describes none."""
    if dtype == "float4_e2m1fn" and descriptor >> 7 & 7 == 1:
        kind = MXF4 if descriptor & _E8M0 else MXF4NVF4
    else:
        kind = MXF8F6F4
    names = {number: name for name, number in kind.formats}
    a, b = (names.get(descriptor >> position & 7) for position in (7, 10))
    if a is None or b is None:
        return None
    ids = descriptor & int(factors_at(3, 3))
    orders = {"a_trans": bool(descriptor >> 15 & 1), "b_trans": bool(descriptor >> 16 & 1)}
    signs = descriptor & (3 << 13)
    try:
        known = scaled_descriptor(kind, (descriptor >> 17 & 63) << 3, a, b, **orders)
    except ValueError:
        return None
    return kind if known | ids | signs == descriptor and _starts(kind, descriptor) else None


def _starts(kind: ScaledKind, descriptor: int) -> bool:
    """Whether the first factors are where an instruction's factors may begin."""
    ids = (descriptor >> _SF_A & 3, descriptor >> _SF_B & 3)
    return all(number % kind.factors == 0 for number in ids)


def _product(attributes: Attributes) -> Function:
    kind = KINDS[str(attributes["kind"])]
    name = f"tile_tcgen05_mma_{kind.name}"
    text = f"""
{INLINE} void {name}(unsigned d, unsigned long long a, unsigned long long b, unsigned descriptor, unsigned a_factors,
                     unsigned b_factors, int accumulate) {{
  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %6, 0;\\n"
               "tcgen05.mma.cta_group::1.kind::{kind.name}.block_scale.scale_vec::{kind.factors}X "
               "[%0], %1, %2, %3, [%4], [%5], p;\\n}}" ::
               "r"(d), "l"(a), "l"(b), "r"(descriptor), "r"(a_factors), "r"(b_factors), "r"(accumulate)
               : "memory");
}}
"""
    return Function(name, text)


def _host(attributes: Attributes) -> str:
    kind = KINDS[str(attributes["kind"])]
    return f"tile::tcgen05_mma_scaled<{kind.k}, {kind.factors}>"


MMA_SCALED = Instruction("cuda.tcgen05_mma_scaled", _product, _host, {})


def tcgen05_mma_scaled(
    d: ir.Expr,
    a: ir.Expr,
    b: ir.Expr,
    descriptor: ir.Expr,
    a_factors: ir.Expr,
    b_factors: ir.Expr,
    accumulate: ir.Expr,
    *,
    kind: ScaledKind,
) -> ir.Call:
    """One thread begins D = (A × factors) × (B × factors) (+ D where the int32 `accumulate` is not 0), in float32.

    `d`, `a_factors` and `b_factors` are addresses in tensor memory, `a` and `b` descriptors of shared operands, and
    `descriptor` that of the instruction, a uint32.
    """
    return MMA_SCALED((d, a, b, descriptor, a_factors, b_factors, accumulate), {"kind": kind.name})


_COPY = Function(
    "tile_tcgen05_copy_words",
    f"""
{INLINE} void tile_tcgen05_copy_words(unsigned to, unsigned long long from) {{
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(to), "l"(from) : "memory");
}}
""",
)
COPY_WORDS = Instruction("cuda.tcgen05_copy_words", lambda _given: _COPY, lambda _given: "tile::tcgen05_copy_words", {})
_TRANSPOSE = Function(
    "tile_tcgen05_transpose_words",
    f"""
{INLINE} void tile_tcgen05_transpose_words(void* chunk) {{
  unsigned* const words = static_cast<unsigned*>(chunk);
  unsigned lane, held[4];
  asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));
  for (unsigned i = 0; i < 4; ++i) held[i] = words[(i ^ lane >> 3) * 32 + lane];
  __syncwarp();
  for (unsigned i = 0; i < 4; ++i) words[lane * 4 + (i ^ lane >> 3)] = held[i];
  __syncwarp();
}}
""",
)
TRANSPOSE_WORDS = Instruction(
    "cuda.tcgen05_transpose_words",
    lambda _given: _TRANSPOSE,
    lambda _given: "tile::tcgen05_transpose_words",
    {0: Pointer(accounted=True)},
)


def tcgen05_copy_words(to: ir.Expr, source: ir.Expr) -> ir.Call:
    """One thread begins the copy of 32 × 16 bytes of shared memory to four columns of each quarter of the lanes.

    `source` is a descriptor without a swizzle; products of the same thread that are begun later see what it brings.
    """
    return COPY_WORDS((to, source))


def tcgen05_transpose_words(chunk: ir.Expr) -> ir.Call:
    """The 128 words at `chunk`, one a row, are ordered as `tcgen05_copy_words` wants them; by the lanes of a warp."""
    return TRANSPOSE_WORDS((chunk,))


ALL = (MMA_SCALED, COPY_WORDS, TRANSPOSE_WORDS)
