"""if, while, for, break and continue: decided while tracing where Python knows, device code elsewhere."""

# The programs under test are written as users write them.
# ruff: noqa: B007, B023, C901, FURB171, PERF401, PERF402, PLE0643, PLW0120, SIM108
from __future__ import annotations

import pytest
import torch
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.errors import (
    ConstantWhileError,
    ControlFlowError,
    ExceptionInDeviceCodeError,
    LoopElseError,
    MembershipError,
    PythonStateError,
    ReboundNameError,
    StatementInExpressionError,
)
from tile_core.ir import asserts

Ints = T.Tensor((8,), T.int32)


def zeros(*shape: int) -> torch.Tensor:
    """A poisoned output: no test expects -77."""
    return torch.full(shape, -77, dtype=torch.int32)


def test_device_condition_makes_a_branch_and_python_condition_none(run, body):
    for flag in (True, False):

        @T.prim_func
        def kernel(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                for i in T.serial(8):
                    if flag:
                        if A[i] > 3:
                            B[i] = 1
                        elif A[i] == 3:
                            B[i] = 2
                        else:
                            B[i] = 3
                    else:
                        B[i] = 9

        branches = [stmt for stmt in body(kernel) if isinstance(stmt, S.IfThenElse)]
        assert len(branches) == (2 if flag else 0)
        out = zeros(8)
        run(kernel, torch.arange(8, dtype=torch.int32), out)
        assert out.tolist() == ([3, 3, 3, 2, 1, 1, 1, 1] if flag else [9] * 8)


@pytest.mark.parametrize("value", [0, 1, -1, 256, 2**31 - 1])
def test_truth_of_an_integer_is_a_test_for_zero(run, value):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            B[0] = 1 if A[0] else 2
            B[1] = 1 if not A[0] else 2
            if A[0] and A[1]:
                B[2] = 1
            else:
                B[2] = 2
            if A[1] or A[0]:
                B[3] = 1
            else:
                B[3] = 2

    a, b = torch.full((8,), value, dtype=torch.int32), zeros(8)
    run(kernel, a, b)
    assert b[:4].tolist() == ([1, 2, 1, 1] if value else [2, 1, 2, 2])


def test_truth_of_nan_is_true(run):
    @T.prim_func
    def kernel(A: T.Tensor((3,), T.float32), B: T.Tensor((3,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(3):
                B[i] = 1 if A[i] else 0

    b = zeros(3)
    run(kernel, torch.tensor([float("nan"), -0.0, 0.5]), b)
    assert b.tolist() == [1, 0, 1]


def test_boolean_operators_short_circuit_on_python_values(run):
    def explode():
        raise AssertionError("evaluated")

    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            x = None
            y = x is None or x.missing
            z = x is not None and explode()
            B[0] = 1 if y and A[0] == 1 else 0
            B[1] = 1 if z or A[0] == 1 else 0
            B[2] = 1 if A[0] == 1 and True and A[1] == 1 else 0
            B[3] = 1 if A[0] == 1 and False else 0
            B[4] = 1 if A[0] == 5 or True else 0

    b = zeros(8)
    run(kernel, torch.ones(8, dtype=torch.int32), b)
    assert b[:5].tolist() == [1, 1, 1, 0, 1]


def test_chained_comparison(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                B[i] = 1 if 2 <= A[i] < 5 != i else 0

    b = zeros(8)
    run(kernel, torch.arange(8, dtype=torch.int32), b)
    assert b.tolist() == [1 if 2 <= i < 5 != i else 0 for i in range(8)]


def test_membership_of_python_values_is_decided_and_of_device_values_refused(refused, body):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            if 3 in (1, 2, 3) and "x" not in ("y",):
                A[0] = 1

    assert len(body(kernel)) == 1
    with refused(MembershipError, at="A[0] in (1, 2)", naming=("x == 1 or x == 2",)):

        @T.prim_func
        def bad(A: Ints):
            with T.Kernel(1, threads=32):
                if A[0] in (1, 2):
                    A[0] = 1


def test_while_reads_its_condition_again(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            n = T.alloc_var(T.int32, init=A[0])
            steps = T.alloc_var(T.int32, init=0)
            while n != 1:
                if n % 2 == 0:
                    n = n // 2
                else:
                    n = 3 * n + 1
                steps += 1
            B[0] = steps

    b = zeros(8)
    run(kernel, torch.full((8,), 27, dtype=torch.int32), b)
    assert b[0] == 111


def test_constant_while(refused, body):
    with refused(ConstantWhileError, at="while True", naming=("True", "going == 1", "for i in range(limit)")):

        @T.prim_func
        def forever(A: Ints):
            with T.Kernel(1, threads=32):
                while True:
                    A[0] = 1

    with refused(ConstantWhileError, at="while 1 < 2", naming=("break",)):

        @T.prim_func
        def forever_too(A: Ints):
            with T.Kernel(1, threads=32):
                while 1 < 2:
                    A[0] = 1
                    break

    @T.prim_func
    def never(A: Ints):
        with T.Kernel(1, threads=32):
            while False:
                A[0] = 1

    assert not any(isinstance(stmt, S.While | S.BufferStore) for stmt in body(never))


@pytest.mark.parametrize("loop", ["serial", "unroll", "while", "range", "pipelined"])
def test_break_and_continue_in_device_loops(run, loop):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            if loop == "while":
                j = T.alloc_var(T.int32, init=0)
                while j < 8:
                    j += 1
                    if A[j - 1] == 2:
                        continue
                    if A[j - 1] > 4:
                        break
                    B[j - 1] = 1
            elif loop == "range":
                for i in range(8):
                    if A[i] == 2:
                        continue
                    if A[i] > 4:
                        break
                    B[i] = 1
            else:
                for i in {"serial": T.serial, "unroll": T.unroll, "pipelined": T.Pipelined}[loop](8):
                    if A[i] == 2:
                        continue
                    if A[i] > 4:
                        break
                    B[i] = 1

    b = zeros(8)
    run(kernel, torch.arange(8, dtype=torch.int32), b)
    assert b.tolist() == [1, 1, -77, 1, 1, -77, -77, -77]


def test_statements_after_an_unconditional_break_are_dropped(run, body):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                A[i] = 1
                break
                A[i] = 2

    assert sum(isinstance(stmt, S.BufferStore) for stmt in body(kernel)) == 1
    a = zeros(8)
    run(kernel, a)
    assert a.tolist() == [1] + [-77] * 7


def test_break_of_a_python_loop_is_python(run):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            for k in [0, 1, 2, 3, 4]:
                if k == 1:
                    continue
                if k == 3:
                    break
                A[k] = k
            else:
                A[7] = 1
            for k in (5,):
                A[k] = k
            else:
                A[6] = 6

    a = zeros(8)
    run(kernel, a)
    assert a.tolist() == [0, -77, 2, -77, -77, 5, 6, -77]


@pytest.mark.parametrize("word", ["break", "continue"])
def test_leaving_a_python_loop_under_a_device_condition_is_refused(refused, word):
    with refused(ControlFlowError, at=f"                        {word}", naming=("T.serial",)):
        if word == "break":

            @T.prim_func
            def kernel(A: Ints):
                with T.Kernel(1, threads=32):
                    for k in [0, 1]:
                        if A[k] > 0:
                            break
        else:

            @T.prim_func
            def kernel2(A: Ints):
                with T.Kernel(1, threads=32):
                    for k in [0, 1]:
                        if A[k] > 0:
                            continue


def test_break_in_loops_without_order_is_refused(refused):
    with refused(ControlFlowError, at="break", naming=("T.Parallel",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(8):
                    if A[i] > 0:
                        break

    with refused(ControlFlowError, at="continue", naming=("T.vectorized",)):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                for i in T.vectorized(8):
                    if A[i] > 0:
                        continue


def test_break_inside_a_parallel_loop_leaves_the_serial_one_around_it_only_from_outside(refused):
    with refused(ControlFlowError, at="break"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                for k in T.serial(4):
                    for i in T.Parallel(8):
                        break


def test_return_and_raise_in_device_code_are_refused(refused):
    with refused(ControlFlowError, at="return", naming=("if",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                if A[0] > 0:
                    return
                A[0] = 1

    with refused(ControlFlowError, at="raise ValueError", naming=("assert",)):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                if A[0] > 0:
                    raise ValueError("no")


def test_early_return_on_a_python_condition(body):
    flag = True

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            A[0] = 1
            if flag:
                return
            A[1] = 2

    assert len(body(kernel)) == 1


def test_user_exceptions_pass_through_unchanged():
    with pytest.raises(KeyError, match="mine"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                raise KeyError("mine")

    with pytest.raises(ZeroDivisionError):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                A[0] = 1 // 0


def test_else_of_loops(refused):
    with refused(LoopElseError, at="for i in T.serial(8)", naming=("alloc_var",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                for i in T.serial(8):
                    A[i] = 1
                else:
                    A[0] = 2

    with refused(LoopElseError, at="while A[0] > 0"):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                while A[0] > 0:
                    A[0] = 0
                else:
                    A[0] = 2


def test_ternary_evaluates_one_side_and_takes_no_statements(run, refused):
    @T.prim_func
    def kernel(A: Ints, B: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                B[i] = 1.5 if A[i] > 3 else A[i]

    b = torch.zeros(8)
    run(kernel, torch.arange(8, dtype=torch.int32), b)
    assert b.tolist() == [0, 1, 2, 3, 1.5, 1.5, 1.5, 1.5]
    with refused(StatementInExpressionError, at="T.clear(A)"):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                T.clear(A) if A[0] > 0 else T.fill(A, 1)


def test_ternary_on_python_conditions_takes_anything(body):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            T.clear(A) if A.ndim == 1 else T.fill(A, 1)

    assert len(body(kernel)) == 1


def test_python_state_changed_in_device_code_is_refused(refused):
    with refused(PythonStateError, naming=("values",)):

        @T.prim_func
        def kernel(A: Ints):
            values = []
            with T.Kernel(1, threads=32):
                for i in T.serial(8):
                    values.append(i)

    with refused(PythonStateError, naming=("table",)):

        @T.prim_func
        def kernel2(A: Ints):
            table = {"x": [1, 2]}
            with T.Kernel(1, threads=32):
                if A[0] > 0:
                    table["x"][0] = 5


LOG: list[int] = []


def test_python_state_reached_through_globals_is_watched(refused):
    with refused(PythonStateError, naming=("LOG",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                for i in T.serial(8):
                    LOG.append(1)


def test_python_state_outside_of_device_code_is_python(body):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            values = []
            for k in [1, 2, 3]:
                values.append(k * 2)
            for k, v in enumerate(values):
                A[k] = v

    assert len(body(kernel)) == 3


def test_exception_caught_across_a_device_region_is_refused(refused):
    with refused(ExceptionInDeviceCodeError):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                try:
                    for i in T.serial(8):
                        A[i] = [1, 2][5]
                except IndexError:
                    pass


def test_try_inside_a_region_works(body):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                try:
                    value = {}["missing"]
                except KeyError:
                    value = 3
                A[i] = value

    assert any(isinstance(stmt, S.BufferStore) for stmt in body(kernel))


def test_match_on_python_values(run):
    def make(mode):
        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                match mode:
                    case "fill":
                        T.fill(A, 3)
                    case (first, *rest):
                        A[first] = len(rest)
                    case _:
                        A[0] = 9

        return kernel

    for mode, expected in (("fill", [3] * 8), ((2, 1, 1), [-77, -77, 2]), (5, [9])):
        a = zeros(8)
        run(make(mode), a)
        assert a.tolist()[: len(expected)] == expected


def test_names_assigned_in_branches(refused, run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                if A[i] > 3:
                    t = A[i] * 2
                    B[i] = t
                else:
                    t = A[i] * 3
                    B[i] = t

    b = zeros(8)
    run(kernel, torch.arange(8, dtype=torch.int32), b)
    assert b.tolist() == [0, 3, 6, 9, 8, 10, 12, 14]
    with refused(ReboundNameError, at="B[0] = x", naming=("x", "alloc_var")):

        @T.prim_func
        def both(A: Ints, B: Ints):
            with T.Kernel(1, threads=32):
                if A[0] > 3:
                    x = 1
                else:
                    x = 2
                B[0] = x


def test_assert_is_checked_while_tracing_or_by_the_kernel(body):
    with pytest.raises(AssertionError, match="too big"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                assert A.shape[0] < 8, "too big"

    @T.prim_func
    def checked(A: Ints):
        with T.Kernel(1, threads=32):
            assert A[0] > 0, "positive"

    (stmt,) = body(checked)
    assert isinstance(stmt, S.AssertStmt)
    assert asserts.text_of(stmt.message_parts[0].value) == "positive"


def test_and_or_have_the_values_of_python(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                B[i] = A[i] or 7
                B[i + 4] = A[i] and A[i] + 10

    b = zeros(8)
    run(kernel, torch.tensor([0, 1, 5, 0, 9, 9, 9, 9], dtype=torch.int32), b)
    assert b.tolist() == [7, 1, 5, 7, 0, 11, 15, 0]


def test_loops_and_kernels_that_are_not_used_are_refused(refused):
    from tile_core.errors import LoopUseError

    with refused(LoopUseError, at="T.serial(4)", naming=("for",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                T.serial(4)

    with refused(LoopUseError, at="T.Kernel(4)", naming=("with",)):

        @T.prim_func
        def kernel2(A: Ints):
            T.Kernel(4)


def test_host_arrays_are_not_assigned_in_device_code(refused):
    import numpy as np

    table = np.zeros(4)
    with refused(PythonStateError, at="table[0] = 1", naming=("ndarray",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                for i in T.serial(4):
                    table[0] = 1


def test_numpy_scalars_are_constants(run):
    import numpy as np

    @T.prim_func
    def kernel(A: T.Tensor((4,), T.float32)):
        with T.Kernel(np.int64(1), threads=np.int32(32)):
            for i in T.serial(np.int64(4)):
                A[i] = np.float32(0.5) * A[i] + np.int64(1) + np.float64(2)

    a = torch.arange(4, dtype=torch.float32)
    run(kernel, a)
    assert a.tolist() == [3.0, 3.5, 4.0, 4.5]


def test_what_stands_right_of_a_failed_comparison_is_not_evaluated(run, body):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                B[i] = 1 if 0 <= i - 4 < A[i - 4] else 0
                if 0 <= i - 4 < A[i - 4] <= 2:
                    B[i] = 2
                if i >= 4 and A[i - 4] > 0 and A[A[i - 4]] == 9:
                    B[i] = 3

    assert not any(isinstance(stmt, S.Bind) for stmt in body(kernel))
    b = zeros(8)
    run(kernel, torch.tensor([1, 2, 0, 9, 5, 5, 5, 5], dtype=torch.int32), b)
    assert b.tolist() == [0, 0, 0, 0, 2, 2, 0, 1]
