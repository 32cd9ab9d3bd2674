"""`break` and `continue` at every place, against Python's own."""

from __future__ import annotations

import numpy as np

import tile_core as tl
import tile_core.language as T


def test_break_and_continue_between_statements() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), "int32"), Out: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            for i in T.serial(40):
                Out[0] = Out[0] + 1
                if A[i] < 0:
                    break
                Out[1] = Out[1] + A[i]
                if A[i] % 2 == 0:
                    continue
                Out[2] = Out[2] + A[i]

    run = tl.compile(kernel, target="cpu")
    for stop in (0, 1, 17, 39, 40):
        a = np.arange(1, 41, dtype=np.int32)
        a[stop:] = -1
        out, expected = np.zeros(3, np.int32), np.zeros(3, np.int32)
        run(a, out)
        for value in a:
            expected[0] += 1
            if value < 0:
                break
            expected[1] += value
            if value % 2 == 0:
                continue
            expected[2] += value
        assert np.array_equal(out, expected)


def test_inner_and_outer_loops_are_left_separately() -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((12, 12), "int32")):
        with T.Kernel(1):
            for i in T.serial(12):
                if i == 9:
                    break
                for j in T.serial(12):
                    if j == 2:
                        continue
                    if j > i:
                        break
                    Out[i, j] = 1
                if i % 2 == 1:
                    continue
                Out[i, 11] = 2

    out, expected = np.zeros((12, 12), np.int32), np.zeros((12, 12), np.int32)
    tl.compile(kernel, target="cpu")(out)
    for i in range(9):
        expected[i, [j for j in range(i + 1) if j != 2]] = 1
        if i % 2 == 0:
            expected[i, 11] = 2
    assert np.array_equal(out, expected)


def test_a_while_loop_that_breaks_does_not_test_its_condition_again() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), Out: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            at = T.alloc_var("int32", 0)
            while A[at] >= 0:
                at = at + 1
                if at == 16:
                    break
            Out[0] = at

    out = np.zeros(1, np.int32)
    run = tl.compile(kernel, target="cpu")
    run(np.ones(16, np.int32), out)
    assert out[0] == 16
    run(np.array([1, 1, -1] + [1] * 13, np.int32), out)
    assert out[0] == 2


def test_steps_and_starts_are_kept() -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((32,), "int32")):
        with T.Kernel(1):
            for i in T.serial(3, 30, 4):
                if i > 20:
                    break
                Out[i] = 1

    out, expected = np.zeros(32, np.int32), np.zeros(32, np.int32)
    tl.compile(kernel, target="cpu")(out)
    expected[3:21:4] = 1
    assert np.array_equal(out, expected)


def test_an_immutable_name_after_an_exit_is_still_defined() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), Out: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.serial(8):
                if A[i] == 3:
                    continue
                doubled = A[i] * 2
                Out[i] = doubled + doubled

    a, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    tl.compile(kernel, target="cpu")(a, out)
    assert np.array_equal(out, np.where(a == 3, 0, 4 * a))
