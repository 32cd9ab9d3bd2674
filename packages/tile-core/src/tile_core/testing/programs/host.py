"""The boundary between Python and a kernel: arguments, outputs, launches, names."""

from __future__ import annotations

import torch

import tile_core as tl
import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("host")


def scale(m: int, n: int, factor: float = 2.0):
    """B = A * factor, whole rows."""

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.float32), B: T.Tensor((m, n), T.float32)):
        with T.Kernel(m, threads=64) as row:
            for j in T.Parallel(n):
                B[row, j] = A[row, j] * factor

    return kernel


@TABLE(case="H2")
def strides_of_length_one_axes_do_not_matter(run: Run) -> None:
    kernel = run.compile(scale(1, 10))
    base = run.randn(1, 20)
    a, b = base[:, :10], run.empty(1, 10)
    kernel(a, b)
    run.equal(b, a * 2)
    strange = torch.as_strided(run.randn(10), (1, 10), (12345, 1))
    kernel(strange, b)
    run.equal(b, strange * 2)


@TABLE()
def bad_arguments_are_refused_before_anything_runs(run: Run) -> None:
    kernel = run.compile(scale(6, 8))
    a, b = run.randn(6, 8), run.empty(6, 8)
    untouched = b.clone()
    for bad, naming in (
        ((a.reshape(8, 6), b), ["A"]),
        ((a.reshape(48), b), ["A"]),
        ((a.double(), b), ["A", "float32"]),
        ((a, run.empty(6, 9)), ["B"]),
        ((run.randn(8, 6).T, b), ["A"]),
        ((a, None), ["B"]),
        ((a, 3.0), ["B"]),
        ((a,), []),
        ((a, b, b), []),
    ):
        with run.raises(naming=naming):
            kernel(*bad)
    run.equal(b, untouched)
    kernel(a, b)
    run.equal(b, a * 2)


@TABLE(needs=("dynamic",))
def shapes_of_two_arguments_must_agree(run: Run) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def func(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i]

    kernel = run.compile(func)
    b = run.empty(11)
    with run.raises(ValueError, naming=["B"]):
        kernel(run.randn(10), b)
    run.equal(b, torch.full((11,), float("nan")))


@TABLE(case="H4", needs=("dynamic",))
def an_empty_grid_launches_nothing(run: Run) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def func(A: T.Tensor((n,), T.float32), Count: T.Tensor((1,), T.int32)):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            Count[0] = bx + 1
            for i in T.Parallel(64):
                A[bx * 64 + i] = 0.0

    kernel = run.compile(func)
    count = run.tensor([-5], "int32")
    kernel(run.randn(0), count)
    run.equal(count, [-5])


@TABLE(case="H7")
def impossible_thread_counts(run: Run) -> None:
    for threads, naming in ((-1, ["-1"]), (0, ["0"]), ((32, 64, 2), ["1024"]), (1025, ["1024"])):
        with run.raises(ValueError, naming=naming):

            @T.prim_func
            def kernel(A: T.Tensor((4,), T.float32)):
                with T.Kernel(1, threads=threads):
                    A[0] = 1.0

            run.compile(kernel)


@TABLE(case="H8")
def closures_with_the_same_names(run: Run) -> None:
    a = run.randn(3, 5)
    for _ in range(2):
        for factor in (2.0, 3.0):
            b = run.empty(3, 5)
            run.compile(scale(3, 5, factor))(a, b)
            run.equal(b, a * factor)


@TABLE(case="H12")
def the_last_parameter_is_the_output(run: Run) -> None:
    def factory(inputs: int):
        if inputs == 2:

            @T.prim_func
            def add(A: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32), C: T.Tensor((8,), T.float32)):
                with T.Kernel(1, threads=32):
                    for i in T.Parallel(8):
                        C[i] = A[i] + B[i]

            return add

        @T.prim_func
        def add4(
            A: T.Tensor((8,), T.float32),
            B: T.Tensor((8,), T.float32),
            C: T.Tensor((8,), T.float32),
            D: T.Tensor((8,), T.float32),
            E: T.Tensor((8,), T.float32),
        ):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(8):
                    E[i] = A[i] + B[i] + C[i] + D[i]

        return add4

    for inputs in (2, 4, 2):
        tensors = [run.randn(8) for _ in range(inputs)]
        result = run.compile(factory(inputs), out_idx=[-1])(*tensors)
        total = tensors[0]
        for tensor in tensors[1:]:
            total = total + tensor
        run.equal(result, total)


@TABLE(case="H19")
def none_for_an_unused_tensor(run: Run) -> None:
    @T.prim_func
    def func(A: T.Tensor((8,), T.float32), Unused: T.Tensor((8,), T.float32), B: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i]

    a, b = run.randn(8), run.empty(8)
    run(func, a, None, b)
    run.equal(b, a)


@TABLE(case="F15")
def eager_functions_return_their_tensors(run: Run) -> None:
    @tl.jit(target=run.target, execution=run.execution)
    def filled(A, value: float = 3.0):
        M, N = T.const("M, N")
        A: T.Tensor((M, N), T.float32)
        X = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=64) as row:
            for j in T.Parallel(N):
                X[row, j] = A[row, j] + value
        return X

    for shape in ((4, 7), (1, 1), (33, 5)):
        a = run.randn(*shape)
        run.equal(filled(a), a + 3.0)
        run.equal(filled(a, value=-1.0), a - 1.0)


@TABLE(case="H13")
def shared_memory_above_the_limit(run: Run) -> None:
    with run.raises(naming=["Huge"]):

        @T.prim_func
        def func(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1, threads=32):
                Huge = T.alloc_shared((1 << 20, 1 << 12), T.float32)
                T.fill(Huge, 0.0)
                A[0] = Huge[0, 0]

        run.compile(func)


@TABLE(needs=("narrow",))
def blocks_counted_by_narrow_numbers(run: Run) -> None:
    for dtype in ("int4", "uint4", "int8"):

        @T.prim_func
        def kernel(A: T.Tensor((64,), T.int32), n: dtype):
            with T.Kernel(T.ceildiv(n, 2), threads=32) as block:
                A[block] = block - 100
            with T.Kernel(n, threads=32) as block:
                A[32 + block] = n - block

        for n in (0, 1, 5):
            a = run.empty(64, dtype="int32")
            expected = a.clone()
            expected[: (n + 1) // 2] = torch.arange((n + 1) // 2, dtype=torch.int32) - 100
            expected[32 : 32 + n] = n - torch.arange(n, dtype=torch.int32)
            run(kernel, a, n)
            run.equal(a, expected)
