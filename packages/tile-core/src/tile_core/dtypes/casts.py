"""Conversion between dtypes, as every backend must do it.

Arrays hold one value an element in `DType.numpy` (tfloat32 in float32, float8_e4m3 in e4m3fn, both float4 types
unpacked).

| from → to | rule |
|---|---|
| integer → integer | keeps the low bits (two's complement) |
| float → integer | truncates toward zero; saturates at the bounds of the target; NaN gives 0 |
| anything → bool | `x != 0`; NaN gives true |
| bool → number | 0 or 1 |
| integer, float → float16, float32, float64 | one rounding; overflow gives infinity |
| integer, float64 → bfloat16 and narrower | through float32, as torch does |
| float → tfloat32 | nearest, ties away from zero, low 13 bits zero |
| float → 8, 6 and 4 bits | overflow and infinity give the largest finite value; without `saturate` infinity or NaN |
| NaN → float6, float4 | the largest value: the formats have no NaN |
| float → float8_e8m0fnu | of the magnitude, halfway goes up; up to 2⁻¹²⁷ gives 2⁻¹²⁷, up to 2⁻¹²⁶ gives 2⁻¹²⁶ |

Rounding is to nearest, ties to even (`rn`), unless asked otherwise: `rz` toward zero, `rp` up, `rm` down, `rs`
stochastic. Saturation and NaN follow PTX `cvt.satfinite`, and torch for float8_e4m3fn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tile_core.errors.dtypes import CastModeError, DTypeMappingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tile_core.dtypes.dtype import DType, FloatFormat

Array = np.ndarray[Any, np.dtype[Any]]
Rounding = Literal["rn", "rz", "rp", "rm", "rs"]

NARROW_BITS = 8
_DIRECTED: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rp": np.ceil, "rm": np.floor}


def cast(
    values: Array,
    source: DType,
    target: DType,
    *,
    rounding: str = "rn",
    saturate: bool = True,
    random_bits: Array | None = None,
) -> Array:
    """`values` of dtype `source` converted to `target`, same shape.

    Args:
        values: one value an element, in `source.numpy`.
        source: the dtype of `values`.
        target: the dtype of the result.
        rounding: for float targets; see the module.
        saturate: for float targets of 8 bits and fewer: whether overflow gives the largest finite value.
        random_bits: uint32, for `rs`: the magnitude goes up where `random_bits / 2**32` is at least the distance to the
            upper neighbour.

    Raises:
        CastModeError: an unknown rounding, or `rs` without random bits.
        DTypeMappingError: a vector type, a handle or void.

    >>> from tile_core.dtypes import float32, float8_e4m3fn
    >>> cast(np.float32([1.06, 1000]), float32, float8_e4m3fn).tolist()
    [1.0, 448.0]
    """
    _check(source, target, rounding, random_bits)
    if source == target:
        return values
    with np.errstate(all="ignore"):
        if target.is_bool:
            return np.asarray(values != np.zeros((), values.dtype), np.bool_)
        if target.is_integer:
            return _to_integer(values, source, target)
        return _to_float(values, source, target, rounding, saturate, random_bits)


def _check(source: DType, target: DType, rounding: str, random_bits: Array | None) -> None:
    for dtype in (source, target):
        if dtype.is_vector or dtype.kind in ("handle", "void"):
            raise DTypeMappingError(f"values of {dtype} cannot be converted", remedy="convert lane by lane")
    if rounding not in get_args(Rounding):
        raise CastModeError(f"{rounding!r} is no rounding mode", remedy="use rn, rz, rp, rm or rs")
    if rounding == "rs" and random_bits is None:
        raise CastModeError("stochastic rounding needs random bits", remedy="pass rbits=")


def _to_integer(values: Array, source: DType, target: DType) -> Array:
    if not source.is_float:
        # ml_dtypes has no direct way between int4 and uint4; int64 holds the bits of both.
        return values.astype(np.int64).astype(target.numpy) if target.bits < 8 else values.astype(target.numpy)
    wide = np.trunc(values.astype(np.float64))
    low, high = int(target.min), int(target.max)
    carrier = np.uint64 if target.is_unsigned else np.int64
    inside = (wide >= float(low)) & (wide < float(high + 1))
    result = np.where(inside, wide, 0.0).astype(carrier)
    result = np.where(wide >= float(high + 1), carrier(high), result)
    return np.where(wide < float(low), carrier(low), result).astype(target.numpy)


def _to_float(
    values: Array, source: DType, target: DType, rounding: str, saturate: bool, random_bits: Array | None
) -> Array:
    form = target.float_format
    assert form is not None
    narrow = target.bits <= NARROW_BITS
    if rounding == "rn" and not narrow and target.family == "float":
        return values.astype(target.numpy)
    if target.family == "tfloat32":
        return _to_tfloat32(values.astype(np.float32))
    single = values.astype(np.float32) if rounding == "rn" or source.bits <= 32 else values
    if rounding == "rn" and not narrow:
        return single.astype(target.numpy)
    if rounding == "rn" and saturate and form.signed:
        return _to_narrow(single, target)
    exact = quantize(single.astype(np.float64), form, rounding, saturate and narrow, random_bits)
    return exact.astype(np.float32).astype(target.numpy) if target.bits <= 16 else exact.astype(target.numpy)


def _to_narrow(single: Array, target: DType) -> Array:
    """Round float32 to a narrow float, saturating; numpy and ml_dtypes do the work."""
    clipped = np.clip(single, np.float32(target.min), np.float32(target.max))
    if not target.has_nan:
        clipped = np.where(np.isnan(clipped), np.float32(target.max), clipped)
    converted: Array = clipped.astype(target.numpy)
    return converted


def _to_tfloat32(single: Array) -> Array:
    bits = single.view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(single), rounded, single)


def quantize(
    values: Array, form: FloatFormat, rounding: str = "rn", saturate: bool = False, random_bits: Array | None = None
) -> Array:
    """The float64 `values` rounded to the nearest (as `rounding` says) values of `form`, as float64.

    It is the definition that the fast paths of `cast` are tested against.
    """
    magnitude = values if form.signed else np.abs(values)
    exponent = np.frexp(magnitude)[1] - 1
    lowest = int(form.signed) - form.bias
    step = np.maximum(exponent, lowest) - form.mantissa
    scaled = np.ldexp(magnitude, -step)
    rounded = _stochastic(scaled, random_bits) if random_bits is not None else _DIRECTED[rounding](scaled)
    result = np.ldexp(np.where(np.isfinite(scaled), rounded, scaled), step)
    if not form.signed:
        result = _lowest_scales(result, magnitude, form.smallest, rounding)
    overflow = np.abs(result) > form.max
    limited = _overflow(result, np.isinf(values), form, rounding, saturate)
    return np.where(np.isnan(values), np.nan if form.has_nan else form.max, np.where(overflow, limited, result))


def _lowest_scales(result: Array, magnitude: Array, smallest: float, rounding: str) -> Array:
    """Nothing is below the smallest; `rn` takes what lies between it and the next upward, as torch and ml_dtypes do."""
    upward = (magnitude > smallest) & (magnitude < 2 * smallest) & (rounding == "rn")
    return np.where(upward, 2 * smallest, np.maximum(result, smallest))


def _stochastic(scaled: Array, random_bits: Array | None) -> Array:
    assert random_bits is not None
    fraction = random_bits.astype(np.float64) * 2.0**-32
    return np.copysign(np.floor(np.abs(scaled) + fraction), scaled)


def _overflow(result: Array, infinite: Array, form: FloatFormat, rounding: str, saturate: bool) -> Array:
    """What stands for a value beyond the largest."""
    largest = np.copysign(form.max, result)
    if saturate or not (form.has_infinity or form.has_nan):
        return largest
    beyond = np.copysign(np.inf, result) if form.has_infinity else np.full_like(result, np.nan)
    inward = {"rz": np.full(result.shape, True), "rp": result < 0, "rm": result > 0}.get(rounding)
    return beyond if inward is None else np.where(inward & ~infinite, largest, beyond)
