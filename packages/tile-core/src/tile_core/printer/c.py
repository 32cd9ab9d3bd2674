"""Plain C11 with the standard library: what other languages of the family extend, and a complete language itself.

A block is a sequential program here: a launch is a nest of loops over the grid, and there is no thread index. Floating
arithmetic is expected not to be contracted into fused operations; with GCC and Clang: `-ffp-contract=off`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.printer.expressions import EXPRESSIONS, HELPERS, address_of, if_then_else, likely
from tile_core.printer.language import Function, Helper, Language
from tile_core.printer.statements import STATEMENTS, counted_loop

if TYPE_CHECKING:
    from tile_core.ir.launch import Launch
    from tile_core.printer.printer import Printer

ANNOTATIONS = frozenset(
    f"tile.{name}" for name in ("assume", "layout", "restrict", "safe_value", "swizzle", "ws_pipeline_depth")
) | {"aligned_move"}
"""Attributes that have done their work before printing, or that change no result."""

_KEYWORDS = """
alignas alignof auto bool break case char const constexpr continue default do double else enum extern false float for
goto if inline int long main nullptr register restrict return short signed sizeof static static_assert struct switch
thread_local true typedef typeof union unsigned void volatile while asm fortran NULL INFINITY NAN errno stdin stdout
stderr size_t ptrdiff_t intptr_t uintptr_t memcpy
"""
_TYPES = {
    "bool": "bool",
    **{f"{sign}{bits}": f"{sign}{bits}_t" for sign in ("int", "uint") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
}
_MATH = """
exp exp2 log log2 log10 log1p sqrt tanh sin cos tan sinh cosh asin acos atan asinh acosh atanh atan2 pow floor trunc
fabs fma fmod erf copysign hypot nextafter
"""


def math_function(name: str) -> Function:
    """A function of `math.h`, whose `float` form ends in `f`."""
    return Function({"float32": f"{name}f", "float64": name})


_FLOATS: Mapping[str, Mapping[str, str]] = {
    "one": {"float32": "1.0f", "float64": "1.0"},
    "sqrt": {"float32": "sqrtf", "float64": "sqrt"},
    "exp": {"float32": "expf", "float64": "exp"},
}
# The meanings of `ops/scalar.py`: `max` propagates NaN, `maxnum` ignores it.
_PICK = "{{inline}} {{type}} {{name}}({{type}} a, {{type}} b) {{{{\n  return {condition} ? a : b;\n}}}}"
EXTREMES = {
    f"tile.{name}": Helper(name, _PICK.format(condition=condition))
    for name, condition in {
        "max": "a > b || a != a",
        "min": "a < b || a != a",
        "maxnum": "a > b || b != b",
        "minnum": "a < b || b != b",
    }.items()
}
RSQRT = Helper(
    "rsqrt",
    "{inline} {type} {name}({type} x) {{\n  return {one} / {sqrt}(x);\n}}",
    {part: _FLOATS[part] for part in ("one", "sqrt")},
)
SIGMOID = Helper(
    "sigmoid",
    "{inline} {type} {name}({type} x) {{\n  return {one} / ({one} + {exp}(-x));\n}}",
    {part: _FLOATS[part] for part in ("one", "exp")},
)


def loops_over_grid(printer: Printer, launch: Launch) -> None:
    """The launch as loops over its blocks, x fastest."""
    used = set(visit.collect(launch.body, ir.Var))
    for axis, var in zip("xyz", launch.thread_vars, strict=True):
        if var in used:
            raise printer.unprintable(f"the thread index {axis}: a block has no threads here", launch.body)
    _grid(printer, launch, len(launch.grid_vars) - 1)


def _grid(printer: Printer, launch: Launch, axis: int) -> None:
    if axis < 0:
        printer.stmt(launch.body)
        return
    extent = launch.grid_extents[axis]
    zero = tirx.IntImm(printer.dtype(extent), 0)
    counted_loop(printer, launch.grid_vars[axis], zero, extent, lambda: _grid(printer, launch, axis - 1))


C = Language(
    name="C",
    types=_TYPES,
    suffixes={"float32": "f", "uint32": "u", "int64": "ll", "uint64": "ull"},
    scopes={"local": "", "local.var": "", "local.fragment": "", "shared": "", "shared.dyn": ""},
    loops={int(kind): "" for kind in S.ForKind if kind != S.ForKind.THREAD_BINDING},
    attributes=ANNOTATIONS,
    expressions=EXPRESSIONS,
    statements=STATEMENTS,
    calls={
        **{f"tirx.{name}": math_function(name) for name in _MATH.split()},
        "prim.ceil": math_function("ceil"),
        "prim.log2": math_function("log2"),
        # TVM's `round` rounds halves to even, as `nearbyint` does in the default rounding mode.
        "tirx.round": math_function("nearbyint"),
        "tirx.nearbyint": math_function("nearbyint"),
        "tirx.rsqrt": RSQRT,
        "tirx.sigmoid": SIGMOID,
        "tirx.isnan": Function({"float32": "isnan", "float64": "isnan"}),
        "tirx.isinf": Function({"float32": "isinf", "float64": "isinf"}),
        "tirx.isfinite": Function({"float32": "isfinite", "float64": "isfinite"}),
        **EXTREMES,
        "tile.round": math_function("round"),
        "tile.fmod": math_function("fmod"),
        "tile.fma": math_function("fma"),
        "prim.if_then_else": if_then_else,
        "prim.likely": likely,
        "tirx.address_of": address_of,
    },
    launch=loops_over_grid,
    helpers=HELPERS,
    header=("#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>"),
    keywords=frozenset(_KEYWORDS.split()),
)
