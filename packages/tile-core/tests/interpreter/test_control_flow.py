"""Control flow, in uniform code and where the iterations of `T.Parallel` go different ways."""

# ruff: noqa: B007, F841, RUF021, SIM108 - kernel code is traced, not run
from __future__ import annotations

import pytest
import torch

import tile_core.language as T

N = 37


def run(interpret, body, n=N):
    """`body(i)` gives an int32 for every i; it runs in a serial loop and in T.Parallel."""

    @T.prim_func
    def serial(Out: T.Tensor((n,), "int32")):
        with T.Kernel(1):
            for i in T.serial(n):
                total = T.alloc_var("int32", init=0)
                body(i, total)
                Out[i] = total

    @T.prim_func
    def parallel(Out: T.Tensor((n,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                total = T.alloc_var("int32", init=0)
                body(i, total)
                Out[i] = total

    results = []
    for program in (serial, parallel):
        out = torch.full((n,), -999, dtype=torch.int32)
        interpret(program, out)
        results.append(out.tolist())
    assert results[0] == results[1]
    return results[0]


def test_break_and_continue_in_serial_loops(interpret):
    @T.macro
    def body(i, total: T.Ref):
        for k in T.serial(20):
            if k % 3 == i % 3:
                continue
            if k > i:
                break
            total += k

    def expected(i):
        total = 0
        for k in range(20):
            if k % 3 == i % 3:
                continue
            if k > i:
                break
            total += k
        return total

    assert run(interpret, body) == [expected(i) for i in range(N)]


def test_break_leaves_only_the_inner_loop(interpret):
    @T.macro
    def body(i, total: T.Ref):
        for a in T.serial(i % 5):
            for b in T.serial(10):
                if b == a + i % 4:
                    break
                total += 1
            total += 100

    assert run(interpret, body) == [sum(100 + min(10, a + i % 4) for a in range(i % 5)) for i in range(N)]


def test_while_ends_at_different_times(interpret):
    @T.macro
    def body(i, total: T.Ref):
        n = T.alloc_var("int32", init=i + 1)
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            total += 1

    def collatz(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    assert run(interpret, body) == [collatz(i + 1) for i in range(N)]


def test_while_with_break(interpret):
    @T.macro
    def body(i, total: T.Ref):
        while total < 50:
            total += i + 1
            if total > 20:
                break

    def expected(i):
        total = 0
        while total < 50:
            total += i + 1
            if total > 20:
                break
        return total

    assert run(interpret, body) == [expected(i) for i in range(N)]


def test_nested_conditions(interpret):
    @T.macro
    def body(i, total: T.Ref):
        if i < 10:
            if i % 2 == 0:
                total = 1
            else:
                total = 2
        elif i < 20 and i != 15 or i == 30:
            total = 3
        else:
            total = 4 if not (i > 33) else 5

    def expected(i):
        if i < 10:
            return 1 if i % 2 == 0 else 2
        if (i < 20 and i != 15) or i == 30:
            return 3
        return 4 if not i > 33 else 5

    assert run(interpret, body) == [expected(i) for i in range(N)]


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 10, 3), (3, 4, 1), (5, 5, 1), (10, 0, -3), (7, -1, -1), (-4, 4, 2)]
)
def test_loop_bounds(interpret, start, stop, step):
    @T.macro
    def body(i, total: T.Ref):
        for k in T.serial(start, stop, step):
            total += k * 7 + 1

    assert run(interpret, body, 2) == [sum(k * 7 + 1 for k in range(start, stop, step))] * 2


def test_bounds_that_differ_between_iterations(interpret):
    @T.macro
    def body(i, total: T.Ref):
        for k in T.serial(i, i + i % 4):
            total += k

    assert run(interpret, body) == [sum(range(i, i + i % 4)) for i in range(N)]


@pytest.mark.parametrize("loop", [T.unroll, T.vectorized])
def test_other_loops_run_in_order(interpret, loop):
    @T.prim_func
    def program(Out: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for k in loop(4):
                Out[k] = k * k

    out = torch.full((4,), -1, dtype=torch.int32)
    interpret(program, out)
    assert out.tolist() == [0, 1, 4, 9]


@pytest.mark.parametrize("stages", [0, 1, 2, 3])
def test_pipelining_changes_nothing(interpret, stages):
    @T.prim_func
    def program(A: T.Tensor((9, 8), "float32"), Out: T.Tensor((8, 8), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((8,), "float32")
            T.copy(A[0, 0:8], S)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(S, Out[k, 0:8])
                T.copy(A[k + 1, 0:8], S)

    A, out = torch.randn(9, 8), torch.zeros(8, 8)
    interpret(program, A, out)
    assert torch.equal(out, A[:8])


def test_an_empty_parallel_loop(interpret):
    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((n,), "int32"), Out: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            for i, j in T.Parallel(n, 4):
                Out[0] = 1

    out = torch.zeros(1, dtype=torch.int32)
    interpret(program, torch.empty(0, dtype=torch.int32), out)
    assert out.item() == 0


def test_a_loop_in_a_branch_that_every_iteration_takes(interpret):
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1):
            for i in T.Parallel(8):
                if i < 100:
                    for _ in T.serial(2):
                        A[i] += 1
                A[i] += 10

    a = torch.zeros(8, dtype=torch.int32)
    interpret(kernel, a)
    assert a.tolist() == [12] * 8
