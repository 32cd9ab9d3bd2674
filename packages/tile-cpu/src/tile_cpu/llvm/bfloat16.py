"""Rounding float32 to bfloat16 by the instruction for it."""

from __future__ import annotations

from tile_cpu.llvm.functions import Function

GIVEN, BITS, ROUNDED = "float32x16", "uint16x16", "bfloat16x16"
"""The vectors that the instruction takes and gives, as bits and as what they stand for."""

_DECLARATION = "declare <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float>)"
_TEXT = """define <16 x i16> @tile_round_factors(<16 x float> %x) {
  %rounded = call <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float> %x)
  %bits = bitcast <16 x bfloat> %rounded to <16 x i16>
  ret <16 x i16> %bits
}"""


def round_factors() -> Function:
    """`VCVTNEPS2BF16` (Intel SDM vol. 2): the bits of the bfloat16 nearest to each of 16 float32.

    Ties go to even, NaN stays NaN; a subnormal number is taken for a zero of its sign, as it is by products.
    """
    return Function("tile_round_factors", _TEXT, (_DECLARATION,))
