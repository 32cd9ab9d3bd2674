"""Functions of scalars of the CUDA dialect: interpreted and emulated alike, to the bit where they round."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors import OpArgumentError, OpDTypeError, UnsupportedOnTargetError
from tile_core.ops.directed import MODES, meaning, rounded

N = 192
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-45, 1.2e-38, 3.4e38, -3.4e38]


def operands(dtype: str, seed: int) -> np.ndarray:
    """Every pair of special values, then random ones of all magnitudes."""
    rng = np.random.default_rng(seed)
    values = np.exp2(rng.uniform(-60, 60, N)) * rng.choice([-1, 1], N)
    values[: len(SPECIAL) ** 2] = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)[seed % 2]
    return values.astype(dtype)


def elementwise(dtype: str, body: Any, result: str | None = None) -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype), D: T.Tensor((N,), result or dtype)
    ):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                D[i] = body(A[i], B[i], C[i])

    return kernel


ROUNDED = {
    "add": lambda mode: lambda a, b, c: T.ieee_add(a, b, mode),
    "sub": lambda mode: lambda a, b, c: T.ieee_sub(a, b, mode),
    "mul": lambda mode: lambda a, b, c: T.ieee_mul(a, b, mode),
    "div": lambda mode: lambda a, b, c: T.ieee_fdiv(a, b, mode),
    "fma": lambda mode: lambda a, b, c: T.ieee_fmaf(a, b, c, mode),
    "rcp": lambda mode: lambda a, b, c: T.ieee_frcp(a, mode),
    "sqrt": lambda mode: lambda a, b, c: T.ieee_fsqrt(a, mode),
}


def same_bits(one: np.ndarray, other: np.ndarray) -> None:
    """Equal including the signs of zeros; any NaN equals any NaN."""
    np.testing.assert_array_equal(one, other)
    number = ~np.isnan(one)
    np.testing.assert_array_equal(np.signbit(one[number]), np.signbit(other[number]))


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_arithmetic_is_exact_everywhere(name: str, dtype: str, on_gpu: Any) -> None:
    functions = [ROUNDED[name](mode) for mode in MODES]

    @T.prim_func
    def kernel(
        A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype), D: T.Tensor((4, N), dtype)
    ):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                for mode, function in enumerate(functions):
                    D[mode, i] = function(A[i], B[i], C[i])

    found = []
    for options in ({"target": "interpret"}, {"target": "cuda", "execution": "emulate"}):
        out = np.full((4, N), 7.0, dtype)
        tl.compile(kernel, **options)(*(operands(dtype, seed) for seed in range(3)), out)
        found.append(out)
    same_bits(*found)
    native = on_gpu(kernel, *(operands(dtype, seed) for seed in range(3)), np.full((4, N), 7.0, dtype))
    same_bits(found[1] if native is None else native[3], found[1])


def test_the_reference_rounds_as_it_says() -> None:
    one, tiny = np.float32(1), np.float32(1e-30)
    up, down = np.nextafter(one, np.float32(2)), np.nextafter(one, np.float32(0))
    assert [meaning("add", mode)(one, tiny) for mode in MODES] == [one, one, up, one]
    assert [meaning("sub", mode)(one, tiny) for mode in MODES] == [one, down, one, down]
    third = [meaning("div", mode)(np.float64(1), np.float64(3)) for mode in MODES]
    assert Fraction(third[3]) < Fraction(1, 3) < Fraction(third[2])
    assert third[0] == 1 / 3
    assert third[1] == third[3]
    largest = np.finfo("float32").max
    assert [meaning("mul", mode)(largest, np.float32(2)) for mode in MODES] == [np.inf, largest, np.inf, largest]
    assert [meaning("mul", mode)(largest, np.float32(-2)) for mode in MODES] == [-np.inf, -largest, -largest, -np.inf]
    zeros = [meaning("sub", mode)(one, one) for mode in MODES]
    assert [math.copysign(1, zero) for zero in zeros] == [1, 1, 1, -1]


def test_rounding_to_nearest_is_that_of_the_hardware() -> None:
    rng = np.random.default_rng(3)
    wide = np.exp2(rng.uniform(-155, 128, 2000)) * rng.choice([-1, 1], 2000)
    with np.errstate(over="ignore"):
        for value in [*wide, 2.0**-149 * 1.5, 2.0**-150, 2.0**128 - 2.0**103]:
            assert rounded(Fraction(float(value)), np.float32, "rn") == np.float32(value)


FAST = {
    "exp": (T.__exp, np.exp, 20),
    "exp10": (T.__exp10, lambda x: 10.0**x, 20),
    "log": (T.__log, np.log, 1e30),
    "log2": (T.__log2, np.log2, 1e30),
    "log10": (T.__log10, np.log10, 1e30),
    "sin": (T.__sin, np.sin, 3),
    "cos": (T.__cos, np.cos, 3),
    "tan": (T.__tan, np.tan, 1.5),
    "rcp": (T.fast_rcp, lambda x: 1 / x, 1e30),
}


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", FAST)
def test_fast_functions(name: str, dtype: str) -> None:
    function, expected, most = FAST[name]
    values = np.linspace(0.01, min(most, 4.0), N).astype(dtype)
    values[:3] = [np.nan, np.inf, 0.5]
    with np.errstate(all="ignore"):
        wanted = expected(values.astype("float64"))
    kernel = elementwise(dtype, lambda a, b, c: function(a))
    for options in ({"target": "interpret"}, {"target": "cuda", "execution": "emulate"}):
        out = np.full(N, -7, dtype)
        tl.compile(kernel, **options)(values, values, values, out)
        np.testing.assert_allclose(out, wanted, rtol=2e-6 if dtype == "float32" else 2e-3)


@pytest.mark.emulate
def test_a_fast_reciprocal_flushes_subnormal_numbers(agree: Any) -> None:
    values = np.full(N, 1.0, "float32")
    values[:4] = [1e-40, -1e-40, 3e38, -3e38]
    out = agree(elementwise("float32", lambda a, b, c: T.fast_rcp(a)), values, values, values, np.zeros(N, "float32"))[
        3
    ]
    assert out[:4].tolist() == [np.inf, -np.inf, 0, 0]
    assert np.signbit(out[3])


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_the_lowest_bit(dtype: str, agree: Any) -> None:
    bits = np.iinfo(dtype).bits
    values = np.array([0, *(1 << (i % (bits - 1)) for i in range(N - 1))], dtype)
    values[2], values[3] = 12, np.iinfo(dtype).max
    kernel = elementwise(dtype, lambda a, b, c: T.__ffs(a), "int32")
    out = agree(kernel, values, values, values, np.zeros(N, "int32"))[3]
    np.testing.assert_array_equal(out, [(int(v) & -int(v)).bit_length() for v in values])
    everywhere = np.zeros(N, "int32")
    tl.compile(kernel, target="cpu")(values, values, values, everywhere)
    np.testing.assert_array_equal(everywhere, out)


@pytest.mark.emulate
def test_the_nth_bit(agree: Any) -> None:
    rng = np.random.default_rng(5)
    masks = rng.integers(0, 1 << 32, N, dtype=np.uint64).astype("uint32")
    bases, offsets = rng.integers(0, 32, N).astype("uint32"), rng.integers(-12, 12, N).astype("int32")
    masks[:2] = [0, 0xFFFFFFFF]

    @T.prim_func
    def kernel(
        A: T.Tensor((N,), "uint32"),
        B: T.Tensor((N,), "uint32"),
        C: T.Tensor((N,), "int32"),
        D: T.Tensor((N,), "uint32"),
    ):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                D[i] = T.__fns(A[i], B[i], C[i])

    out = agree(kernel, masks, bases, offsets, np.zeros(N, "uint32"))[3]
    for mask, base, offset, found in zip(masks.tolist(), bases.tolist(), offsets.tolist(), out.tolist(), strict=True):
        ones = [at for at in range(32) if mask >> at & 1]
        if offset == 0:
            wanted = [at for at in ones if at == base]
        elif offset > 0:
            wanted = [at for at in ones if at >= base][offset - 1 :]
        else:
            wanted = [at for at in reversed(ones) if at <= base][-offset - 1 :]
        assert found == (wanted[0] if wanted else 0xFFFFFFFF)


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float16", "int8", "bool", "float64"])
def test_reads_through_the_read_only_cache(dtype: str, agree: Any) -> None:
    values = (np.arange(N) % 2).astype(dtype)

    @T.prim_func
    def kernel(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            for step in range(4):
                B[step * 64 + t] = T.__ldg(A[step * 64 + t])

    np.testing.assert_array_equal(agree(kernel, values, np.zeros(N, dtype))[1], values)


@pytest.mark.emulate
def test_a_product_is_not_fused(agree: Any) -> None:
    a, b, c = (operands("float32", seed) for seed in range(3))
    out = agree(elementwise("float32", lambda a, b, c: T.fmul(a, b) + c), a, b, c, np.zeros(N, "float32"))[3]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, a * b + c)


def test_a_target_without_the_instruction_refuses_it() -> None:
    with pytest.raises(UnsupportedOnTargetError, match="add_rz"):
        tl.compile(elementwise("float32", ROUNDED["add"]("rz")), target="cpu")


def test_refusals() -> None:
    with pytest.raises(OpArgumentError, match="rounding_mode='up'"):
        elementwise("float32", lambda a, b, c: T.ieee_add(a, b, "up"))
    for dtype, body in (
        ("int32", lambda a, b, c: T.__exp(a)),
        ("float16", lambda a, b, c: T.ieee_mul(a, b)),
        ("float64", lambda a, b, c: T.ieee_frsqrt(a)),
        ("float64", lambda a, b, c: T.fast_rcp(a)),
        ("int32", lambda a, b, c: T.fmul(a, b)),
        ("float32", lambda a, b, c: T.fmul(a, T.cast(b, "float16"))),
        ("int8", lambda a, b, c: T.__ffs(a)),
    ):
        with pytest.raises(OpDTypeError):
            elementwise(dtype, body)


@pytest.mark.compile
def test_everything_compiles(build: Any) -> None:
    def all_rounded(a: Any, b: Any, c: Any) -> Any:
        total = a
        for function in ROUNDED.values():
            for mode in MODES:
                total = total + function(mode)(a, b, c)
        return total

    def all_single(a: Any, b: Any, c: Any) -> Any:
        total = all_rounded(a, b, c) + T.ieee_frsqrt(a) + T.fmul(a, b)
        for function, _expected, _most in FAST.values():
            total = total + function(a)
        return total + T.__fns(T.__ffs(T.cast(a, "int64")), 3, -1)

    source = build(elementwise("float32", all_single))
    assert "__fadd_rz(" in source
    assert "__frsqrt_rn(" in source
    assert "__dsqrt_ru(" in build(elementwise("float64", all_rounded))

    @T.prim_func
    def cached(A: T.Tensor((N,), "float16"), I: T.Tensor((N,), "int8"), B: T.Tensor((N,), "float16")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t] = T.__ldg(A, t) + T.cast(T.__ldg(I[t]), "float16")

    assert "__ldg(&A[tx])" in build(cached)


@pytest.mark.emulate
def test_random_numbers_are_the_same_everywhere(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 64), "uint32"), F: T.Tensor((4, 64), "float32"), D: T.Tensor((4, 64), "float64")):
        with T.Kernel(2, threads=64) as block:
            t = T.get_thread_binding()
            T.rng_init(12345, off=3)
            for row in range(2):
                A[block * 2 + row, t] = T.rng_rand()
                F[block * 2 + row, t] = T.rng_rand_float()
                D[block * 2 + row, t] = T.rng_rand_float(bit=64)

    numbers, floats, doubles = agree(
        kernel, np.zeros((4, 64), "uint32"), np.zeros((4, 64), "float32"), np.zeros((4, 64), "float64")
    )
    assert len(np.unique(numbers)) > 250
    for drawn in (floats, doubles):
        assert ((drawn > 0) & (drawn <= 1)).all()
        assert abs(drawn.mean() - 0.5) < 0.1
