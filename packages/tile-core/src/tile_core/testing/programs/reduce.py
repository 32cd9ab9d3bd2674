"""Reductions and scans over tiles of any extent, by any number of threads."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("reduce")


@TABLE(case="R1", needs=("reduce",))
def one_value_a_thread(run: Run) -> None:
    for n in (1, 7, 33, 48, 96, 100):

        @T.prim_func
        def kernel(A: T.Tensor((n,), T.float32), Out: T.Tensor((3,), T.float32)):
            with T.Kernel(1, threads=n):
                f = T.alloc_fragment((n,), T.float32)
                total = T.alloc_fragment((1,), T.float32)
                largest = T.alloc_fragment((1,), T.float32)
                smallest = T.alloc_fragment((1,), T.float32)
                T.copy(A, f)
                T.reduce_sum(f, total)
                T.reduce_max(f, largest)
                T.reduce_min(f, smallest)
                Out[0] = total[0]
                Out[1] = largest[0]
                Out[2] = smallest[0]

        out = run.empty(3)
        run(kernel, torch.arange(1, n + 1, dtype=torch.float32, device=run.device), out)
        run.equal(out, [n * (n + 1) / 2, n, 1])


@TABLE(case="R6", needs=("scan",))
def cumsum_both_axes_and_directions(run: Run) -> None:
    for dim in (0, 1):
        for reverse in (False, True):

            @T.prim_func
            def kernel(A: T.Tensor((32, 64), T.float32), B: T.Tensor((32, 64), T.float32)):
                with T.Kernel(1, threads=256):
                    s = T.alloc_shared((32, 64), T.float32)
                    T.copy(A, s)
                    T.cumsum(s, dim=dim, reverse=reverse)
                    T.copy(s, B)

            b = run.empty(32, 64)
            ones = torch.ones(32, 64, device=run.device)
            run(kernel, ones, b)
            expected = ones.flip(dim).cumsum(dim).flip(dim) if reverse else ones.cumsum(dim)
            run.equal(b, expected)


def _row_reduction(run: Run, name: str, expected: torch.Tensor, values: torch.Tensor, clear: bool = True) -> None:
    m, n = values.shape
    reduce = getattr(T, name)

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.float32), Out: T.Tensor((m,), T.float32)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((m, n), T.float32)
            out = T.alloc_fragment((m,), T.float32)
            T.copy(A, f)
            T.copy(Out, out)
            if name == "reduce_abssum":
                T.reduce_abssum(f, out, dim=1)
            else:
                reduce(f, out, dim=1, clear=clear)
            T.copy(out, Out)

    out = torch.full((m,), 3.0, device=run.device)
    run(kernel, values, out)
    run.close(out, expected)


@TABLE(needs=("reduce",))
def rows_of_odd_length(run: Run) -> None:
    for shape in ((1, 1), (9, 1), (3, 7), (5, 100), (16, 3), (7, 131)):
        a = run.randn(*shape)
        _row_reduction(run, "reduce_sum", a.sum(1), a)
        _row_reduction(run, "reduce_max", a.amax(1), a)
        _row_reduction(run, "reduce_min", a.amin(1), a)
        _row_reduction(run, "reduce_absmax", a.abs().amax(1), a)
        _row_reduction(run, "reduce_abssum", a.abs().sum(1), a)


@TABLE(needs=("reduce",))
def without_clear_combines_with_the_old_value(run: Run) -> None:
    a = run.randn(9, 33)
    old = torch.full((9,), 3.0)
    _row_reduction(run, "reduce_sum", a.sum(1) + old, a, clear=False)
    _row_reduction(run, "reduce_max", torch.maximum(a.amax(1), old), a, clear=False)
    _row_reduction(run, "reduce_min", torch.minimum(a.amin(1), old), a, clear=False)


@TABLE(case="V15", needs=("reduce", "bfloat16"))
def sum_into_a_narrower_fragment(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), T.float32), Out: T.Tensor((32,), T.bfloat16)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((32, 64), T.float32)
            out = T.alloc_fragment((32,), T.bfloat16)
            T.copy(A, f)
            T.reduce_sum(f, out, dim=1)
            T.copy(out, Out)

    a, out = run.integers(32, 64, dtype="float32"), run.empty(32, dtype="bfloat16")
    run(kernel, a, out)
    run.equal(out, a.sum(1).bfloat16())


@TABLE(case="R11", needs=("reduce",))
def absolute_values_of_integers(run: Run) -> None:
    for dtype in ("int8", "int16", "uint8", "int32"):

        @T.prim_func
        def kernel(A: T.Tensor((8, 50), dtype), Out: T.Tensor((8,), dtype)):
            with T.Kernel(1, threads=64):
                f = T.alloc_fragment((8, 50), dtype)
                out = T.alloc_fragment((8,), dtype)
                T.copy(A, f)
                T.reduce_absmax(f, out, dim=1)
                T.copy(out, Out)

        low = 0 if dtype == "uint8" else -100
        a, out = run.integers(8, 50, low=low, high=100, dtype=dtype), run.empty(8, dtype=dtype)
        run(kernel, a, out)
        run.equal(out, a.to(torch.int64).abs().amax(1))


@TABLE(case="R13", needs=("reduce",))
def bitwise_reduction_of_floats_is_refused(run: Run) -> None:
    with run.raises(ValueError, naming=["float32"]):

        @T.prim_func
        def kernel(A: T.Tensor((4, 4), T.float32)):
            with T.Kernel(1, threads=32):
                f = T.alloc_fragment((4, 4), T.float32)
                out = T.alloc_fragment((4,), T.float32)
                T.copy(A, f)
                T.reduce_bitand(f, out, dim=1)


@TABLE(case="R3", needs=("reduce",))
def a_matrix_vector_product_with_a_reducer(run: Run) -> None:
    m, n, bm, bn = 64, 96, 2, 48

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.float32), X: T.Tensor((n,), T.float32), Y: T.Tensor((m,), T.float32)):
        with T.Kernel(T.ceildiv(m, bm), threads=128) as by:
            total = T.alloc_reducer((bm,), T.float32, op="sum", replication="all")
            T.clear(total)
            for k in T.serial(T.ceildiv(n, bn)):
                for i, j in T.Parallel(bm, bn):
                    total[i] += A[by * bm + i, k * bn + j] * X[k * bn + j]
            T.finalize_reducer(total)
            T.copy(total, Y[by * bm])

    a, x, y = run.integers(m, n, dtype="float32"), run.integers(n, dtype="float32"), run.empty(m)
    run(kernel, a, x, y)
    run.equal(y, a @ x)


@TABLE(case="R8", needs=("scan",))
def a_scan_from_shared_into_a_fragment(run: Run) -> None:
    for n in (1, 31, 96, 100):

        @T.prim_func
        def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
            with T.Kernel(1, threads=96):
                s = T.alloc_shared((n,), T.float32)
                f = T.alloc_fragment((n,), T.float32)
                T.copy(A, s)
                T.cumsum(s, f, dim=0)
                T.copy(f, B)

        a, b = run.integers(n, dtype="float32"), run.empty(n)
        run(kernel, a, b)
        run.equal(b, a.cumsum(0))


@TABLE(needs=("scan",))
def scans_that_leave_threads_over(run: Run) -> None:
    for m, n, threads in ((1, 1, 33), (2, 513, 160), (3, 97, 96), (5, 64, 1)):

        @T.prim_func
        def kernel(
            A: T.Tensor((m, n), T.float32), Sums: T.Tensor((m, n), T.float32), Most: T.Tensor((m, n), T.float32)
        ):
            with T.Kernel(1, threads=threads):
                f = T.alloc_fragment((m, n), T.float32)
                T.copy(A, f)
                T.cumsum(f, dim=1, reverse=True)
                T.copy(f, Sums)
                T.copy(A, f)
                T.cummax(f, dim=1)
                T.copy(f, Most)

        a, sums, most = run.integers(m, n, dtype="float32"), run.empty(m, n), run.empty(m, n)
        run(kernel, a, sums, most)
        run.equal(sums, a.flip(1).cumsum(1).flip(1))
        run.equal(most, a.cummax(1).values)


@TABLE(needs=("scan",))
def running_maximum(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((7, 50), T.float32), B: T.Tensor((7, 50), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((7, 50), T.float32)
            T.copy(A, s)
            T.cummax(s, dim=1)
            T.copy(s, B)

    a, b = run.randn(7, 50), run.empty(7, 50)
    run(kernel, a, b)
    run.equal(b, a.cummax(1).values)


@TABLE(needs=("reduce",))
def reductions_of_booleans(run: Run) -> None:
    kinds = ("any", "all", "max", "min")
    rows = torch.zeros(5, 97, dtype=torch.bool, device=run.device)
    rows[0], rows[1, 95], rows[2, ::2], rows[3] = True, True, True, True
    rows[3, 33] = False

    for threads in (64, 96):

        @T.prim_func
        def kernel(A: T.Tensor((5, 97), T.bool), Out: T.Tensor((len(kinds), 5), T.bool)):
            with T.Kernel(1, threads=threads):
                f = T.alloc_fragment((5, 97), T.bool)
                out = T.alloc_fragment((5,), T.bool)
                T.copy(A, f)
                for position, kind in enumerate(kinds):
                    T.reduce(f, out, kind, dim=1, clear=True)
                    T.copy(out, Out[position, :])

        found = torch.stack([rows.any(1), rows.all(1), rows.any(1), rows.all(1)])
        out = ~found
        run(kernel, rows, out)
        run.equal(out, found)


@TABLE(needs=("reduce",))
def bitwise_reductions(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((5, 70), T.int32), Out: T.Tensor((3, 5), T.int32)):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((5, 70), T.int32)
            conjunction = T.alloc_fragment((5,), T.int32)
            disjunction = T.alloc_fragment((5,), T.int32)
            parity = T.alloc_fragment((5,), T.int32)
            T.copy(A, f)
            T.reduce_bitand(f, conjunction, dim=1)
            T.reduce_bitor(f, disjunction, dim=1)
            T.reduce_bitxor(f, parity, dim=1)
            T.copy(conjunction, Out[0, :])
            T.copy(disjunction, Out[1, :])
            T.copy(parity, Out[2, :])

    a, out = run.integers(5, 70, low=-1000, high=1000), run.empty(3, 5, dtype="int32")
    run(kernel, a, out)
    expected = torch.stack([a[:, 0].clone() for _ in range(3)])
    for column in range(1, 70):
        expected[0] &= a[:, column]
        expected[1] |= a[:, column]
        expected[2] ^= a[:, column]
    run.equal(out, expected)


@TABLE(needs=("reduce",))
def infinities_and_nan_in_rows(run: Run) -> None:
    rows = [
        [1.0, float("inf"), 2.0, -3.0],
        [1.0, float("-inf"), 2.0, -3.0],
        [float("-inf")] * 4,
        [float("inf"), float("-inf"), 0.0, 1.0],
    ]

    @T.prim_func
    def kernel(A: T.Tensor((4, 4), T.float32), Out: T.Tensor((3, 4), T.float32)):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((4, 4), T.float32)
            total = T.alloc_fragment((4,), T.float32)
            largest = T.alloc_fragment((4,), T.float32)
            smallest = T.alloc_fragment((4,), T.float32)
            T.copy(A, f)
            T.reduce_sum(f, total, dim=1)
            T.reduce_max(f, largest, dim=1)
            T.reduce_min(f, smallest, dim=1)
            T.copy(total, Out[0, :])
            T.copy(largest, Out[1, :])
            T.copy(smallest, Out[2, :])

    a, out = run.tensor(rows), run.empty(3, 4)
    run(kernel, a, out)
    run.equal(out, torch.stack([a.sum(1), a.amax(1), a.amin(1)]))


@TABLE(case="R4", needs=("reduce",))
def a_reducer_of_several_values_is_finished_in_batches(run: Run) -> None:
    for batch in (1, 4):

        @T.prim_func
        def kernel(A: T.Tensor((8, 96), T.int32), Out: T.Tensor((8,), T.int32)):
            with T.Kernel(1, threads=96):
                total = T.alloc_reducer((8,), T.int32, op="sum", replication="all")
                T.clear(total)
                for i, j in T.Parallel(8, 96):
                    total[i] += A[i, j]
                T.finalize_reducer(total, batch=batch)
                T.copy(total, Out)

        a, out = run.integers(8, 96), run.empty(8, dtype="int32")
        run(kernel, a, out)
        run.equal(out, a.sum(1))
