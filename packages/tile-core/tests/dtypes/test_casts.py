"""Conversions against torch and ml_dtypes: every code of the narrow types, and a million random values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from tile_core.dtypes import DType, casts
from tile_core.dtypes._table import ROWS
from tile_core.errors import CastModeError, DTypeMappingError

NARROW = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"]
NARROW += [
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
    "float4_e2m1_unpacked",
]
WIDE = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int4", "uint4"] + [f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in ("int", "uint")]
RANDOM = 1_000_000


@pytest.fixture(autouse=True)
def _quiet():
    """The expected values overflow and hold NaN on purpose."""
    with np.errstate(all="ignore"):
        yield


def codes(name: str) -> np.ndarray:
    dtype = DType(name)
    width = 4 if dtype.is_float4() else dtype.bits
    return np.arange(2**width, dtype=np.uint8).view(dtype.numpy)


def random_floats(count: int = RANDOM) -> np.ndarray:
    """Every exponent of float32, with infinities and NaNs."""
    return np.random.default_rng(7).integers(0, 2**32, count, np.uint64).astype(np.uint32).view(np.float32)


def moderate_floats(count: int = RANDOM) -> np.ndarray:
    """Values around the range of the narrow floats, where rounding happens."""
    rng = np.random.default_rng(8)
    return (rng.standard_normal(count) * np.exp2(rng.integers(-20, 20, count))).astype(np.float32)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal bit for bit, apart from which NaN it is."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    nan = np.isnan(left) & np.isnan(right)
    return bool(np.all(nan | ((left == right) & (np.signbit(left) == np.signbit(right)))))


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.to(torch.float64).numpy()


def cast(values, source, target, **options):
    return casts.cast(values, DType(source), DType(target), **options)


@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("source", NARROW)
def test_every_narrow_code_widens_as_in_ml_dtypes(source, target):
    values = codes(source)
    expected = values.astype(np.float32) if target != "float64" else values.astype(np.float64)
    if target in ("float16", "bfloat16"):
        expected = expected.astype(DType(target).numpy)
    assert same(cast(values, source, target), expected)


@pytest.mark.parametrize("source", [name for name in NARROW if name.startswith("float8") and ROWS[name][6]])
def test_every_narrow_code_widens_as_in_torch(source):
    values = codes(source)
    theirs = torch.from_numpy(values.view(np.uint8)).view(DType(source).torch).to(torch.float32)
    assert same(cast(values, source, "float32"), theirs.numpy())


@pytest.mark.parametrize("target", NARROW)
@pytest.mark.parametrize("source", NARROW)
def test_narrow_to_narrow_is_the_definition(source, target):
    values = codes(source)
    form = DType(target).float_format
    expected = casts.quantize(values.astype(np.float64), form, saturate=True)
    if source != target and DType(source).numpy != DType(target).numpy:
        assert same(cast(values, source, target), expected + 0.0 if form.encoding == "fnuz" else expected)


@pytest.mark.parametrize("target", [name for name in NARROW if name != "float8_e8m0fnu"])
def test_random_floats_round_as_in_ml_dtypes_within_the_range(target):
    values = np.concatenate([random_floats(), moderate_floats()])
    dtype = DType(target)
    values = values[np.abs(values) <= dtype.max]
    assert same(cast(values, "float32", target), values.astype(dtype.numpy))


@pytest.mark.parametrize("target", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_random_floats_round_as_in_torch_within_the_range(target):
    values = np.concatenate([random_floats(), moderate_floats()])
    values = values[np.abs(values) <= DType(target).max]
    theirs = torch.from_numpy(values).to(DType(target).torch)
    ours = cast(values, "float32", target)
    assert same(ours, to_numpy(theirs.to(torch.float32)))


def test_e4m3fn_is_torch_everywhere():
    values = np.concatenate([random_floats(), np.float32([448, 464, 465, 480, 1e6, np.inf, -np.inf, np.nan, -0.0])])
    theirs = torch.from_numpy(values).to(torch.float8_e4m3fn).to(torch.float32)
    assert same(cast(values, "float32", "float8_e4m3fn"), theirs.numpy())


def test_e8m0_is_torch_within_the_range():
    values = np.concatenate([random_floats(), moderate_floats(), np.float32([0, -0.0, 1.5, 3, np.nan])])
    values = values[~(np.abs(values) > 2.0**127)]
    theirs = torch.from_numpy(values).to(torch.float8_e8m0fnu).view(torch.uint8).numpy()
    assert np.array_equal(cast(values, "float32", "float8_e8m0fnu").view(np.uint8), theirs)


def test_e8m0_is_ml_dtypes_for_positive_numbers():
    values = np.abs(np.concatenate([random_floats(), moderate_floats()]))
    values = values[(values > 0) & (values < 2.0**127)]
    assert same(cast(values, "float32", "float8_e8m0fnu"), values.astype(ml_dtypes.float8_e8m0fnu))


@pytest.mark.parametrize("target", NARROW)
def test_saturation(target):
    dtype = DType(target)
    values = np.float32([3e38, np.inf, -3e38, -np.inf])
    largest = float(dtype.max)
    low = largest if target == "float8_e8m0fnu" else -largest
    assert np.asarray(cast(values, "float32", target), np.float64).tolist() == [largest, largest, low, low]


@pytest.mark.parametrize("target", [name for name in NARROW if name not in ("float8_e4m3", "float8_e8m0fnu")])
def test_without_saturation_overflow_is_that_of_ml_dtypes(target):
    values = np.concatenate([random_floats(100_000), np.float32([480, 464, 61440, 7.5, 31, np.inf, -np.inf])])
    dtype = DType(target)
    if not dtype.has_nan:
        values = values[~np.isnan(values)]
    assert same(cast(values, "float32", target, saturate=False), values.astype(dtype.numpy))


@pytest.mark.parametrize("target", NARROW)
def test_fast_path_is_the_definition(target):
    values = np.concatenate([random_floats(), moderate_floats()])
    form = DType(target).float_format
    expected = casts.quantize(values.astype(np.float64), form, saturate=True)
    assert same(cast(values, "float32", target), expected + 0.0 if form.encoding == "fnuz" else expected)


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("source", WIDE)
def test_wide_floats_are_torch(source, target):
    values = random_floats()
    if source == "float64":
        values = np.random.default_rng(9).integers(0, 2**64, RANDOM, np.uint64).view(np.float64)
        values = np.concatenate([values, moderate_floats().astype(np.float64) * 1.1])
    tensor = torch.from_numpy(values).to(DType(source).torch)
    values = values if source in ("float32", "float64") else to_numpy(tensor).astype(DType(source).numpy)
    # torch goes from float64 to float16 in two roundings; numpy and we in one.
    expected = (
        values.astype(np.float16) if (source, target) == ("float64", "float16") else tensor.to(DType(target).torch)
    )
    assert same(cast(values, source, target), to_numpy(torch.as_tensor(expected)))


@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("source", INTEGERS[2:])
def test_integers_to_floats_are_torch(source, target):
    dtype = DType(source).numpy
    info = np.iinfo(dtype)
    values = np.random.default_rng(3).integers(info.min, info.max, RANDOM, dtype, endpoint=True)
    theirs = torch.from_numpy(values).to(DType(target).torch)
    assert same(cast(values, source, target), to_numpy(theirs))


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_wrap(source, target):
    from_type, to_type = DType(source), DType(target)
    values = np.random.default_rng(4).integers(
        from_type.min, from_type.max, 10_000, np.int64 if from_type.is_int else np.uint64
    )
    span, low = 1 << to_type.bits, int(to_type.min)
    expected = [(int(value) - low) % span + low for value in values]
    got = cast(values.astype(from_type.numpy), source, target)
    assert [int(value) for value in got] == expected


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", WIDE)
def test_floats_truncate_and_saturate(source, target):
    dtype = DType(target)
    raw = np.concatenate(
        [moderate_floats(100_000) * 1e4, np.float32([np.nan, np.inf, -np.inf, 2.9, -2.9, -0.5, 0.5, 127.9, 128])]
    )
    values = raw.astype(DType(source).numpy)
    expected = [
        0
        if value != value
        else max(int(dtype.min), min(int(dtype.max), int(value) if abs(value) < 1e40 else int(np.sign(value) * 1e30)))
        for value in values.astype(np.float64).tolist()
    ]
    assert [int(value) for value in cast(values, source, target)] == expected


def test_bool():
    values = np.float32([0, -0.0, 1e-45, np.nan, -3])
    assert cast(values, "float32", "bool").tolist() == [False, False, True, True, True]
    assert cast(np.int8([0, -1]), "int8", "bool").tolist() == [False, True]
    assert cast(np.bool_([0, 1]), "bool", "float8_e5m2").astype(float).tolist() == [0, 1]
    assert cast(np.bool_([0, 1]), "bool", "int4").astype(int).tolist() == [0, 1]


def test_tfloat32_rounds_ties_away_and_keeps_ten_bits():
    one = np.float32(1)
    ulp = np.float32(2.0**-10)
    values = np.float32([one + ulp / 2, one + ulp / 4, -(one + ulp / 2), np.inf, np.nan, 3.4e38])
    got = cast(values, "float32", "tfloat32")
    assert got[:3].tolist() == [float(one + ulp), 1.0, float(-(one + ulp))]
    assert np.isinf(got[3]) and np.isnan(got[4]) and np.isfinite(got[5])
    assert not (got[:3].view(np.uint32) & 0x1FFF).any()


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_directed_rounding_brackets_the_value(target):
    values = moderate_floats(100_000).astype(np.float64)
    values = values[np.abs(values) <= DType(target).max]
    down = np.asarray(cast(values, "float64", target, rounding="rm"), np.float64)
    up = np.asarray(cast(values, "float64", target, rounding="rp"), np.float64)
    toward_zero = np.asarray(cast(values, "float64", target, rounding="rz"), np.float64)
    nearest = np.asarray(cast(values.astype(np.float32), "float32", target), np.float64)
    assert np.all((down <= values) & (values <= up))
    assert same(np.abs(toward_zero), np.minimum(np.abs(down), np.abs(up)))
    single = np.abs(values.astype(np.float32) - values) == 0
    assert np.all((nearest[single] == down[single]) | (nearest[single] == up[single]))


def test_overflow_of_directed_rounding():
    values = np.float32([3.39e38, -3.39e38])
    expected = {"rz": [65504, -65504], "rp": [np.inf, -65504], "rm": [65504, -np.inf]}
    for rounding, wanted in expected.items():
        assert cast(values, "float32", "float16", rounding=rounding).astype(float).tolist() == wanted


def test_stochastic_rounding_is_unbiased_and_follows_its_bits():
    values = np.full(200_000, 1.0 + 2.0**-10, np.float32)  # an eighth of the way to the next bfloat16
    bits = np.random.default_rng(5).integers(0, 2**32, values.size, np.uint64).astype(np.uint32)
    got = cast(values, "float32", "bfloat16", rounding="rs", random_bits=bits).astype(np.float64)
    assert set(np.unique(got)) == {1.0, 1.0 + 2.0**-7}
    assert abs(got.mean() - values[0]) < 2e-5
    exact = cast(np.float32([1.5]), "float32", "bfloat16", rounding="rs", random_bits=np.uint32([2**32 - 1]))
    assert float(exact[0]) == 1.5


def test_refusals():
    with pytest.raises(CastModeError, match="'rx'"):
        cast(np.float32([1]), "float32", "float16", rounding="rx")
    with pytest.raises(CastModeError, match="random bits"):
        cast(np.float32([1]), "float32", "float16", rounding="rs")
    with pytest.raises(DTypeMappingError, match="float32x2"):
        cast(np.float32([1]), "float32", "float32x2")


def test_ml_dtypes_e4m3_is_another_format():
    assert ml_dtypes.finfo(ml_dtypes.float8_e4m3).max == 240
    assert DType("float8_e4m3").max == 448
