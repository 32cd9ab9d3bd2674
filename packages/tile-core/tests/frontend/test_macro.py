"""T.macro: arguments, references, returned values, recursion, and where its errors point."""

# The programs under test are written as users write them.
# ruff: noqa: F841, RET504
from __future__ import annotations

import sys

import pytest
import torch

import tile_core.language as T
from tile_core.errors import (
    CallSignatureError,
    ControlFlowError,
    IndexRangeError,
    MacroArgumentError,
    NoBuilderError,
    StatementInExpressionError,
    UndefinedNameError,
)

Ints = T.Tensor((8,), T.int32)


def zeros(*shape: int) -> torch.Tensor:
    """A poisoned output: no test expects -77."""
    return torch.full(shape, -77, dtype=torch.int32)


def arange() -> torch.Tensor:
    return torch.arange(8, dtype=torch.int32)


@T.macro
def scale(dst, src, factor, *, offset=0):
    """dst = src * factor + offset."""
    for i in T.Parallel(8):
        dst[i] = src[i] * factor + offset


@T.macro
def swap(a: T.Ref, b: T.Ref):
    a, b = b, a


@T.macro
def bump(x: T.Ref, by=1):
    x += by


@T.macro
def clamp(x, low, high):
    bounded = T.max(T.min(x, high), low)
    return bounded, x != bounded


