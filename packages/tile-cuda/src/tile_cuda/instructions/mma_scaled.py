"""Block-scaled products of one warp, all operands in registers (sm_120). PTX ISA, "mma", "Block Scaling for mma.sync".

Registers lie as for `mma` of the same number of bits. A lane gives a word of four factors of A and one of B, of which
few lanes are looked at: of each four, lanes `2 * thread` and `2 * thread + 1` (`thread` 0 or 1) have the words of rows
r and r + 8, and lane `thread` (0 to 3) has that of column c. A step takes the byte `byte` of it, and those behind it
where runs of K within the step have factors of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import ir

from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer
from tile_cuda.instructions.block_scaled import FACTORS_IN_A_WORD, MXF4, MXF4NVF4, MXF8F6F4, ScaledKind
from tile_cuda.instructions.mma import HOST_TYPES
from tile_cuda.instructions.shapes import PTX_TYPES

ROWS, COLUMNS = 16, 8
WORDS = {"d": 4, "a": 4, "b": 2}
"""32-bit registers of a lane, for every kind."""
FIRST = 120
SCALES = {"float8_e8m0fnu": "ue8m0", "float8_e4m3fn": "ue4m3"}


@dataclass(frozen=True)
class ScaledMma:
    """One instruction: a kind with `factors` factors a row in each step, of a dtype, on operands of dtypes."""

    kind: ScaledKind
    factors: int
    scale: str
    a: str
    b: str

    @property
    def name(self) -> str:
        """Such as `m16n8k32_mxf8f6f4_1_e4m3_e5m2_ue8m0`."""
        types = f"{PTX_TYPES[self.a]}_{PTX_TYPES[self.b]}_{SCALES[self.scale]}"
        return f"m{ROWS}n{COLUMNS}k{self.kind.k}_{self.kind.name}_{self.factors}_{types}"


OF_BYTES = ("mxf8f6f4", 1, "float8_e8m0fnu")
"""The form of 8-bit operands, as `find` takes it."""
_FORMS = ((MXF8F6F4, 1, "float8_e8m0fnu"), (MXF4, 2, "float8_e8m0fnu"), (MXF4NVF4, 2, "float8_e8m0fnu"))
TABLE = tuple(
    ScaledMma(kind, factors, scale, a, b)
    for kind, factors, scale in (*_FORMS, (MXF4NVF4, 4, "float8_e4m3fn"))
    for a, _number in kind.formats
    for b, _number in kind.formats
)
"""Every instruction."""
_BY_NAME = {instruction.name: instruction for instruction in TABLE}


def find(kind: str, factors: int, scale: str, a: str, b: str) -> ScaledMma | None:
    """The instruction, if there is one.

    >>> find("mxf4nvf4", 4, "float8_e4m3fn", "float4_e2m1fn", "float4_e2m1fn").name
    'm16n8k64_mxf4nvf4_4_e2m1_e2m1_ue4m3'
    """
    wanted = (kind, factors, scale, a, b)
    return next((one for one in TABLE if (one.kind.name, one.factors, one.scale, one.a, one.b) == wanted), None)


def _selectors(attributes: Attributes) -> tuple[int, int, int, int]:
    byte_a, thread_a, byte_b, thread_b = (
        int(attributes[name]) for name in ("byte_a", "thread_a", "byte_b", "thread_b")
    )
    return byte_a, thread_a, byte_b, thread_b


def _device(attributes: Attributes) -> Function:
    one = _BY_NAME[str(attributes["form"])]
    byte_a, thread_a, byte_b, thread_b = _selectors(attributes)
    types = f"f32.{PTX_TYPES[one.a]}.{PTX_TYPES[one.b]}.f32.{SCALES[one.scale]}"
    mnemonic = (
        f"m{ROWS}n{COLUMNS}k{one.kind.k}.row.col.kind::{one.kind.name}.block_scale.scale_vec::{one.factors}X.{types}"
    )
    name = f"tile_mma_{one.name}_{byte_a}{thread_a}{byte_b}{thread_b}"
    text = f"""
{INLINE} void {name}(void* d, const void* a, const void* b, unsigned a_factors, unsigned b_factors) {{
  float z[4];
  unsigned x[4], y[2];
  memcpy(z, d, sizeof(z));
  memcpy(x, a, sizeof(x));
  memcpy(y, b, sizeof(y));
  asm volatile("mma.sync.aligned.{mnemonic} "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}}, "
               "%10, {{{byte_a}, {thread_a}}}, %11, {{{byte_b}, {thread_b}}};"
               : "+f"(z[0]), "+f"(z[1]), "+f"(z[2]), "+f"(z[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(a_factors), "r"(b_factors));
  memcpy(d, z, sizeof(z));
}}
"""
    return Function(name, text)


def _host(attributes: Attributes) -> str:
    one = _BY_NAME[str(attributes["form"])]
    a, b = ("E2M1Pair" if one.kind.k == MXF4.k else HOST_TYPES[PTX_TYPES[side]] for side in (one.a, one.b))
    is_power = "true" if one.scale == "float8_e8m0fnu" else "false"
    numbers = ", ".join(map(str, _selectors(attributes)))
    return f"tile::mma_scaled<{one.kind.k}, {one.factors}, tile::{a}, tile::{b}, {is_power}, {numbers}>"


def _bytes(side: str) -> Pointer:
    def size(_attributes: Attributes) -> int:
        return 4 * WORDS[side]

    return Pointer(reads=size, writes=size) if side == "d" else Pointer(reads=size)


MMA_SCALED = Instruction("cuda.mma_scaled", _device, _host, {0: _bytes("d"), 1: _bytes("a"), 2: _bytes("b")})


def mma_scaled(
    d: ir.Expr,
    a: ir.Expr,
    b: ir.Expr,
    a_factors: ir.Expr,
    b_factors: ir.Expr,
    *,
    instruction: ScaledMma,
    byte_a: int = 0,
    thread_a: int = 0,
    byte_b: int = 0,
    thread_b: int = 0,
) -> ir.Call:
    """D += (A × factors) × (B × factors): pointers to the lane's registers, and its two words of factors, uint32.

    Raises:
        ValueError: a byte or thread that the instruction does not look at.
    """
    first = range(0, FACTORS_IN_A_WORD, instruction.factors)
    if byte_a not in first or byte_b not in first or thread_a not in range(2) or thread_b not in range(4):
        raise ValueError(
            f"{instruction.name} takes factors from bytes {list(first)}, of threads 0 and 1 for A and 0 to 3 for B, "
            f"not from ({byte_a}, {thread_a}) and ({byte_b}, {thread_b})"
        )
    selectors = {"byte_a": byte_a, "thread_a": thread_a, "byte_b": byte_b, "thread_b": thread_b}
    return MMA_SCALED((d, a, b, a_factors, b_factors), {"form": instruction.name, **selectors})
