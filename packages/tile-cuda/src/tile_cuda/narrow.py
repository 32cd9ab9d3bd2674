"""Narrow floats in CUDA C++: pairs of 16-bit ones that are computed on at once, and 8-bit ones, which are only stored.

Pairs round as single values do (CUDA Math API, "Half2 Arithmetic Functions"). Conversions to 8 bits saturate ("FP8
Intrinsics", `__NV_SATFINITE`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.printer.language import Snippet
from tile_core.printer.pairs import BYTE_NIBBLES, Pair

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
        {
            **_CALLS,
            "broadcast": "__half2half2",
            "cast": "__floats2half2_rn",
            "nibbles": "tile_nibbles_half2",
            BYTE_NIBBLES: "tile_byte_nibbles_half2",
        },
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
__device__ __forceinline__ __nv_bfloat162 tile_nibbles_bfloat162(unsigned bits, int less) {
  const unsigned word = ((bits | bits << 12) & 0x000f000fu) | 0x43004300u;
  __nv_bfloat162 shifted;
  memcpy(&shifted, &word, sizeof(shifted));
  const __nv_bfloat16 offset = static_cast<__nv_bfloat16>(static_cast<float>(128 + less));
  return __hsub2(shifted, __nv_bfloat162{offset, offset});
}
"""
# float16 has ten bits there: the second nibble stays where the byte has it, counts sixteen times, and is scaled. Any
# byte of a word goes to both halves in one instruction.
_HALF_NIBBLES = """
// The low four bits of the low half and bits 4 to 7 of the high half, each less `less`.
__device__ __forceinline__ __half2 tile_spread_nibbles(unsigned halves, int less) {
  const unsigned word = (halves & 0x00f0000fu) | 0x64006400u;
  __half2 shifted;
  memcpy(&shifted, &word, sizeof(shifted));
  const auto number = [](float value) { return static_cast<__half>(value); };
  const __half2 offset{number(static_cast<float>(-1024 - less)), number(static_cast<float>(-64 - less))};
  return __hfma2(shifted, __half2{number(1.0f), number(0.0625f)}, offset);
}
// The low and the next four bits of `bits`, each less `less`.
__device__ __forceinline__ __half2 tile_nibbles_half2(unsigned bits, int less) {
  return tile_spread_nibbles(__byte_perm(bits, bits, 0x4040u), less);
}
"""
_BYTE_NIBBLES = """
// Both halves of a byte of an array that is whole words, each less `less`.
__device__ __forceinline__ __half2 tile_byte_nibbles_half2(const void* bytes, int index, int less) {
  unsigned word;
  memcpy(&word, static_cast<const unsigned char*>(bytes) + index / 4 * 4, sizeof(word));
  return tile_spread_nibbles(__byte_perm(word, word, index % 4 * 0x1111), less);
}
"""
_BYTE_NIBBLES_ON_THE_HOST = """
inline __half2 tile_byte_nibbles_half2(const void* bytes, int index, int less) {
  return tile_nibbles_half2(static_cast<const unsigned char*>(bytes)[index], less);
}
"""
_NIBBLES_ON_THE_HOST = """
inline {pair} tile_nibbles_{name}(unsigned bits, int less) {{
  const auto half = [&](int from) {{ return {value}(static_cast<float>(static_cast<int>(bits >> from & 15) - less)); }};
  return {pair}{{half(0), half(4)}};
}}
"""


def _nibbles() -> dict[str, Snippet]:
    """Two weights of a byte as floats."""

    def on_the_host(name: str, pair: str, value: str) -> str:
        return _NIBBLES_ON_THE_HOST.format(name=name, pair=pair, value=value)

    half, brain = ("half2", "__half2", "__half"), ("bfloat162", "__nv_bfloat162", "__nv_bfloat16")
    return {
        "tile_nibbles_half2": Snippet(_HALF_NIBBLES, emulated=on_the_host(*half)),
        "tile_byte_nibbles_half2": Snippet(
            _BYTE_NIBBLES, emulated=_BYTE_NIBBLES_ON_THE_HOST, needs=("tile_nibbles_half2",)
        ),
        "tile_nibbles_bfloat162": Snippet(_NIBBLES, emulated=on_the_host(*brain)),
    }


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
    **_nibbles(),
    **_extremes("max"),
    **_extremes("min"),
}
