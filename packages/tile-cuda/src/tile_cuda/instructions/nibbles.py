"""Integers of four bits of whole words of bytes as integers of eight bits, a word of results at a time.

The four low (or high) halves of a word go to the low halves of its bytes. For signed ones `prmt` makes a byte of sign
bits of each, whose high half is joined to it: three instructions for four values. PTX ISA, "prmt", "lop3".
"""

from __future__ import annotations

from tvm import ir

from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer

__all__ = ["WIDEN", "widen_halves"]

WORD_BYTES = 4
_SIGNS = """
    asm("prmt.b32 %0, %1, %1, 0xba98;" : "=r"(signs) : "r"({low_up}));
    words[at] = ({low} & 0x0f0f0f0fu) | (signs & 0xf0f0f0f0u);"""


def _device(attributes: Attributes) -> Function:
    count, is_high, is_signed = (int(attributes[name]) for name in ("bytes", "high", "signed"))
    name = f"tile_widen_{'high' if is_high else 'low'}_{'s4' if is_signed else 'u4'}_x{count}"
    low, low_up = ("words[at] >> 4", "words[at]") if is_high else ("words[at]", "words[at] << 4")
    work = _SIGNS.format(low=low, low_up=low_up) if is_signed else f"\n    words[at] = ({low}) & 0x0f0f0f0fu;"
    signs = "\n    unsigned signs;" if is_signed else ""
    text = f"""
{INLINE} void {name}(void* values, const void* bytes) {{
  unsigned words[{count // WORD_BYTES}];
  memcpy(words, bytes, sizeof(words));
#pragma unroll
  for (int at = 0; at < {count // WORD_BYTES}; ++at) {{{signs}{work}
  }}
  memcpy(values, words, sizeof(words));
}}
"""
    return Function(name, text)


def _host(attributes: Attributes) -> str:
    count, is_high, is_signed = (int(attributes[name]) for name in ("bytes", "high", "signed"))
    return f"tile::widen_halves<{count}, {4 * is_high}, {str(bool(is_signed)).lower()}>"


def _size(attributes: Attributes) -> int:
    return int(attributes["bytes"])


WIDEN = Instruction("cuda.widen_halves", _device, _host, {0: Pointer(writes=_size), 1: Pointer(reads=_size)})


def widen_halves(values: ir.Expr, packed: ir.Expr, *, count: int, is_high: bool, is_signed: bool) -> ir.Call:
    """One half of each of `count` bytes at `packed`, as so many integers of eight bits at `values`.

    Raises:
        ValueError: the bytes are not whole words.
    """
    if count % WORD_BYTES or count < WORD_BYTES:
        raise ValueError(f"{count} bytes are not whole words")
    return WIDEN((values, packed), {"bytes": count, "high": int(is_high), "signed": int(is_signed)})
