"""Arithmetic that compilers like to get wrong: division, NaN, infinities, wrapping, conversions."""

from __future__ import annotations

import math

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("dtypes")
FUNCTIONS = (
    *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh"),
    *("sigmoid", "abs", "floor", "ceil", "sin", "cos", "erf"),
)
SPECIAL = [0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 3.4e38, 1e-40, 2.5]


@TABLE(case="D9")
def integer_division_floors_and_truncates(run: Run) -> None:
    values = list(range(-7, 8))
    n = len(values)
    for divisor in (3, -3):
        for constant in (True, False):

            @T.prim_func
            def kernel(A: T.Tensor((n,), T.int32), D: T.Tensor((1,), T.int32), Out: T.Tensor((4, n), T.int32)):
                with T.Kernel(1, threads=32):
                    for i in T.Parallel(n):
                        d = divisor if constant else D[0]
                        Out[0, i] = A[i] // d
                        Out[1, i] = A[i] % d
                        Out[2, i] = T.truncdiv(A[i], d)
                        Out[3, i] = T.truncmod(A[i], d)

            out = run.empty(4, n, dtype="int32")
            run(kernel, run.tensor(values, "int32"), run.tensor([divisor], "int32"), out)
            truncated = [int(v / divisor) for v in values]
            run.equal(out[0], [v // divisor for v in values])
            run.equal(out[1], [v % divisor for v in values])
            run.equal(out[2], truncated)
            run.equal(out[3], [v - t * divisor for v, t in zip(values, truncated, strict=True)])


@TABLE(case="D10")
def float_floor_division_is_refused(run: Run) -> None:
    with run.raises(TypeError):

        @T.prim_func
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(4):
                    A[i] = A[i] // 2.0


@TABLE()
def special_values_are_not_algebra(run: Run) -> None:
    n = len(SPECIAL)

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), Out: T.Tensor((6, n), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                x = A[i]
                Out[0, i] = x - x
                Out[1, i] = x * 0.0
                Out[2, i] = T.if_then_else(x != x, 1.0, 0.0)
                Out[3, i] = T.if_then_else(x == x, 1.0, 0.0)
                Out[4, i] = T.if_then_else(x != 1.0, 1.0, 0.0)
                Out[5, i] = x / x

    a, out = run.tensor(SPECIAL), run.empty(6, n)
    run(kernel, a, out)
    expected = torch.stack([a - a, a * 0, (a != a).float(), (a == a).float(), (a != 1).float(), a / a])
    run.equal(out, expected)


@TABLE(case="R14")
def minimum_and_maximum_propagate_nan(run: Run) -> None:
    n = len(SPECIAL)

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), Out: T.Tensor((4, n), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                Out[0, i] = T.max(A[i], 1.0)
                Out[1, i] = T.max(1.0, A[i])
                Out[2, i] = T.min(A[i], 1.0)
                Out[3, i] = T.min(1.0, A[i])

    a, out = run.tensor(SPECIAL), run.empty(4, n)
    run(kernel, a, out)
    one = torch.ones(n)
    run.equal(out, torch.stack([torch.maximum(a, one)] * 2 + [torch.minimum(a, one)] * 2))


@TABLE(case="D6", needs=("bfloat16",))
def mathematical_functions(run: Run) -> None:
    values = [*SPECIAL, 0.1, 0.7, 20.0, -20.0, 88.0, 100.0, -100.0, 5.3, -0.3, 3.0, 1e-3, 700.0]
    n = len(values)
    for dtype in ("float32", "float16", "bfloat16"):
        for name in FUNCTIONS:
            function = getattr(T, name)

            @T.prim_func
            def kernel(A: T.Tensor((n,), dtype), Out: T.Tensor((n,), dtype)):
                with T.Kernel(1, threads=32):
                    for i in T.Parallel(n):
                        Out[i] = function(A[i])

            a, out = run.tensor(values, dtype), run.empty(n, dtype=dtype)
            run(kernel, a, out)
            expected = getattr(torch, name)(a.double()).to(out.dtype)
            # sin and cos are compared where the argument is reduced exactly; denormal inputs may be flushed to zero
            rows = a.abs() < 1e6 if name in ("sin", "cos") else torch.ones_like(a, dtype=torch.bool)
            rows |= ~a.isfinite()
            tiny = torch.finfo(torch.float32).tiny
            flushed = (a.abs() > 0) & (a.abs() < tiny)
            rows &= ~flushed
            tolerance = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
            run.close(out[rows], expected[rows], rtol=tolerance, atol=tolerance)


@TABLE(case="D7")
def constants_keep_their_bits(run: Run) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((3,), T.float32)):
        with T.Kernel(1, threads=32):
            Out[0] = T.ceil(T.float32(8388608.5))
            Out[1] = T.float32(0.1)
            Out[2] = T.infinity("float32")

    out = run.empty(3)
    run(kernel, out)
    run.equal(out, torch.tensor([8388608.0, 0.1, math.inf]))


@TABLE(case="D14")
def a_double_variable_keeps_its_range(run: Run) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((1,), T.float64)):
        with T.Kernel(1, threads=32):
            v = T.alloc_var("float64", init=1e300)
            Out[0] = v

    out = run.empty(1, dtype="float64")
    run(kernel, out)
    run.equal(out, torch.tensor([1e300], dtype=torch.float64))


