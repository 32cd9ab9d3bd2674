"""Narrow floats in CUDA C++: pairs of 16-bit ones that are computed on at once, and 8-bit ones, which are only stored.

Pairs round as single values do (CUDA Math API, "Half2 Arithmetic Functions"). Conversions to 8 bits saturate ("FP8
Intrinsics", `__NV_SATFINITE`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.printer.language import Snippet
from tile_core.printer.pairs import Pair

_CALLS = {
    "add": "__hadd2",
    "sub": "__hsub2",
    "mul": "__hmul2",
    "max": "tile_max_pair",
    "min": "tile_min_pair",
}
PAIRS: Mapping[str, Pair] = {
    "float16": Pair(
        "__half2",
        {**_CALLS, "broadcast": "__half2half2", "cast": "__floats2half2_rn", "nibbles": "tile_nibbles_half2"},
    ),
    "bfloat16": Pair(
        "__nv_bfloat162",
        {
            **_CALLS,
            "broadcast": "__bfloat162bfloat162",
            "cast": "__floats2bfloat162_rn",
            "nibbles": "tile_nibbles_bfloat162",
        },
    ),
    "float8_e4m3fn": Pair("__nv_fp8x2_e4m3", {"cast": "tile_pair_e4m3"}),
    "float8_e5m2": Pair("__nv_fp8x2_e5m2", {"cast": "tile_pair_e5m2"}),
}
FLOAT8: Mapping[str, str] = {"float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2"}
"""The types of 8 bits."""
TYPE_SNIPPETS: Mapping[str, str] = dict.fromkeys(FLOAT8, "tile_float8")

_SM_80 = "defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800"
_EXTREME = """
// The {name}imum; NaN if either operand is NaN.
template <typename T>
__device__ __forceinline__ T tile_{name}(T a, T b) {{
  return a {sign} b || a != a ? a : b;
}}
"""
_PAIR_EXTREME = f"""
template <typename Pair>
__device__ __forceinline__ Pair tile_{{name}}_pair(Pair a, Pair b) {{{{
#if {_SM_80}
  return __h{{name}}2_nan(a, b);
#else
  return Pair{{{{tile_{{name}}(a.x, b.x), tile_{{name}}(a.y, b.y)}}}};
#endif
}}}}
"""
# The bits of a power of two whose last bit counts one: with a nibble in its low bits it is that much more, exactly.
_NIBBLES = """
// The low and the next four bits of `bits`, each less `less`.
__device__ __forceinline__ {pair} tile_nibbles_{name}(unsigned bits, int less) {{
  const unsigned word = ((bits | bits << 12) & 0x000f000fu) | {power:#x}u * 0x10001u;
  {pair} shifted;
  memcpy(&shifted, &word, sizeof(shifted));
  const {value} offset = static_cast<{value}>(static_cast<float>({weight} + less));
  return __hsub2(shifted, {pair}{{offset, offset}});
}}
"""
_NIBBLES_ON_THE_HOST = """
inline {pair} tile_nibbles_{name}(unsigned bits, int less) {{
  const auto half = [&](int from) {{ return {value}(static_cast<float>(static_cast<int>(bits >> from & 15) - less)); }};
  return {pair}{{half(0), half(4)}};
}}
"""
_NIBBLE_PAIRS = (
    {"name": "half2", "pair": "__half2", "value": "__half", "power": 0x6400, "weight": 1024},
    {"name": "bfloat162", "pair": "__nv_bfloat162", "value": "__nv_bfloat16", "power": 0x4300, "weight": 128},
)
_FLOAT8_PAIR = """
__device__ __forceinline__ __nv_fp8x2_{form} tile_pair_{form}(float x, float y) {{
  return __nv_fp8x2_{form}(make_float2(x, y));
}}
"""


def _extremes(name: str) -> dict[str, Snippet]:
    """`tile_max` or `tile_min` of 16-bit floats as one instruction, alone and in pairs; NaN propagates.

    The instruction takes any NaN to the canonical one, and -0 to be less than +0.
    """
    scalars = "".join(
        f"""__device__ __forceinline__ {dtype} tile_{name}({dtype} a, {dtype} b) {{ return __h{name}_nan(a, b); }}
"""
        for dtype in ("__half", "__nv_bfloat16")
    )
    common = _EXTREME.format(name=name, sign=">" if name == "max" else "<")
    return {
        f"tile_{name}": Snippet(f"{common}#if {_SM_80}\n{scalars}#endif\n"),
        f"tile_{name}_pair": Snippet(_PAIR_EXTREME.format(name=name), needs=(f"tile_{name}",)),
    }


SNIPPETS: Mapping[str, Snippet] = {
    "tile_float8": Snippet("#include <cuda_fp8.h>"),
    **{f"tile_pair_{form}": Snippet(_FLOAT8_PAIR.format(form=form)) for form in ("e4m3", "e5m2")},
    **{
        f"tile_nibbles_{pair['name']}": Snippet(_NIBBLES.format(**pair), emulated=_NIBBLES_ON_THE_HOST.format(**pair))
        for pair in _NIBBLE_PAIRS
    },
    **_extremes("max"),
    **_extremes("min"),
}
