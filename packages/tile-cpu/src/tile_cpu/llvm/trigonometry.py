"""sin and cos of float32 vectors as LLVM IR.

The argument is reduced by multiples of pi/2 in float64: with the two parts of pi/2 below, k * pi/2 is subtracted with a
relative error of the rest below 2^-40 for |x| < 2^30, whatever float32 x is. A vector that holds a larger number, an
infinity or NaN goes to the C library lane by lane: a branch, which an expression cannot have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tile_cpu.llvm.functions import Function

QUADRANT = {"sin": 0, "cos": 1}
"""What is added to the quadrant of the argument: cos x = sin(x + pi/2)."""

# Where a float64 sum is rounded to an integer that stands in its low bits.
_ROUND = 1.5 * 2.0**52
_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_LARGEST = 2.0**30
# sin r = r + r z p(z), |r| <= pi/4, z = r^2: 2^-37.5; cos r = 1 - z/2 + z^2 p(z): 2^-42.9. Minimax, rounded to float32.
_SIN = (-1.666666716e-01, 8.333329111e-03, -1.983930415e-04, 2.718046517e-06)
_COS = (4.166666791e-02, -1.388888340e-03, 2.479945215e-05, -2.720504710e-07)


def trigonometric(name: str, lanes: int) -> Function:
    """`sin` or `cos` of a vector of `lanes` float32, within 1.5 units in the last place. Argument: the vector."""
    symbol = f"tile_{name}_float32x{lanes}"
    declarations = (
        f"declare <{lanes} x double> @llvm.fma.v{lanes}f64({', '.join([f'<{lanes} x double>'] * 3)})",
        f"declare <{lanes} x float> @llvm.fma.v{lanes}f32({', '.join([f'<{lanes} x float>'] * 3)})",
        f"declare <{lanes} x float> @llvm.fabs.v{lanes}f32(<{lanes} x float>)",
        f"declare i1 @llvm.vector.reduce.and.v{lanes}i1(<{lanes} x i1>)",
        f"declare float @{name}f(float)",
    )
    return Function(symbol, "\n".join(_Writer(name, lanes).lines(symbol)), declarations)


class _Writer:
    def __init__(self, name: str, lanes: int) -> None:
        self._name = name
        self._lanes = lanes

    def _type(self, element: str) -> str:
        return f"<{self._lanes} x {element}>"

    def _splat(self, element: str, value: float) -> str:
        """A constant in every lane; LLVM writes floats of either width as the bits of a float64."""
        text = str(int(value)) if element.startswith("i") else f"0x{struct.pack('>d', _single(element, value)).hex()}"
        return f"splat ({element} {text})"

    def _fma(self, element: str, result: str, a: str, b: str, c: str) -> str:
        kind, width = self._type(element), "f64" if element == "double" else "f32"
        return f"  {result} = call {kind} @llvm.fma.v{self._lanes}{width}({kind} {a}, {kind} {b}, {kind} {c})"

    def _polynomial(self, name: str, coefficients: tuple[float, ...]) -> Iterator[str]:
        """`%name` from `%z` by Horner's rule."""
        value = self._splat("float", coefficients[-1])
        for step, coefficient in enumerate(reversed(coefficients[:-1])):
            result = f"%{name}" if step == len(coefficients) - 2 else f"%{name}{step}"
            yield self._fma("float", result, value, "%z", self._splat("float", coefficient))
            value = result

    def lines(self, symbol: str) -> Iterator[str]:
        single = self._type("float")
        yield f"define {single} @{symbol}({single} %x) {{"
        yield "entry:"
        yield f"  %size = call {single} @llvm.fabs.v{self._lanes}f32({single} %x)"
        yield f"  %small = fcmp olt {single} %size, {self._splat('float', _LARGEST)}"
        yield f"  %all = call i1 @llvm.vector.reduce.and.v{self._lanes}i1({self._type('i1')} %small)"
        yield "  br i1 %all, label %fast, label %slow"
        yield "fast:"
        yield from self._reduce()
        yield from self._evaluate()
        yield f"  ret {single} %result"
        yield "slow:"
        yield from self._library()
        yield "}"

    def _reduce(self) -> Iterator[str]:
        double, integer = self._type("double"), self._type("i64")
        yield f"  %d = fpext {self._type('float')} %x to {double}"
        yield self._fma("double", "%t", "%d", self._splat("double", _TWO_OVER_PI), self._splat("double", _ROUND))
        yield f"  %k = fsub {double} %t, {self._splat('double', _ROUND)}"
        yield self._fma("double", "%r1", "%k", self._splat("double", -_HALF_PI[0]), "%d")
        yield self._fma("double", "%r2", "%k", self._splat("double", -_HALF_PI[1]), "%r1")
        yield f"  %r = fptrunc {double} %r2 to {self._type('float')}"
        yield f"  %bits = bitcast {double} %t to {integer}"
        yield f"  %low = trunc {integer} %bits to {self._type('i32')}"
        yield f"  %q = add {self._type('i32')} %low, {self._splat('i32', QUADRANT[self._name])}"

    def _evaluate(self) -> Iterator[str]:
        single, integer = self._type("float"), self._type("i32")
        zero = "zeroinitializer"
        yield f"  %z = fmul {single} %r, %r"
        yield from self._polynomial("ps", _SIN)
        yield from self._polynomial("pc", _COS)
        yield f"  %rz = fmul {single} %r, %z"
        yield self._fma("float", "%s0", "%rz", "%ps", "%r")
        # The sum loses the sign of zero.
        yield f"  %rzero = fcmp oeq {single} %r, {zero}"
        yield f"  %s = select {self._type('i1')} %rzero, {single} %r, {single} %s0"
        yield f"  %zz = fmul {single} %z, %z"
        yield f"  %half_z = fmul {single} %z, {self._splat('float', -0.5)}"
        yield self._fma("float", "%c0", "%zz", "%pc", "%half_z")
        yield f"  %c = fadd {single} %c0, {self._splat('float', 1.0)}"
        yield f"  %odd = and {integer} %q, {self._splat('i32', 1)}"
        yield f"  %even = icmp eq {integer} %odd, {zero}"
        yield f"  %chosen = select {self._type('i1')} %even, {single} %s, {single} %c"
        yield f"  %half = and {integer} %q, {self._splat('i32', 2)}"
        yield f"  %sign = shl {integer} %half, {self._splat('i32', 30)}"
        yield f"  %plain = bitcast {single} %chosen to {integer}"
        yield f"  %signed = xor {integer} %plain, %sign"
        yield f"  %result = bitcast {integer} %signed to {single}"

    def _library(self) -> Iterator[str]:
        single = self._type("float")
        value = "poison"
        for lane in range(self._lanes):
            yield f"  %x{lane} = extractelement {single} %x, i64 {lane}"
            yield f"  %y{lane} = call float @{self._name}f(float %x{lane})"
            yield f"  %v{lane} = insertelement {single} {value}, float %y{lane}, i64 {lane}"
            value = f"%v{lane}"
        yield f"  ret {single} {value}"


def _single(element: str, value: float) -> float:
    """`value` rounded to float32 where the element is one: LLVM takes no other constants."""
    return struct.unpack("f", struct.pack("f", value))[0] if element == "float" else value