@TABLE(case="D15", needs=("bfloat16",))
def scalar_parameters(run: Run) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((2,), T.float32), x: T.bfloat16, n: T.uint32):
        with T.Kernel(1, threads=32):
            Out[0] = x
            Out[1] = T.cast(n, "float32")

    out = run.empty(2)
    run(kernel, out, 1.5, 7)
    run.equal(out, [1.5, 7.0])


@TABLE(needs=("int8", "int64"))
def shifts_by_any_amount(run: Run) -> None:
    amounts = [-(2**31), -1, 0, 1, 7, 8, 31, 32, 33, 63, 64, 100, 2**31 - 1]
    n = len(amounts)

    for dtype in ("int32", "int64", "uint32", "int8"):

        @T.prim_func
        def kernel(A: T.Tensor((n,), dtype), By: T.Tensor((n,), T.int32), Out: T.Tensor((3, n), dtype)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    Out[0, i] = A[i] << T.cast(By[i], dtype)
                    Out[1, i] = A[i] >> T.cast(By[i], dtype)
                    Out[2, i] = A[i] << (i * 3 - 2)

        a = run.integers(n, low=0 if dtype == "uint32" else -100, high=100, dtype=dtype)
        by, out = run.tensor(amounts, "int32"), run.empty(3, n, dtype=dtype)
        run(kernel, a, by, out)
        bits = a.element_size() * 8
        values, given = a.tolist(), by.to(a.dtype).tolist()
        run.equal(out[0], _wrapped([_shifted(x, y, bits) for x, y in zip(values, given, strict=True)], a))
        run.equal(out[1], _wrapped([_shifted(x, y, bits, right=True) for x, y in zip(values, given, strict=True)], a))
        run.equal(out[2], _wrapped([_shifted(x, i * 3 - 2, bits) for i, x in enumerate(values)], a))


def _shifted(value: int, amount: int, bits: int, *, right: bool = False) -> int:
    """A shift of any amount: a negative one, and one of at least the number of bits, shifts everything out."""
    inside = 0 <= amount < bits
    if right:
        return value >> (amount if inside else bits)
    return value << amount if inside else 0


def _wrapped(values: list[int], like: torch.Tensor) -> torch.Tensor:
    bits = like.element_size() * 8
    low = 0 if like.dtype == torch.uint32 else -(2 ** (bits - 1))
    return torch.tensor([(value - low) % 2**bits + low for value in values], device=like.device).to(like.dtype)


@TABLE()
def integers_wrap_and_shift(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((6,), T.int32), Out: T.Tensor((5, 6), T.int32), Narrow: T.Tensor((6,), T.int8)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(6):
                Out[0, i] = A[i] * A[i]
                Out[1, i] = A[i] >> 1
                Out[2, i] = A[i] << 3
                Out[3, i] = (A[i] & 12) | (A[i] ^ 3)
                Out[4, i] = ~A[i]
                Narrow[i] = T.cast(A[i], "int8")

    a = run.tensor([-1, 0, 5, -100, 2**31 - 1, -(2**31)], "int32")
    out, narrow = run.empty(5, 6, dtype="int32"), run.empty(6, dtype="int8")
    run(kernel, a, out, narrow)
    run.equal(out, torch.stack([a * a, a >> 1, a << 3, (a & 12) | (a ^ 3), ~a]))
    run.equal(narrow, a.to(torch.int8))


@TABLE()
def integers_from_memory_and_arguments_wrap(run: Run) -> None:
    edge = 2**31 - 4
    values = [2**31 - 1, -(2**31), 5, 2**30, -(2**30), 0, 2**29, 1]

    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32), n: T.int32, Out: T.Tensor((6, 8), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                loaded = A[i]
                eightfold = loaded * 8
                moved = n + i
                Out[0, i] = T.if_then_else(loaded + 1 > loaded, 1, 0)
                Out[1, i] = T.if_then_else(eightfold // 8 == loaded, 1, 0)
                Out[2, i] = T.if_then_else(moved > n, 1, 0)
                Out[3, i] = n * 8 // 8
                Out[4, i] = moved // 2
                Out[5, i] = A[(moved - n) * 2 - n * 2 + n + n]

    a, out = run.tensor(values, "int32"), run.empty(6, 8, dtype="int32")
    run(kernel, a, edge, out)
    moved = [(edge + i + 2**31) % 2**32 - 2**31 for i in range(8)]
    expected = [
        [int(value != 2**31 - 1) for value in values],
        [int(-(2**28) <= value < 2**28) for value in values],
        [int(value > edge) for value in moved],
        [-4] * 8,
        [value // 2 for value in moved],
        [*values[::2], 0, 0, 0, 0],
    ]
    run.equal(out, expected)


@TABLE(case="V6")
def logic_on_booleans(run: Run) -> None:
    n = 1000

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.bool), B: T.Tensor((n,), T.bool), Out: T.Tensor((5, n), T.bool)):
        with T.Kernel(1, threads=96):
            for i in T.Parallel(n):
                Out[0, i] = ~A[i]
                Out[1, i] = not A[i]
                Out[2, i] = A[i] & B[i]
                Out[3, i] = A[i] | B[i]
                Out[4, i] = A[i] ^ B[i]

    a, b = run.integers(n, low=0, high=2, dtype="bool"), run.integers(n, low=0, high=2, dtype="bool")
    out = run.empty(5, n, dtype="bool")
    run(kernel, a, b, out)
    run.equal(out, torch.stack([~a, ~a, a & b, a | b, a ^ b]))


@TABLE(case="D4", needs=("bfloat16",))
def nan_and_infinity_survive_bfloat16(run: Run) -> None:
    n = len(SPECIAL)

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.bfloat16), C: T.Tensor((n,), T.float32)):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((n,), T.bfloat16)
            T.copy(A, f)
            T.copy(f, B)
            for i in T.Parallel(n):
                C[i] = f[i] * T.bfloat16(2.0)

    a, b, c = run.tensor(SPECIAL), run.empty(n, dtype="bfloat16"), run.empty(n)
    run(kernel, a, b, c)
    run.equal(b, a.bfloat16())
    run.equal(c, (a.bfloat16() * 2).float())