@T.macro
def power(x, n):
    if n == 0:
        return 1
    if n % 2:
        return x * power(x, n - 1)
    half = power(x, n // 2)
    return half * half


def test_buffers_keywords_and_defaults(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            scale(B, A, 3, offset=1)

    b = zeros(8)
    run(kernel, arange(), b)
    assert b.tolist() == [3 * i + 1 for i in range(8)]


def test_references_to_variables_and_elements(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            x = T.alloc_var(T.int32, init=10)
            y = T.alloc_var(T.int32, init=20)
            swap(x, y)
            bump(x)
            bump(A[3], by=5)
            swap(A[0], A[1])
            B[0] = x
            B[1] = y

    a, b = arange(), zeros(8)
    run(kernel, a, b)
    assert b[:2].tolist() == [21, 10]
    assert a.tolist() == [1, 0, 2, 8, 4, 5, 6, 7]


def test_an_element_by_reference_keeps_its_indices(run):
    @T.macro
    def fill(x: T.Ref, i):
        i = i + 1
        x = i

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                fill(A[i], i)

    a = zeros(8)
    run(kernel, a)
    assert a.tolist() == [1, 2, 3, 4, -77, -77, -77, -77]


def test_values_are_passed_by_value(run):
    @T.macro
    def overwrite(v, A):
        A[0] = 100
        v = v + 1
        return v

    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            x = T.alloc_var(T.int32, init=1)
            B[0] = overwrite(x, A)
            B[1] = x
            B[2] = overwrite(A[1] + 0, A)

    b = zeros(8)
    run(kernel, arange(), b)
    assert b[:3].tolist() == [2, 1, 2]


def test_returned_tuples_and_nested_calls(run):
    @T.macro
    def outer(A, i):
        value, clipped = clamp(A[i], 2, 5)
        return value + T.cast(clipped, T.int32) * 100

    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                B[i] = outer(A, i)

    b = zeros(8)
    run(kernel, arange(), b)
    assert b.tolist() == [102, 102, 2, 3, 4, 5, 105, 105]


def test_recursion_on_a_python_condition(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                B[i] = power(A[i], 5)

    b = zeros(8)
    run(kernel, arange(), b)
    assert b.tolist() == [i**5 for i in range(8)]


def test_names_are_the_macros_own(run):
    @T.macro
    def noisy(A):
        tmp = A[0] + 5
        A[1] = tmp

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            tmp = A[2]
            noisy(A)
            A[3] = tmp

    a = arange()
    run(kernel, a)
    assert a[:4].tolist() == [0, 5, 2, 2]


def test_variable_arguments_and_methods(run):
    class Adder:
        def __init__(self, amount):
            self.amount = amount

        @T.macro
        def add(self, A, *indices):
            for k in indices:
                A[k] += self.amount

    adder = Adder(10)

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            adder.add(A, 1, 3)

    a = arange()
    run(kernel, a)
    assert a.tolist() == [0, 11, 2, 13, 4, 5, 6, 7]


def test_a_variable_made_by_a_macro_is_returned_by_value(run):
    @T.macro
    def total(A):
        acc = T.alloc_var(T.int32, init=0)
        for i in T.serial(8):
            acc += A[i]
        return acc

    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            B[0] = total(A)
            t = total(A)
            B[1] = t + total(A)

    b = zeros(8)
    run(kernel, arange(), b)
    assert b[:2].tolist() == [28, 56]


def test_errors_point_into_the_macro(refused):
    @T.macro
    def bad(A):
        A[0] = 1
        A[9] = 1

    with refused(IndexRangeError, at="A[9] = 1"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                bad(A)

    @T.macro
    def misspelt(A):
        A[0] = undefinedd + 1  # noqa: F821

    with refused(UndefinedNameError, at="undefinedd + 1", naming=("undefinedd",)):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                misspelt(A)


def test_the_position_returns_to_the_caller(refused):
    with refused(IndexRangeError, at="A[10] = 1"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                bump(A[0])
                A[10] = 1


def test_wrong_arguments(refused):
    with refused(MacroArgumentError, at="bump(3)", naming=("x", "T.Ref")):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                bump(3)

    with refused(CallSignatureError, at="bump(A[0], A[1], A[2])", naming=("bump",)):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                bump(A[0], A[1], A[2])


def test_return_under_a_device_condition(refused):
    @T.macro
    def early(A):
        if A[0] > 0:
            return 1
        return 2

    with refused(ControlFlowError, at="return 1"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                A[1] = early(A)


def test_return_in_a_macro_called_in_a_loop_is_fine(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                if A[i] > 3:
                    B[i] = power(A[i], 2)

    b = zeros(8)
    run(kernel, arange(), b)
    assert b.tolist() == [-77] * 4 + [16, 25, 36, 49]


def test_a_macro_with_statements_in_an_expression_that_may_not_be_evaluated(refused):
    @T.macro
    def storing(A):
        A[0] = 1
        return A[1]

    with refused(StatementInExpressionError, at="A[0] = 1"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                A[2] = storing(A) if A[3] > 0 else 0


@pytest.fixture(params=[None, 100_000], ids=["", "deep"])
def limit_on_recursion(request):
    """Python's own, and one that the C stack would not last for."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param or before)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("limit_on_recursion")
def test_endless_recursion(refused):
    @T.macro
    def forever(A):
        forever(A)

    with refused(ControlFlowError, naming=("without end",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                forever(A)


def test_outside_of_a_trace():
    with pytest.raises(NoBuilderError, match="T.prim_func"):
        bump(3)


def test_plain_helpers_may_store_and_must_not_branch(run, refused):
    from tile_core.errors import DeviceValueAsBoolError

    def helper(A, k):
        A[k] = A[k] + 1

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                helper(A, i)

    a = arange()
    run(kernel, a)
    assert a.tolist() == list(range(1, 9))

    def branching(A):
        if A[0] > 0:
            A[0] = 1

    with refused(DeviceValueAsBoolError, at="if A[0] > 0", naming=("T.macro",)):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                branching(A)


def test_macros_that_only_compute_in_lazily_evaluated_expressions(run):
    @T.macro
    def clipped(x, low=2):
        bounded = T.min(x, 5)
        return T.max(bounded, low)

    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                B[i] = clipped(A[i]) if i > 1 else clipped(A[i], low=0)
            n = T.alloc_var(T.int32, init=0)
            while clipped(n, low=0) < 4 and A[n + 4] > 0:
                n += 1
            B[6] = n

    b = zeros(8)
    run(kernel, torch.tensor([-3, 9, 1, 7, 1, 2, 0, 5], dtype=torch.int32), b)
    assert b.tolist() == [0, 5, 2, 5, -77, -77, 2, -77]
