"""The functions of Metal's standard library, and those that it lacks, over what it has.

`precise::` names the variant that keeps its accuracy whatever the compiler is told about fast math; functions without
variants are exact. ("Metal Shading Language Specification", math functions and numerical compliance.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tile_core.printer.c import SIGMOID
from tile_core.printer.language import ExprHandler, Function, Snippet
from tile_core.printer.simt import snippet_call

_PRECISE = """
exp exp2 exp10 log log2 log10 sqrt rsqrt tanh sin cos tan sinh cosh asin acos atan asinh acosh atanh atan2 pow
"""
_EXACT = {
    **{f"tirx.{name}": name for name in "floor trunc fabs fma copysign nextafter isnan isinf isfinite".split()},
    "prim.ceil": "ceil",
    # To the nearest, halves to even.
    "tirx.round": "rint",
    "tirx.nearbyint": "rint",
    "tile.round": "round",
    "tile.fma": "fma",
    "tile.maxnum": "fmax",
    "tile.minnum": "fmin",
    "tirx.fmod": "fmod",
    "tile.fmod": "fmod",
}
# Fitted at Chebyshev nodes: erf(x) / x in x² on [0, 1], and erfc(x) exp(x²) in 1 / (1 + x) on [1, 4.1]; together within
# 2e-7 of the function, relatively.
_ERF = """
inline float tile_erf(float x) {
  const float size = fabs(x);
  if (size < 1.0f) {
    const float z = x * x;
    float sum = -9.67359042e-06f;
    sum = sum * z + 0.000112682538f;
    sum = sum * z - 0.000848439653f;
    sum = sum * z + 0.00522105341f;
    sum = sum * z - 0.0268654383f;
    sum = sum * z + 0.112837826f;
    sum = sum * z - 0.376126385f;
    return x * (sum * z + 1.12837917f);
  }
  if (size >= 4.0f) return copysign(1.0f, x);
  const float t = 1.0f / (1.0f + size);
  float sum = 1.02109426f;
  sum = sum * t - 3.46125767f;
  sum = sum * t + 4.75616816f;
  sum = sum * t - 2.96848519f;
  sum = sum * t + 0.355407969f;
  sum = sum * t + 0.166823398f;
  sum = sum * t + 0.577325671f;
  sum = sum * t + 0.56332765f;
  return copysign(1.0f - precise::exp(-size * size) * (sum * t + 2.4871507e-05f), x);
}
"""
_LOG1P = """
// What 1 + x loses is made up for by the quotient (W. Kahan's form).
inline float tile_log1p(float x) {
  const float whole = 1.0f + x;
  if (whole == 1.0f || whole == INFINITY) return x;
  return precise::log(whole) * (x / (whole - 1.0f));
}
"""
_HYPOT = """
// The larger side is taken out, so that no square overflows or vanishes.
inline float tile_hypot(float x, float y) {
  if (isinf(x) || isinf(y)) return INFINITY;
  if (isnan(x) || isnan(y)) return NAN;
  const float large = fmax(fabs(x), fabs(y)), small = fmin(fabs(x), fabs(y));
  if (large == 0.0f) return 0.0f;
  const float ratio = small / large;
  return large * precise::sqrt(1.0f + ratio * ratio);
}
"""
SNIPPETS: Mapping[str, Snippet] = {
    "tile_erf": Snippet(_ERF),
    "tile_log1p": Snippet(_LOG1P),
    "tile_hypot": Snippet(_HYPOT),
}


def _of_float(name: str) -> Function:
    return Function({"float32": name})


CALLS: Mapping[str, ExprHandler] = {
    **{f"tirx.{name}": _of_float(f"precise::{name}") for name in _PRECISE.split()},
    "prim.log2": _of_float("precise::log2"),
    **{op: _of_float(name) for op, name in _EXACT.items()},
    "tirx.sigmoid": replace(SIGMOID, parts={**SIGMOID.parts, "exp": {"float32": "precise::exp"}}),
    "tirx.popcount": Function({"uint32": "popcount", "uint64": "popcount"}),
    "prim.clz": Function({"uint32": "clz", "uint64": "clz"}),
    "tirx.erf": snippet_call("tile_erf"),
    "tirx.log1p": snippet_call("tile_log1p"),
    "tirx.hypot": snippet_call("tile_hypot"),
}
