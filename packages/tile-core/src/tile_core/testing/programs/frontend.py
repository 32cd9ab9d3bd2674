"""How Python becomes device code: names, branches, loops, evaluation order."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("basic")


@TABLE(case="F2")
def rebinding_under_a_branch_is_refused_with_advice(run: Run) -> None:
    with run.raises(naming=["alloc_var"]):

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32)):
            with T.Kernel(1, threads=8):
                for i in T.serial(8):
                    v = A[i]
                    if v > 1:
                        v = 1
                    B[i] = v


@TABLE(case="F2")
def clamp_through_a_variable(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=8):
            for i in T.serial(8):
                v = T.alloc_var(T.float32)
                v = A[i]
                if v > 1:
                    v = 1
                B[i] = v

    a, b = run.tensor([-3.0, 0.5, 1.0, 1.5, 2.0, -0.0, 7.0, float("inf")]), run.empty(8)
    run(kernel, a, b)
    run.equal(b, a.clamp(max=1))


@TABLE(case="F3")
def integer_condition_is_a_test_for_non_zero(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((6,), T.int32), B: T.Tensor((6,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(6):
                if A[i]:
                    B[i] = 1
                else:
                    B[i] = 0

    b = run.empty(6, dtype="int32")
    run(kernel, run.tensor([0, 1, -1, 2, 0, 256], "int32"), b)
    run.equal(b, [0, 1, 1, 1, 0, 1])


@TABLE(case="F4")
def boolean_operators_mix_python_and_device_values(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), T.int32), B: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                if True and not bool(A[i]):
                    B[i] = 1
                else:
                    B[i] = 2

    b = run.empty(4, dtype="int32")
    run(kernel, run.tensor([0, 5, 0, -1], "int32"), b)
    run.equal(b, [1, 2, 1, 2])


@TABLE(case="F5")
def a_variable_name_reused_by_a_loop(run: Run) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((5,), T.int32)):
        with T.Kernel(1, threads=32):
            i = T.alloc_var(T.int32)
            i = 40
            B[4] = i
            for i in T.serial(4):
                B[i] = i

    b = run.empty(5, dtype="int32")
    run(kernel, b)
    run.equal(b, [0, 1, 2, 3, 40])


@TABLE(case="F6")
def a_bound_value_is_evaluated_once(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), T.float32), B: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                tmp = T.max(A[i], 1.0)
                A[i] = 2.0 * tmp
                B[i] = tmp / 2.0

    @T.prim_func
    def other_order(A: T.Tensor((4,), T.float32), B: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                tmp = T.max(A[i], 1.0)
                B[i] = tmp / 2.0
                A[i] = 2.0 * tmp

    start = run.tensor([-3.0, 0.5, 4.0, 100.0])
    for func in (kernel, other_order):
        a, b = start.clone(), run.empty(4)
        run(func, a, b)
        run.equal(a, start.clamp(min=1) * 2)
        run.equal(b, start.clamp(min=1) / 2)


@TABLE(case="F7")
def two_guards_of_one_shape(run: Run) -> None:
    @T.prim_func
    def kernel(
        P: T.Tensor((2,), T.int32),
        Q: T.Tensor((2,), T.int32),
        O1: T.Tensor((2,), T.int32),
        O2: T.Tensor((2,), T.int32),
    ):
        with T.Kernel(2, threads=32) as bx:
            O1[bx] = 0
            O2[bx] = 0
            if P[bx] < 2:
                O1[bx] = 1
            if Q[bx] < 2:
                O2[bx] = 1

    o1, o2 = run.empty(2, dtype="int32"), run.empty(2, dtype="int32")
    run(kernel, run.tensor([0, 5], "int32"), run.tensor([5, 0], "int32"), o1, o2)
    run.equal(o1, [1, 0])
    run.equal(o2, [0, 1])


@TABLE(case="F9")
def loop_bounds_that_are_the_same_variable(run: Run) -> None:
    @T.prim_func
    def kernel(S: T.Tensor((3,), T.int32), B: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                B[i] = 0
            for n in T.serial(3):
                s = S[n]
                for i in T.serial(s, s + 1):
                    B[i] = B[i] + 1
                for i in T.serial(s, s):
                    B[i] = 100

    b = run.empty(8, dtype="int32")
    run(kernel, run.tensor([1, 5, 5], "int32"), b)
    run.equal(b, [0, 1, 0, 0, 0, 2, 0, 0])


@TABLE(case="F11")
def initial_values_are_taken_when_the_variable_is_made(run: Run) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((2,), T.int32)):
        with T.Kernel(1, threads=32):
            a = T.alloc_var(T.int32)
            a = 1
            b = T.alloc_var(T.int32, init=a)
            a = 2
            d = T.alloc_var(T.int32, init=a)
            Out[0] = b
            Out[1] = d

    out = run.empty(2, dtype="int32")
    run(kernel, out)
    run.equal(out, [1, 2])


@TABLE(case="F12")
def break_and_continue_in_device_loops(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((10,), T.int32), Out: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32):
            total = T.alloc_var(T.int32, init=0)
            for i in T.serial(10):
                if A[i] == 7:
                    break
                if A[i] % 2 == 0:
                    continue
                total = total + A[i]
            Out[0] = total
            steps = T.alloc_var(T.int32, init=0)
            for i in T.unroll(10):
                if A[i] == 7:
                    break
                steps = steps + 1
            Out[1] = steps
            n = T.alloc_var(T.int32, init=0)
            while n < 100:
                n = n + 3
                if n > 10:
                    break
            Out[2] = n
            m = T.alloc_var(T.int32, init=0)
            while m < 10:
                m = m + 4
            Out[3] = m

    out = run.empty(4, dtype="int32")
    run(kernel, run.tensor([1, 2, 3, 4, 5, 7, 9, 11, 13, 15], "int32"), out)
    run.equal(out, [9, 5, 12, 12])


@TABLE(case="F12")
def break_in_a_parallel_loop_is_refused(run: Run) -> None:
    with run.raises(naming=["break"]):

        @T.prim_func
        def kernel(A: T.Tensor((10,), T.int32)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(10):
                    if A[i] > 3:
                        break
                    A[i] = 0


@TABLE(case="F13")
def an_undefined_name_in_a_macro(run: Run) -> None:
    with run.raises(naming=["misspelt"]):

        @T.macro
        def helper(A: T.Buffer):
            A[0] = misspelt  # noqa: F821

        @T.prim_func
        def kernel(A: T.Tensor((10,), T.int32)):
            with T.Kernel(1, threads=32):
                helper(A)


@TABLE(case="F16", needs=())
def an_empty_kernel_and_dead_loads(run: Run) -> None:
    @T.prim_func
    def empty(A: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=32):
            pass

    @T.prim_func
    def without_arguments():
        with T.Kernel(2, threads=32):
            pass

    @T.prim_func
    def dead_load(A: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=32):
            unused = A[0] + 1.0  # noqa: F841

    a = run.tensor([1.0, 2.0, 3.0, 4.0])
    run(empty, a)
    run(without_arguments)
    run(dead_load, a)
    run.equal(a, [1.0, 2.0, 3.0, 4.0])


@TABLE()
def closures_unroll_and_branch_while_tracing(run: Run) -> None:
    scales, negate = [2, 3, 5], True

    @T.prim_func
    def kernel(A: T.Tensor((4,), T.int32), B: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = 0
            for scale in scales:
                for i in T.Parallel(4):
                    B[i] += A[i] * scale
            if negate:
                for i in T.Parallel(4):
                    B[i] = -B[i]

    a, b = run.integers(4), run.empty(4, dtype="int32")
    run(kernel, a, b)
    run.equal(b, -(a * 10))


@TABLE()
def macros_return_values_and_store_through_references(run: Run) -> None:
    @T.macro
    def square(x):
        return x * x

    @T.macro
    def increment(counter: T.Ref, by=1):
        counter = counter + by

    @T.prim_func
    def kernel(A: T.Tensor((4,), T.int32), B: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32):
            count = T.alloc_var(T.int32, init=0)
            for i in T.serial(4):
                B[i] = square(A[i]) + count
                increment(count)
                increment(count, by=10)

    a, b = run.integers(4), run.empty(4, dtype="int32")
    run(kernel, a, b)
    run.equal(b, a * a + torch.arange(4) * 11)


@TABLE()
def ternary_evaluates_only_the_chosen_side(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.float32), B: T.Tensor((16,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i] if i < 8 else -1.0

    a, b = run.randn(8), run.empty(16)
    run(kernel, a, b)
    run.equal(b, torch.cat([a, torch.full((8,), -1.0)]))


@TABLE()
def chained_comparison_and_elif(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((9,), T.int32), B: T.Tensor((9,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(9):
                if 0 < A[i] < 3:
                    B[i] = 1
                elif (A[i] >= 3 and A[i] != 5) or A[i] == -4:
                    B[i] = 2
                else:
                    B[i] = 3

    b = run.empty(9, dtype="int32")
    run(kernel, run.tensor([-4, -3, 0, 1, 2, 3, 4, 5, 6], "int32"), b)
    run.equal(b, [2, 3, 3, 1, 1, 2, 2, 3, 2])


@TABLE()
def negative_steps_and_swaps(run: Run) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((10,), T.int32), Out: T.Tensor((2,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(10):
                B[i] = -1
            for i in T.serial(8, 1, -3):
                B[i] = i
            for i in range(0, 10, 4):
                B[i] = 100 + i
            a = T.alloc_var(T.int32, init=1)
            b = T.alloc_var(T.int32, init=2)
            a, b = b, a
            Out[0] = a
            Out[1] = b

    b, out = run.empty(10, dtype="int32"), run.empty(2, dtype="int32")
    run(kernel, b, out)
    run.equal(b, [100, -1, 2, -1, 104, 5, -1, -1, 108, -1])
    run.equal(out, [2, 1])
