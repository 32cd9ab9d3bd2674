"""Powers of two in float32, as LLVM IR: multiplying by one, and what an exponent leaves beside a whole number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tile_cpu.llvm.functions import Function

_NARROWEST, _WIDEST = 4, 16
"""Lanes of the registers that the instructions take."""

_CURRENT_ROUNDING = 4
_NEAREST = 8
"""The immediate operand of `VREDUCEPS`: no bits behind the point, to the nearest, no exceptions."""


@dataclass(frozen=True)
class _Instruction:
    """An instruction of float32 vectors: LLVM's name, its operands, and the immediate one behind them."""

    name: str
    operands: str
    immediate: int | None = None

    def intrinsic(self, width: int) -> str:
        return f"@llvm.x86.avx512.mask.{self.name}.ps.{32 * width}"

    def declaration(self, width: int) -> str:
        types = [_vector(width)] * len(self.operands)
        types += [] if self.immediate is None else ["i32"]
        types += [_vector(width), _mask(width), *_rounding(width, "")]
        return f"declare {_vector(width)} {self.intrinsic(width)}({', '.join(types)})"

    def call(self, result: str, part: str, width: int) -> str:
        """The call with the operands' vectors of number `part`."""
        vector = _vector(width)
        values = [f"{vector} %{operand}{part}" for operand in self.operands]
        values += [] if self.immediate is None else [f"i32 {self.immediate}"]
        values += [f"{vector} zeroinitializer", f"{_mask(width)} -1", *_rounding(width, f" {_CURRENT_ROUNDING}")]
        return f"  {result} = call {vector} {self.intrinsic(width)}({', '.join(values)})"

    def function(self, symbol: str, lanes: int) -> Function:
        """The instruction for vectors of `lanes` float32, a power of two; with one lane, scalars."""
        width = min(max(lanes, _NARROWEST), _WIDEST)
        named = f"{symbol}_float32x{lanes}"
        return Function(named, "\n".join(self._lines(named, lanes, width)), (self.declaration(width),))

    def _lines(self, symbol: str, lanes: int, width: int) -> Iterator[str]:
        given = _vector(lanes) if lanes > 1 else "float"
        yield f"define {given} @{symbol}({', '.join(f'{given} %{operand}' for operand in self.operands)}) {{"
        if lanes == 1:
            for operand in self.operands:
                yield f"  %{operand}0 = insertelement {_vector(width)} poison, float %{operand}, i64 0"
            yield self.call("%r0", "0", width)
            yield f"  %r = extractelement {_vector(width)} %r0, i64 0"
        elif lanes == width:
            yield self.call("%r", "", width)
        else:
            yield from self._parts(lanes, width)
        yield f"  ret {given} %r"
        yield "}"

    def _parts(self, lanes: int, width: int) -> Iterator[str]:
        """Vectors of another width than a register's, which is cut or filled up."""
        result = "poison"
        for part, first in enumerate(range(0, lanes, width)):
            for operand in self.operands:
                picked = _shuffle([first + at if first + at < lanes else None for at in range(width)])
                source = f"{_vector(lanes)} %{operand}, {_vector(lanes)} poison"
                yield f"  %{operand}{part} = shufflevector {source}, {picked}"
            yield self.call(f"%r{part}", str(part), width)
            whole = _shuffle([at if at < width else None for at in range(lanes)])
            yield f"  %w{part} = shufflevector {_vector(width)} %r{part}, {_vector(width)} poison, {whole}"
            placed = [lanes + at - first if first <= at < first + width else at for at in range(lanes)]
            name = "%r" if first + width >= lanes else f"%v{part}"
            yield f"  {name} = shufflevector {_vector(lanes)} {result}, {_vector(lanes)} %w{part}, {_shuffle(placed)}"
            result = name


def scale(lanes: int) -> Function:
    """`VSCALEFPS` (Intel SDM vol. 2): x * 2^floor(n), rounded once, whatever n is.

    Arguments: x and n, vectors of `lanes` float32, a power of two; with one lane, scalars.
    """
    return _Instruction("scalef", "xn").function("tile_scale", lanes)


def rest(lanes: int) -> Function:
    """`VREDUCEPS` (Intel SDM vol. 2): x less the whole number nearest to it; 0 of an infinity, NaN of a NaN.

    Arguments: x, a vector of `lanes` float32, a power of two; with one lane, a scalar.
    """
    return _Instruction("reduce", "x", _NEAREST).function("tile_rest", lanes)


def _vector(lanes: int) -> str:
    return f"<{lanes} x float>"


def _mask(width: int) -> str:
    return f"i{max(width, 8)}"


def _rounding(width: int, value: str) -> list[str]:
    return [f"i32{value}"] if width == _WIDEST else []


def _shuffle(lanes: Sequence[int | None]) -> str:
    picked = ", ".join("i32 poison" if lane is None else f"i32 {lane}" for lane in lanes)
    return f"<{len(lanes)} x i32> <{picked}>"
