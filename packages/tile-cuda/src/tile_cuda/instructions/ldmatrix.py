"""Moves of 8 × 8 matrices of 16-bit elements between shared memory and the registers of a warp.

PTX ISA, "ldmatrix" (sm_75) and "stmatrix" (sm_90). Lane 8i + r gives the address of row r of matrix i, a multiple of 16
bytes; `shapes.matrix` says which elements a lane gets. From sm_100 on rows may be units of sixteen floats of four bits,
of which each becomes a byte on the way, and a lane gets four where it would get a pair of 16-bit elements.
"""

from __future__ import annotations

from tvm import ir

from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer, numbers

__all__ = ["LDMATRIX", "STMATRIX", "ldmatrix", "stmatrix"]

COUNTS = (1, 2, 4)
_ROW_BYTES = 16
_WORD_BYTES = 4


def _suffix(attributes: Attributes) -> str:
    units = "_b4x16" if int(attributes.get("units", 0)) else ""
    return f"x{int(attributes['count'])}{units}{'_trans' if int(attributes['trans']) else ''}"


def _modifiers(attributes: Attributes) -> str:
    if int(attributes.get("units", 0)):
        return f"m8n16.x{int(attributes['count'])}.shared.b8x16.b4x16_p64"
    return f"m8n8.x{int(attributes['count'])}{'.trans' if int(attributes['trans']) else ''}.shared.b16"


def _load(attributes: Attributes) -> Function:
    name, count = f"tile_ldmatrix_{_suffix(attributes)}", int(attributes["count"])
    outputs = ", ".join(f'"=r"(words[{at}])' for at in range(count))
    shift = f"\n  for (int at = 0; at < {count}; ++at) words[at] <<= 2;" if int(attributes.get("units", 0)) else ""
    text = f"""
{INLINE} void {name}(void* registers, const void* row) {{
  unsigned words[{count}];
  asm volatile("ldmatrix.sync.aligned.{_modifiers(attributes)} {{{numbers(0, count)}}}, [%{count}];"
               : {outputs}
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");{shift}
  memcpy(registers, words, sizeof(words));
}}
"""
    return Function(name, text)


def _store(attributes: Attributes) -> Function:
    name, count = f"tile_stmatrix_{_suffix(attributes)}", int(attributes["count"])
    inputs = ", ".join(f'"r"(words[{at}])' for at in range(count))
    text = f"""
{INLINE} void {name}(void* row, const void* registers) {{
  unsigned words[{count}];
  memcpy(words, registers, sizeof(words));
  asm volatile("stmatrix.sync.aligned.{_modifiers(attributes)} [%0], {{{numbers(1, count)}}};" ::
               "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))), {inputs}
               : "memory");
}}
"""
    return Function(name, text)


def _host(name: str) -> Instruction:
    is_load = name == "ldmatrix"
    registers, row = (0, 1) if is_load else (1, 0)

    def size(attributes: Attributes) -> int:
        return _WORD_BYTES * int(attributes["count"])

    def host(attributes: Attributes) -> str:
        if int(attributes.get("units", 0)):
            return f"tile::ldmatrix_units<{int(attributes['count'])}>"
        return f"tile::{name}<{int(attributes['count'])}, {'true' if int(attributes['trans']) else 'false'}>"

    def row_size(attributes: Attributes) -> int:
        return _ROW_BYTES // 2 if int(attributes.get("units", 0)) else _ROW_BYTES

    pointers = (
        {registers: Pointer(writes=size), row: Pointer(reads=row_size, lazy=True)}
        if is_load
        else {registers: Pointer(reads=size), row: Pointer(writes=row_size, lazy=True)}
    )
    return Instruction(f"cuda.{name}", _load if is_load else _store, host, pointers)


LDMATRIX = _host("ldmatrix")
STMATRIX = _host("stmatrix")


def ldmatrix(registers: ir.Expr, row: ir.Expr, *, count: int, trans: bool = False, units: bool = False) -> ir.Call:
    """Load `count` (1, 2 or 4) matrices: `2 * count` 16-bit elements at `registers` of each lane, from rows.

    With `units` rows are units of float4_e2m1fn, and a lane gets `4 * count` bytes, whose bits 2 to 5 are codes, as
    products take them; sm_100.

    Raises:
        ValueError: no instruction moves that many, or transposes units.
    """
    if units and trans:
        raise ValueError("rows of units are not transposed on the way")
    form = _form(count, trans)
    return LDMATRIX((registers, row), {**form, "units": 1} if units else form)


def stmatrix(row: ir.Expr, registers: ir.Expr, *, count: int, trans: bool = False) -> ir.Call:
    """Store `count` (1, 2 or 4) matrices from `registers` of each lane to rows in shared memory; sm_90.

    Raises:
        ValueError: no instruction moves that many.
    """
    return STMATRIX((row, registers), _form(count, trans))


def _form(count: int, trans: bool) -> dict[str, int]:
    if count not in COUNTS:
        raise ValueError(f"an instruction moves 1, 2 or 4 matrices, not {count}")
    return {"count": count, "trans": int(trans)}
