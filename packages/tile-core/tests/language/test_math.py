"""Elementary functions against torch, in every float dtype; NaN, infinities and halves."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import OpArgumentError, OpDTypeError

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SPECIAL = [
    0.0,
    -0.0,
    0.25,
    0.5,
    -0.5,
    0.9,
    1.0,
    -1.0,
    1.5,
    2.5,
    -2.5,
    7.7,
    -30.0,
    100.0,
    float("inf"),
    float("-inf"),
    float("nan"),
]
UNARY = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "exp10": lambda x: torch.pow(torch.tensor(10, dtype=x.dtype), x),
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "nearbyint": torch.round,
    "abs": torch.abs,
    "fabs": torch.abs,
    "round": lambda x: torch.where(x.isfinite(), x.sign() * (x.abs() + 0.5).floor(), x),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(evaluate: Any, name: str, dtype: torch.dtype) -> None:
    x = torch.tensor(SPECIAL).to(dtype)
    wide = x if dtype in (torch.float32, torch.float64) else x.float()
    expected = UNARY[name](wide).to(dtype)
    torch.testing.assert_close(evaluate(getattr(T, name), x), expected, equal_nan=True)


BINARY = {
    "max": torch.maximum,
    "min": torch.minimum,
    "pow": torch.pow,
    "fmod": torch.fmod,
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "hypot": torch.hypot,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(evaluate: Any, name: str, dtype: torch.dtype) -> None:
    a, b = (torch.tensor(column).to(dtype) for column in zip(*itertools.product(SPECIAL, repeat=2), strict=True))
    wide = (a, b) if dtype in (torch.float32, torch.float64) else (a.float(), b.float())
    expected = BINARY[name](*wide).to(dtype)
    torch.testing.assert_close(evaluate(getattr(T, name), a, b), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_are_symmetric(evaluate: Any, dtype: torch.dtype) -> None:
    a, b = (torch.tensor(column).to(dtype) for column in zip(*itertools.product(SPECIAL, repeat=2), strict=True))
    for function in (T.max, T.min):
        torch.testing.assert_close(evaluate(function, a, b), evaluate(function, b, a), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_integer_extremes_and_magnitude(evaluate: Any, dtype: torch.dtype) -> None:
    a = torch.tensor([0, 1, 5, 100, 127]).to(dtype)
    b = torch.tensor([3, 1, -5 if dtype.is_signed else 5, 99, 0]).to(dtype)
    assert torch.equal(evaluate(T.max, a, b), torch.maximum(a, b))
    assert torch.equal(evaluate(T.min, a, b), torch.minimum(a, b))
    assert torch.equal(evaluate(T.abs, b), b.abs() if dtype.is_signed else b)


def test_bool_extremes_are_or_and_and(evaluate: Any) -> None:
    a, b = torch.tensor([0, 0, 1, 1]).bool(), torch.tensor([0, 1, 0, 1]).bool()
    assert torch.equal(evaluate(T.max, a, b), a | b)
    assert torch.equal(evaluate(T.min, a, b), a & b)


def test_clamp(evaluate: Any) -> None:
    x = torch.tensor(SPECIAL)
    torch.testing.assert_close(evaluate(lambda v: T.clamp(v, -1.0, 2.0), x), x.clamp(-1, 2), equal_nan=True)
    assert (evaluate(lambda v: T.clamp(v, 3.0, 2.0), torch.tensor([0.0, 9.0])) == 2).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_classes(evaluate: Any, dtype: torch.dtype) -> None:
    x = torch.tensor(SPECIAL).to(dtype)
    for name in ("isnan", "isinf", "isfinite"):
        assert torch.equal(evaluate(getattr(T, name), x, dtype=torch.bool), getattr(torch, name)(x))


def test_round_and_nearbyint_differ_on_halves(evaluate: Any) -> None:
    x = torch.tensor([0.5, 1.5, 2.5, -2.5, 0.49999997, 8388609.0])
    assert evaluate(T.round, x).tolist() == [1, 2, 3, -3, 0, 8388609]
    assert evaluate(T.nearbyint, x).tolist() == [0, 2, 2, -2, 0, 8388609]


def test_a_float_function_of_an_integer_is_float32(evaluate: Any) -> None:
    x = torch.tensor([1, 2, 9], dtype=torch.int32)
    torch.testing.assert_close(evaluate(T.sqrt, x, dtype=torch.float32), x.float().sqrt())


def test_constants_are_functions_too(evaluate: Any) -> None:
    x = torch.zeros(1)
    assert evaluate(lambda v: v + T.ceil(8388608.5), x).item() == 8388608.0
    assert evaluate(lambda v: v + T.max(2, 3), x).item() == 3


def test_narrow_floats_compute_wide(evaluate: Any) -> None:
    x = torch.tensor([300.0]).half()
    assert evaluate(lambda v: T.log(T.exp2(v) * 0 + v), x).isnan().all()
    assert evaluate(lambda v: T.hypot(v, v), x).item() == torch.hypot(x.float(), x.float()).half().item()


def test_fma_and_ldexp(evaluate: Any) -> None:
    x, y = torch.tensor([1.5, -2.0, 3.0]), torch.tensor([2.0, 4.0, -1.0])
    assert torch.equal(evaluate(lambda a, b: T.fma(a, b, 1.0), x, y), x * y + 1)
    assert torch.equal(evaluate(lambda a: T.ldexp(a, 3), x), x * 8)


def expression(build: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "float16")):
        with T.Kernel(1):
            A[0] = build(A[0], B[0])


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda a, b: T.pow(a, 2), OpDTypeError, ["pow", "int32"]),
        (lambda a, b: T.fabs(a), OpDTypeError, ["fabs", "int32"]),
        (lambda a, b: T.nextafter(b, b), OpDTypeError, ["nextafter", "float16"]),
        (lambda a, b: T.round(b, "up"), OpArgumentError, ["up"]),
        (lambda a, b: T.add2(b, b), OpArgumentError, ["add2", "float16"]),
        (lambda a, b: T.fma2(b, b, b), OpArgumentError, ["fma2"]),
    ],
)
def test_refusals(build: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        expression(build)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.span is not None
