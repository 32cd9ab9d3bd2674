"""Multiplying float32 by powers of two, as LLVM IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tile_cpu.llvm.functions import Function

_NARROWEST, _WIDEST = 4, 16
"""Lanes of the registers that the instruction takes."""

_CURRENT_ROUNDING = 4


def scale(lanes: int) -> Function:
    """`VSCALEFPS` (Intel SDM vol. 2): x * 2^floor(n), rounded once, whatever n is.

    Arguments: x and n, vectors of `lanes` float32, a power of two; with one lane, scalars.
    """
    symbol = f"tile_scale_float32x{lanes}"
    width = min(max(lanes, _NARROWEST), _WIDEST)
    return Function(symbol, "\n".join(_lines(symbol, lanes, width)), (_declaration(width),))


def _vector(lanes: int) -> str:
    return f"<{lanes} x float>"


def _intrinsic(width: int) -> str:
    return f"@llvm.x86.avx512.mask.scalef.ps.{32 * width}"


def _mask(width: int) -> str:
    return f"i{max(width, 8)}"


def _declaration(width: int) -> str:
    rounding = ", i32" if width == _WIDEST else ""
    return f"declare {_vector(width)} {_intrinsic(width)}({', '.join([_vector(width)] * 3)}, {_mask(width)}{rounding})"


def _lines(symbol: str, lanes: int, width: int) -> Iterator[str]:
    given = _vector(lanes) if lanes > 1 else "float"
    yield f"define {given} @{symbol}({given} %x, {given} %n) {{"
    if lanes == 1:
        for name in "xn":
            yield f"  %{name}0 = insertelement {_vector(width)} poison, float %{name}, i64 0"
        yield _call("%r0", "%x0", "%n0", width)
        yield f"  %r = extractelement {_vector(width)} %r0, i64 0"
    elif lanes == width:
        yield _call("%r", "%x", "%n", width)
    else:
        yield from _parts(lanes, width)
    yield f"  ret {given} %r"
    yield "}"


def _parts(lanes: int, width: int) -> Iterator[str]:
    """Vectors of another width than a register's, which is cut or filled up."""
    result = "poison"
    for part, first in enumerate(range(0, lanes, width)):
        for name in "xn":
            picked = _shuffle([first + at if first + at < lanes else None for at in range(width)])
            yield f"  %{name}{part} = shufflevector {_vector(lanes)} %{name}, {_vector(lanes)} poison, {picked}"
        yield _call(f"%r{part}", f"%x{part}", f"%n{part}", width)
        whole = _shuffle([at if at < width else None for at in range(lanes)])
        yield f"  %w{part} = shufflevector {_vector(width)} %r{part}, {_vector(width)} poison, {whole}"
        placed = [lanes + at - first if first <= at < first + width else at for at in range(lanes)]
        name = "%r" if first + width >= lanes else f"%v{part}"
        yield f"  {name} = shufflevector {_vector(lanes)} {result}, {_vector(lanes)} %w{part}, {_shuffle(placed)}"
        result = name


def _call(result: str, x: str, n: str, width: int) -> str:
    vector, rounding = _vector(width), f", i32 {_CURRENT_ROUNDING}" if width == _WIDEST else ""
    operands = f"{vector} {x}, {vector} {n}, {vector} zeroinitializer, {_mask(width)} -1{rounding}"
    return f"  {result} = call {vector} {_intrinsic(width)}({operands})"


def _shuffle(lanes: Sequence[int | None]) -> str:
    picked = ", ".join("i32 poison" if lane is None else f"i32 {lane}" for lane in lanes)
    return f"<{len(lanes)} x i32> <{picked}>"
