"""How CUDA C++ spells functions of scalars that not every target has.

CUDA C++ Programming Guide, "Mathematical Functions" and "Integer Intrinsics": `__expf` and its kin have fewer digits;
`__fadd_rz` and its kin round by a mode and are never fused with a neighbour. The emulator's header defines them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir

from tile_core.ops.directed import ARITIES, MODES
from tile_core.printer.expressions import element
from tile_core.printer.language import ExprHandler, Function, Node, Snippet
from tile_core.printer.precedence import Code, call, prefix
from tile_core.printer.printer import Printer
from tile_core.printer.simt import snippet_call

_FAST = ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan")
# Operation to its names for float32 and float64, without the mode.
_ROUNDED = {
    "add": ("__fadd", "__dadd"),
    "sub": ("__fsub", "__dsub"),
    "mul": ("__fmul", "__dmul"),
    "div": ("__fdiv", "__ddiv"),
    "fma": ("__fmaf", "__fma"),
    "rcp": ("__frcp", "__drcp"),
    "sqrt": ("__fsqrt", "__dsqrt"),
}
_CACHED = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64) if f"{kind}{bits}" != "float8"
) | {"bfloat16"}


def _read_only(printer: Printer, node: Node) -> Code:
    """A load through the read-only cache. A load that a guard surrounds stays an ordinary one."""
    (load,) = node.args
    if not isinstance(load, ir.TensorLoad) or printer.dtype(load) not in _CACHED:
        return printer.expr(load)
    return call("__ldg", prefix("&", element(printer, load.source, load.indices)))


def _rounded() -> Mapping[str, ExprHandler]:
    table: dict[str, ExprHandler] = {
        f"tile.{name}_{mode}": Function({"float32": f"{single}_{mode}", "float64": f"{double}_{mode}"})
        for name, (single, double) in _ROUNDED.items()
        for mode in MODES
    }
    assert {*_ROUNDED, "rsqrt"} == ARITIES.keys()
    return {**table, "tile.rsqrt_rn": Function({"float32": "__frsqrt_rn"})}


CALLS: Mapping[str, ExprHandler] = {
    **{f"tile.fast_{name}": Function({"float32": f"__{name}f", "float64": name}) for name in _FAST},
    **_rounded(),
    "tile.fast_rcp": snippet_call("tile_fast_rcp"),
    "tile.find_first": Function(
        {"int32": "__ffs", "uint32": "__ffs", "int64": "__ffsll", "uint64": "__ffsll"},
    ),
    "tile.find_nth": Function({"uint32": "__fns"}),
    "tile.read_only": _read_only,
    "tirx.popcount": Function({"uint32": "__popc", "uint64": "__popcll"}),
    "prim.clz": Function({"uint32": "__clz", "uint64": "__clzll"}),
    "tirx.exp10": Function({"float32": "exp10f", "float64": "exp10"}),
}
NATIVE = frozenset(name for name in CALLS if name.startswith("tile."))
"""The scalar ops of core that CUDA has a call for, besides those of every SIMT language."""

SNIPPETS: Mapping[str, Snippet] = {
    # PTX ISA, "rcp.approx.ftz.f32": at most 1 ulp off; subnormal operands and results are zeros.
    "tile_fast_rcp": Snippet(
        """
__device__ __forceinline__ float tile_fast_rcp(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}
""",
        emulated="""
inline float tile_fast_rcp(float x) {
  const float flushed = fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x, found = 1.0f / flushed;
  return fabsf(found) < 0x1p-126f ? copysignf(0.0f, found) : found;
}
""",
    ),
}
