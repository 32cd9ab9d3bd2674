"""Python numbers that go into memory: what a dtype holds is stored, anything else is refused at its line."""

from __future__ import annotations

import pytest
import torch

import tile_core.language as T
from tile_core.errors import ConstantRangeError, LoopArgumentError, OperandError
from tile_core.frontend.exprs import unwrap_cast, unwrap_stored

HUGE = 10**5000
"""Python refuses to print it."""


def name_of(value):
    """A test's name for a value; pytest would print the number."""
    return "huge" if value == HUGE else None


@pytest.mark.parametrize(
    ("dtype", "number", "stored"),
    [
        ("int8", 127, 127),
        ("int8", -128, -128),
        ("uint8", 255, 255),
        ("uint8", -1, 255),
        ("uint8", -128, 128),
        ("int8", 127.9, 127),
        ("uint8", -0.5, 0),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("int64", -(2**63), -(2**63)),
        ("bool", 300, 1),
        ("int4", 7, 7),
        ("uint4", -8, 8),
    ],
)
def test_what_a_dtype_holds_is_stored(dtype, number, stored):
    assert int(unwrap_stored(number, T.dtype(dtype)).value) == stored


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("int8", 128),
        ("int8", -129),
        ("int8", 300.5),
        ("uint8", 256),
        ("uint8", -129),
        ("int4", 8),
        ("uint64", 2**64),
        ("int32", float("inf")),
        ("int32", float("nan")),
        ("float16", 1e30),
        ("float32", HUGE),
        ("float64", HUGE),
        ("int64", HUGE),
    ],
    ids=name_of,
)
def test_what_it_does_not_hold_is_refused(dtype, number):
    with pytest.raises(ConstantRangeError, match=dtype):
        unwrap_stored(number, T.dtype(dtype))


@pytest.mark.parametrize(
    ("dtype", "number", "converted"),
    [
        ("int8", 300, 44),
        ("uint8", -1, 255),
        ("int32", HUGE, 0),
        ("int8", 300.5, 127),
        ("int8", -300.5, -128),
        ("uint8", -3.5, 0),
        ("int32", float("inf"), 2**31 - 1),
        ("int32", float("-inf"), -(2**31)),
        ("int32", float("nan"), 0),
        ("int64", 1e300, 2**63 - 1),
    ],
    ids=name_of,
)
def test_a_cast_wraps_integers_and_saturates_floats(dtype, number, converted):
    assert int(unwrap_cast(number, T.dtype(dtype)).value) == converted


STORES = {
    "A[0] = 300": lambda A: A.__setitem__(0, 300),
    "T.fill": lambda A: T.fill(A, 300),
    "T.fill of a slice": lambda A: T.fill(A[0:2], 300),
    "T.atomic_add": lambda A: T.atomic_add(A[0], 300),
    "T.atomic_add of a tile": lambda A: T.atomic_add(A, 300),
    "T.atomic_store": lambda A: T.atomic_store(A[0], 300),
}


@pytest.mark.parametrize("name", STORES)
def test_every_store_refuses_it(name, refused):
    with refused(ConstantRangeError, at="300", naming=("300", "int8")):

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.int8)):
            with T.Kernel(1):
                STORES[name](A)


def test_variables_and_annotations_refuse_it(refused):
    with refused(ConstantRangeError, at="init=300", naming=("300", "int8")):

        @T.prim_func
        def initial(A: T.Tensor((8,), T.int8)):
            with T.Kernel(1):
                T.alloc_var(T.int8, init=300)

    with refused(ConstantRangeError, at="x: T.int8 = 300", naming=("300", "int8")):

        @T.prim_func
        def annotated(A: T.Tensor((8,), T.int8)):
            with T.Kernel(1):
                x: T.int8 = 300
                A[0] = x


def test_numbers_that_no_dtype_holds(refused):
    with refused(ConstantRangeError, at="A[0] + HUGE", naming=("-bit integer",)):

        @T.prim_func
        def beside(A: T.Tensor((8,), T.float32)):
            with T.Kernel(1):
                A[0] = A[0] + HUGE

    with refused(LoopArgumentError, at="range(HUGE)", naming=("-bit integer", "range")):

        @T.prim_func
        def bound(A: T.Tensor((8,), T.float32)):
            with T.Kernel(1):
                for _ in range(HUGE):
                    A[0] = 1


def test_a_loop_over_more_iterations_than_its_bounds_dtype_holds():
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1):
            for i in T.serial(-(2**31), 2**31 - 1):
                A[0] = i

    assert "int64" in kernel.script()


@pytest.mark.parametrize("other", [None, 3, "text"])
def test_equality_is_of_values(other, refused):
    with refused(OperandError, at="A[0] == other" if other is None else "other == A", naming=("==",)):

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.int32)):
            with T.Kernel(1):
                if other is None and A[0] == other:
                    A[0] = 1
                A[1] = other == A


def test_a_whole_buffer_is_compared_with_none_by_identity(run):
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1):
            A[0] = 1 if A != None else 2  # noqa: E711
            A[1] = 1 if A == None else 2  # noqa: E711
            A[2] = 1 if A is None else 2
            A[3] = 1 if A.dtype == T.int32 and A.shape == (8,) else 2

    a = torch.zeros(8, dtype=torch.int32)
    run(kernel, a)
    assert a[:4].tolist() == [1, 2, 2, 1]
