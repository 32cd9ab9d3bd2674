"""What the interpreter refuses at run time: each names the element, the iteration and the line."""

# ruff: noqa: B007 - kernel code is traced, not run
from __future__ import annotations

import pytest
import torch

import tile_core.language as T
from tile_core.errors import (
    DataRaceError,
    DeviceAssertError,
    EndlessLoopError,
    OutOfBoundsAccessError,
    UninitializedReadError,
)

N = 64


def tensors():
    return torch.randn(N), torch.full((N,), float("nan"))


def line_of(error):
    """The source line that the error points at."""
    return str(error).split("|")[2].split("\n")[0].strip()


class TestBounds:
    def test_read_beyond_shared_memory_in_parallel(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(2) as bx:
                S = T.alloc_shared((32,), "float32")
                T.copy(A[bx * 32 : bx * 32 + 32], S)
                for i in T.Parallel(32):
                    B[bx * 32 + i] = S[i + bx]

        with pytest.raises(
            OutOfBoundsAccessError, match=r"S\[32\] is read outside its shape \(32,\), at bx=1, i=31"
        ) as caught:
            interpret(program, *tensors())
        assert line_of(caught.value) == "B[bx * 32 + i] = S[i + bx]"

    def test_write_beyond_a_fragment_in_a_serial_loop(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                F = T.alloc_local((4,), "float32")
                for i in T.serial(5):
                    F[i] = A[i]

        with pytest.raises(OutOfBoundsAccessError, match=r"F\[4\] is written outside its shape \(4,\)(.*)i=4"):
            interpret(program, *tensors())

    def test_negative_index(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                S = T.alloc_shared((8,), "float32")
                T.clear(S)
                for i in T.Parallel(8):
                    B[i] = S[i - 3]

        with pytest.raises(OutOfBoundsAccessError, match=r"S\[-3\].*i=0"):
            interpret(program, *tensors())

    def test_a_region_that_leaves_its_tile(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(3) as bx:
                S = T.alloc_shared((32,), "float32")
                T.clear(S)
                T.copy(S[bx * 12 : bx * 12 + 16], B[bx * 16 : bx * 16 + 16])

        with pytest.raises(
            OutOfBoundsAccessError, match=r"region S\[24:40\] reaches outside its shape \(32,\), at bx=2"
        ):
            interpret(program, *tensors())

    def test_global_reads_give_the_safe_value_and_writes_are_skipped(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((10,), "float32"), B: T.Tensor((10,), "float32"), C: T.Tensor((10,), "float32")):
            with T.Kernel(2) as bx:
                T.annotate_safe_value({A: -1.0})
                S = T.alloc_shared((8,), "float32")
                T.copy(A[bx * 8 : bx * 8 + 8], S)
                for i in T.Parallel(8):
                    B[bx * 8 + i] = S[i] + A[i - 4]
                T.copy(S, C[bx * 8])

        A, B, C = torch.arange(10.0), torch.full((12,), float("nan")), torch.full((12,), float("nan"))
        interpret(program, A, B[:10], C[:10])
        assert B[:4].tolist() == [0 - 1, 1 - 1, 2 - 1, 3 - 1]
        assert B[4:8].tolist() == [4 + 0, 5 + 1, 6 + 2, 7 + 3]
        assert C[:10].tolist() == A.tolist()
        assert torch.isnan(B[10:]).all() and torch.isnan(C[10:]).all()

    def test_the_side_that_is_not_chosen_is_not_read(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                S = T.alloc_shared((8,), "float32")
                T.clear(S)
                for i in T.Parallel(N):
                    B[i] = T.if_then_else(i < 8, S[i], 1.0)
                for i in T.Parallel(N):
                    if i < 8 and S[i] == 0.0:
                        B[i] = 2.0

        A, B = tensors()
        interpret(program, A, B)
        assert B.tolist() == [2.0] * 8 + [1.0] * 56

    def test_select_reads_both_sides(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                S = T.alloc_shared((8,), "float32")
                T.clear(S)
                for i in T.Parallel(N):
                    B[i] = T.Select(i < 8, S[i], 1.0)

        with pytest.raises(OutOfBoundsAccessError, match=r"S\[8\]"):
            interpret(program, *tensors())


class TestUninitialized:
    @pytest.mark.parametrize("allocate", [T.alloc_shared, T.alloc_fragment, T.alloc_local])
    def test_one_missing_element(self, interpret, allocate):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                S = allocate((32,), "float32")
                for i in T.serial(31):
                    S[i] = A[i]
                for j in T.serial(32):
                    B[j] = S[j]

        with pytest.raises(UninitializedReadError, match=r"S\[31\] is read before anything was written to it(.*)j=31"):
            interpret(program, *tensors())
        interpret(program, *tensors(), check_uninitialized=False)

    def test_a_tile_op_reads_its_whole_region(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                S = T.alloc_shared((32,), "float32")
                T.copy(A[0:16], S[0:16])
                T.copy(S[0:16], B[0:16])
                T.copy(S[8:24], B[0:16])

        with pytest.raises(UninitializedReadError, match=r"S\[16\]") as caught:
            interpret(program, *tensors())
        assert line_of(caught.value) == "T.copy(S[8:24], B[0:16])"

    def test_gemm_accumulates_into_what_must_be_cleared(self, interpret):
        def program(clear):
            @T.prim_func
            def gemm(A: T.Tensor((16, 16), "float32"), C: T.Tensor((16, 16), "float32")):
                with T.Kernel(1):
                    S = T.alloc_shared((16, 16), "float32")
                    F = T.alloc_fragment((16, 16), "float32")
                    T.copy(A, S)
                    T.gemm(S, S, F, clear_accum=clear)
                    T.copy(F, C)

            return gemm

        A, C = torch.randn(16, 16), torch.zeros(16, 16)
        interpret(program(True), A, C)
        torch.testing.assert_close(C, A @ A, rtol=1e-5, atol=1e-5)
        with pytest.raises(UninitializedReadError, match=r"F\[0, 0\]"):
            interpret(program(False), A, C)

    def test_reduce_with_clear_does_not_read_its_output(self, interpret):
        def program(clear):
            @T.prim_func
            def reduce(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
                with T.Kernel(1):
                    S = T.alloc_fragment((4, 8), "float32")
                    out = T.alloc_fragment((4,), "float32")
                    T.copy(A, S)
                    T.reduce_sum(S, out, dim=1, clear=clear)
                    T.copy(out, B)

            return reduce

        A, B = torch.randn(4, 8), torch.zeros(4)
        interpret(program(True), A, B)
        torch.testing.assert_close(B, A.sum(1))
        with pytest.raises(UninitializedReadError, match="out"):
            interpret(program(False), A, B)

    def test_a_loop_allocates_anew(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                for k in T.serial(2):
                    S = T.alloc_shared((1,), "float32")
                    if k == 0:
                        S[0] = A[0]
                    B[k] = S[0]

        with pytest.raises(UninitializedReadError, match="k=1"):
            interpret(program, *tensors())


class TestRaces:
    def check(self, interpret, body, pattern, **shapes):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                body(A, B)

        with pytest.raises(DataRaceError, match=pattern):
            interpret(program, *tensors())

    def test_an_iteration_reads_what_another_writes(self, interpret):
        @T.macro
        def body(A, B):
            for i in T.Parallel(63):
                B[i + 1] = B[i] + A[i]

        self.check(interpret, body, r"\(i=0\) and \(i=1\) write and read B\[1\]")

    def test_different_values_for_one_element(self, interpret):
        @T.macro
        def body(A, B):
            for i, j in T.Parallel(8, 8):
                B[i] = A[i * 8 + j]

        self.check(interpret, body, r"\(i=0, j=0\) and \(i=0, j=1\) write different values to B\[0\]")

    def test_different_statements(self, interpret):
        @T.macro
        def body(A, B):
            for i in T.Parallel(32):
                B[i] = A[i]
                B[31 - i] = A[i + 32]

        self.check(interpret, body, r"write in different statements B\[0\]")

    def test_a_variable_that_accumulates(self, interpret):
        @T.macro
        def body(A, B):
            v = T.alloc_var("float32", init=0.0)
            for i in T.Parallel(8):
                v += A[i]
            B[0] = v

        self.check(
            interpret, body, r"iteration \(i=0\) reads v from before T.Parallel, and iteration \(i=1\) writes it"
        )

    def test_races_can_be_left_unchecked(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                for i, j in T.Parallel(8, 8):
                    B[i] = A[i * 8 + j]

        A, B = tensors()
        interpret(program, A, B, check_races=False)
        assert torch.isin(B[:8], A).all()

    def test_one_value_from_all_iterations_is_no_race(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                for i, j in T.Parallel(8, 8):
                    B[i] = A[i]

        A, B = tensors()
        interpret(program, A, B)
        assert torch.equal(B[:8], A[:8])

    def test_updating_in_place_is_no_race(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                T.clear(B)
                for i in T.Parallel(N):
                    for k in T.serial(4):
                        B[i] = B[i] + A[i] * k
                    B[i] = B[i] + 1

        A, B = tensors()
        interpret(program, A, B)
        torch.testing.assert_close(B, A * 6 + 1)

    def test_disjoint_halves_are_no_race(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                T.copy(A, B)
                for i in T.Parallel(32):
                    B[i] = B[i + 32]

        A, B = tensors()
        interpret(program, A, B)
        assert torch.equal(B, torch.cat([A[32:], A[32:]]))

    def test_a_temporary_of_each_iteration_is_no_race(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                v = T.alloc_var("float32", init=0.0)
                for i in T.Parallel(N):
                    v = A[i]
                    if v < 0:
                        v = v * 2
                    B[i] = v

        A, B = tensors()
        interpret(program, A, B)
        assert torch.equal(B, torch.where(A < 0, A * 2, A))

    def test_what_iterations_leave_in_a_variable_is_undefined(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                v = T.alloc_var("float32", init=0.0)
                for i in T.Parallel(N):
                    v = A[i]
                B[0] = v

        with pytest.raises(UninitializedReadError, match="v is read after the iterations of T.Parallel left it"):
            interpret(program, *tensors())

    def test_a_variable_that_all_iterations_set_alike_keeps_its_value(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                v = T.alloc_var("float32", init=0.0)
                for i in T.Parallel(N):
                    v = 3.0
                B[0] = v

        A, B = tensors()
        interpret(program, A, B)
        assert B[0] == 3

    def test_atomics_are_no_race_and_lose_nothing(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "int32"), B: T.Tensor((4,), "int32"), Order: T.Tensor((N,), "int32")):
            with T.Kernel(1):
                for i in T.Parallel(N):
                    Order[i] = T.atomic_add(B[i % 3], A[i], return_prev=True)
                for i in T.Parallel(N):
                    T.atomic_max(B[3], A[i])

        A = torch.arange(N, dtype=torch.int32)
        B, order = torch.zeros(4, dtype=torch.int32), torch.full((N,), -1, dtype=torch.int32)
        interpret(program, A, B, order)
        assert B.tolist() == [sum(range(k, N, 3)) for k in range(3)] + [N - 1]
        assert order[0::3].tolist() == [sum(range(0, i, 3)) for i in range(0, N, 3)]

    def test_atomics_of_float16_round_each_addition(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float16"), B: T.Tensor((1,), "float16")):
            with T.Kernel(1):
                for i in T.Parallel(N):
                    T.atomic_add(B[0], A[i])

        A, B = torch.rand(N).half(), torch.full((1,), 2048.0).half()
        interpret(program, A, B)
        assert B.item() == 2048  # every summand is less than half the distance to the next float16


class TestOther:
    def test_device_assert(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(N):
                    T.device_assert(i != 5, "five")

        with pytest.raises(DeviceAssertError, match="five.*i=5"):
            interpret(program, *tensors())

    def test_endless_loop(self, interpret):
        @T.prim_func
        def program(A: T.Tensor((N,), "int32")):
            with T.Kernel(1):
                while A[0] == 0:
                    A[1] = A[1] + 1

        with pytest.raises(EndlessLoopError, match="1000 times"):
            interpret(program, torch.zeros(N, dtype=torch.int32), max_steps=1000)


def test_a_race_through_a_view(interpret):
    @T.prim_func
    def program(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((8,), "float32")
            rows = T.reshape(S, (2, 4))
            T.clear(S)
            for i in T.Parallel(7):
                S[i + 1] = rows[i // 4, i % 4] + 1
            T.copy(S, A)

    with pytest.raises(DataRaceError, match=r"write and read S\[1\]"):
        interpret(program, torch.zeros(8))