def _check_every_code(run: Run, *dtypes: str) -> None:
    """Every code of 8-bit floats becomes the float32 that torch's table says."""
    codes = torch.arange(256, dtype=torch.uint8)
    for dtype in dtypes:

        @T.prim_func
        def kernel(A: T.Tensor((256,), T.uint8), B: T.Tensor((256,), T.float32)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(256):
                    B[i] = T.cast(T.reinterpret(A[i], dtype), "float32")

        b = run.empty(256)
        run(kernel, codes, b)
        run.equal(b, codes.view(getattr(torch, dtype)).float())


@TABLE(case="D3", needs=("float8",))
def every_code_of_the_eight_bit_floats(run: Run) -> None:
    _check_every_code(run, "float8_e4m3fn", "float8_e5m2")


@TABLE(case="D3", needs=("float8_fnuz",))
def every_code_of_the_eight_bit_floats_without_infinity(run: Run) -> None:
    _check_every_code(run, "float8_e4m3fnuz", "float8_e5m2fnuz")


@TABLE(case="D3", needs=("float8_e8m0fnu",))
def every_code_of_the_exponents(run: Run) -> None:
    _check_every_code(run, "float8_e8m0fnu")


@TABLE(case="V4")
def broadcast_constants_of_small_integers(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), T.int8), B: T.Tensor((32,), T.uint8)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                A[i] = T.int8(-37)
                B[i] = T.uint8(213)

    a, b = run.empty(32, dtype="int8"), run.empty(32, dtype="uint8")
    run(kernel, a, b)
    run.equal(a, torch.full((32,), -37, dtype=torch.int8))
    run.equal(b, torch.full((32,), 213, dtype=torch.uint8))


@TABLE(needs=("float16",))
def half_precision_arithmetic(run: Run) -> None:
    n = 200

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float16), B: T.Tensor((n,), T.float16), C: T.Tensor((n,), T.float16)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                C[i] = A[i] * B[i] + A[i]

    a, b, c = run.randn(n, dtype="float16"), run.randn(n, dtype="float16"), run.empty(n, dtype="float16")
    run(kernel, a, b, c)
    # A product and the sum that uses it may be fused, which rounds once instead of twice.
    run.close(c, a.double() * b.double() + a.double(), rtol=2e-3, atol=2e-3)


@TABLE()
def floats_become_integers_by_truncation(run: Run) -> None:
    values = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 2.5, 1e6, -1e6, 123456.78]
    n = len(values)

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = T.cast(A[i], "int32")

    a, b = run.tensor(values), run.empty(n, dtype="int32")
    run(kernel, a, b)
    run.equal(b, a.to(torch.int32))


@TABLE(needs=("float64",))
def doubles_keep_their_precision(run: Run) -> None:
    n = 33

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float64), B: T.Tensor((n,), T.float64)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * A[i] - T.float64(1e-15)

    a, b = torch.rand(n, dtype=torch.float64), run.empty(n, dtype="float64")
    run(kernel, a, b)
    run.close(b, a * a - 1e-15, rtol=1e-15, atol=1e-16)


@TABLE(needs=("int64",))
def wide_integers(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), T.int64), B: T.Tensor((4,), T.int64)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = A[i] * 3 + (A[i] >> 33)

    a, b = run.tensor([2**40 + 1, -(2**50), 7, -1], "int64"), run.empty(4, dtype="int64")
    run(kernel, a, b)
    run.equal(b, a * 3 + (a >> 33))
