"""Copies, fills, regions and bounds."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("memory")


@TABLE(case="C1")
def padding_takes_the_safe_value(run: Run) -> None:
    for safe in (0, -99):

        @T.prim_func
        def kernel(A: T.Tensor((60, 60), T.int32), B: T.Tensor((64, 64), T.int32)):
            with T.Kernel(1, threads=128):
                s = T.alloc_shared((64, 64), T.int32)
                if safe:
                    T.annotate_safe_value({A: safe})
                T.copy(A[0:64, 0:64], s)
                T.copy(s, B)

        a, b = run.integers(60, 60), run.empty(64, 64, dtype="int32")
        run(kernel, a, b)
        expected = torch.full((64, 64), safe, dtype=torch.int32)
        expected[:60, :60] = a
        run.equal(b, expected)


@TABLE(case="C3")
def nothing_is_written_past_the_end(run: Run) -> None:
    n, block = 1000, 256

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            s = T.alloc_shared((block,), T.float32)
            T.copy(A[bx * block], s)
            T.copy(s, B[bx * block])

    a = run.randn(n)
    b, behind = run.guarded(n)
    run(kernel, a, b)
    run.equal(b, a)
    run.equal(behind, torch.full_like(behind, float("nan")))


@TABLE(case="C4")
def a_tile_at_an_unaligned_column(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 32), T.int32), B: T.Tensor((32, 40), T.int32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((32, 32), T.int32)
            T.copy(A, s)
            T.copy(s, B[0:32, 1:33])

    a, b = run.integers(32, 32), run.empty(32, 40, dtype="int32")
    expected = b.clone()
    expected[:, 1:33] = a
    run(kernel, a, b)
    run.equal(b, expected)


@TABLE(case="C5", needs=("float16",))
def any_number_of_threads_copies_a_tile(run: Run) -> None:
    for threads in (2, 3, 17, 31):

        @T.prim_func
        def kernel(A: T.Tensor((24, 10), T.float16), B: T.Tensor((24, 10), T.float16)):
            with T.Kernel(1, threads=threads):
                s = T.alloc_shared((24, 10), T.float16)
                T.copy(A, s)
                T.copy(s, B)

        a, b = run.randn(24, 10, dtype="float16"), run.empty(24, 10, dtype="float16")
        run(kernel, a, b)
        run.equal(b, a)


@TABLE(case="C8")
def a_negative_constant_index_counts_from_the_end(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32), B: T.Tensor((2,), T.int32)):
        with T.Kernel(1, threads=32):
            B[0] = A[-1]
            B[-1] = A[-8]

    b = run.empty(2, dtype="int32")
    run(kernel, torch.arange(8, dtype=torch.int32, device=run.device), b)
    run.equal(b, [7, 0])


@TABLE(case="C8")
def reads_before_the_start_give_the_safe_value(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1024,), T.int32), B: T.Tensor((4, 4), T.int32)):
        with T.Kernel(1, threads=32):
            for t, lane in T.Parallel(4, 4):
                B[t, lane] = A[t + lane - 2]

    a, b = torch.arange(1, 1025, dtype=torch.int32, device=run.device), run.empty(4, 4, dtype="int32")
    run(kernel, a, b)
    run.equal(b, [[0, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]])


@TABLE(case="C10")
def one_element_with_conversion(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), T.int64), B: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32):
            T.copy(A[2], B[1])

    a, b = run.tensor([1, 2, 2**33 + 5, 4], "int64"), torch.zeros(4, dtype=torch.int32, device=run.device)
    run(kernel, a, b)
    run.equal(b, [0, 5, 0, 0])


@TABLE(case="C13", needs=("dynamic",))
def a_slice_of_dynamic_length(run: Run) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((1024,), T.float32)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((1024,), T.float32)
            T.fill(s, -1.0)
            T.copy(A[0:n], s[0:n])
            T.copy(s, B)

    for length in (0, 1, 7, 1000, 1024):
        a, b = run.randn(length), run.empty(1024)
        run(kernel, a, b)
        run.equal(b, torch.cat([a, torch.full((1024 - length,), -1.0)]))


@TABLE(case="C14", needs=("dynamic",))
def fill_of_a_range_of_global_memory(run: Run) -> None:
    @T.prim_func
    def kernel(X: T.Tensor((300,), T.float32), R: T.Tensor((2,), T.int32)):
        with T.Kernel(1, threads=64):
            T.fill(X[0:128], 1.0)
            T.fill(X[R[0] : R[1]], 2.0)

    x = torch.zeros(300, device=run.device)
    run(kernel, x, run.tensor([130, 299], "int32"))
    run.equal(x, torch.tensor([1.0] * 128 + [0.0] * 2 + [2.0] * 169 + [0.0]))


@TABLE(case="C15")
def nested_guards_never_read_out_of_bounds(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((128,), T.float32), B: T.Tensor((140,), T.float32)):
        with T.Kernel(1, threads=64):
            for j in T.Parallel(140):
                i = j - 4
                B[j] = T.if_then_else(i >= 0, T.if_then_else(i < 128, A[i], 7.0), 8.0)

    a, b = run.randn(128), run.empty(140)
    run(kernel, a, b)
    run.equal(b, torch.cat([torch.full((4,), 8.0), a, torch.full((8,), 7.0)]))


@TABLE(case="V13", needs=("dynamic", "bfloat16"))
def dynamic_elementwise_with_tails(run: Run) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.bfloat16), B: T.Tensor((n,), T.bfloat16), C: T.Tensor((n,), T.bfloat16)):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
            for i in T.Parallel(256):
                C[bx * 256 + i] = A[bx * 256 + i] + B[bx * 256 + i]

    compiled = run.compile(kernel)
    for length in (1000, 1, 7, 0, 256, 257):
        a, b = run.randn(length, dtype="bfloat16"), run.randn(length, dtype="bfloat16")
        c, behind = run.guarded(length, dtype="bfloat16")
        compiled(a, b, c)
        run.equal(c, a + b)
        run.equal(behind, torch.full_like(behind, float("nan")))


@TABLE()
def rows_and_columns_of_odd_tiles(run: Run) -> None:
    for m, n, bm, bn in ((1, 1, 8, 8), (17, 31, 8, 16), (100, 3, 32, 4), (64, 64, 64, 64), (13, 257, 7, 96)):

        @T.prim_func
        def kernel(A: T.Tensor((m, n), T.float32), B: T.Tensor((n, m), T.float32)):
            with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=96) as (bx, by):
                s = T.alloc_shared((bm, bn), T.float32)
                f = T.alloc_fragment((bn, bm), T.float32)
                T.copy(A[by * bm, bx * bn], s)
                for i, j in T.Parallel(bn, bm):
                    f[i, j] = s[j, i]
                T.copy(f, B[bx * bn, by * bm])

        a, b = run.randn(m, n), run.empty(n, m)
        run(kernel, a, b)
        run.equal(b, a.T)


@TABLE()
def shape_mismatch_is_refused(run: Run) -> None:
    with run.raises(ValueError, naming=["A", "S", "64", "32"]):

        @T.prim_func
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1, threads=32):
                S = T.alloc_shared((32,), T.float32)
                T.copy(A, S)


@TABLE()
def a_region_outside_its_buffer_is_refused(run: Run) -> None:
    with run.raises(naming=["S"]):

        @T.prim_func
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1, threads=32):
                S = T.alloc_shared((32,), T.float32)
                T.fill(S[16:48], 0)

        run.compile(kernel)


@TABLE(case="C11")
def bytes_of_packed_integers_move_unchanged(run: Run) -> None:
    for threads in (32, 64, 128):

        @T.prim_func
        def kernel(A: T.Tensor((128,), T.int8), B: T.Tensor((128,), T.int8)):
            with T.Kernel(1, threads=threads):
                s = T.alloc_shared((128,), T.int8)
                T.copy(A, s)
                T.copy(s, B)

        a, b = run.integers(128, low=-128, high=128, dtype="int8"), run.empty(128, dtype="int8")
        run(kernel, a, b)
        run.equal(b, a)


@TABLE(case="C19", needs=("bfloat16",))
def a_shared_tile_seen_as_another_dtype(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), T.bfloat16), B: T.Tensor((32, 32), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((32, 64), T.bfloat16)
            T.copy(A, s)
            words = T.view(s, (32, 32), T.float32)
            T.copy(words, B)

    a, b = run.randn(32, 64, dtype="bfloat16"), run.empty(32, 32)
    run(kernel, a, b)
    run.equal(b.view(torch.int32), a.view(torch.int32))


@TABLE(case="S4", needs=("atomics",))
def shared_atomics_are_seen_by_every_thread(run: Run) -> None:
    for threads in (64, 1000):

        @T.prim_func
        def kernel(A: T.Tensor((1000,), T.int32), Out: T.Tensor((16,), T.int32)):
            with T.Kernel(1, threads=threads):
                counts = T.alloc_shared((16,), T.int32)
                T.clear(counts)
                for i in T.Parallel(1000):
                    T.atomic_add(counts[A[i]], 1)
                for i in T.Parallel(16):
                    Out[i] = counts[15 - i]

        a, out = run.integers(1000, low=0, high=16), run.empty(16, dtype="int32")
        run(kernel, a, out)
        run.equal(out, torch.bincount(a.long(), minlength=16).flip(0).int())


@TABLE(case="S6")
def fill_then_partial_writes_then_reads(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((100,), T.float32), B: T.Tensor((256,), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((256,), T.float32)
            T.fill(s, -1.0)
            for i in T.Parallel(100):
                s[2 * i] = A[i]
            for i in T.Parallel(256):
                B[i] = s[255 - i]

    a, b = run.randn(100), run.empty(256)
    run(kernel, a, b)
    expected = torch.full((256,), -1.0)
    expected[0:200:2] = a
    run.equal(b, expected.flip(0))


@TABLE()
def strided_and_column_slices(run: Run) -> None:
    @T.prim_func
    def kernel(
        A: T.Tensor((20, 30), T.float32), Column: T.Tensor((20,), T.float32), Block: T.Tensor((5, 7), T.float32)
    ):
        with T.Kernel(1, threads=32):
            column = T.alloc_fragment((20,), T.float32)
            T.copy(A[:, 11], column)
            T.copy(column, Column)
            T.copy(A[3:8, 20:27], Block)

    a, column, block = run.randn(20, 30), run.empty(20), run.empty(5, 7)
    run(kernel, a, column, block)
    run.equal(column, a[:, 11])
    run.equal(block, a[3:8, 20:27])


@TABLE(needs=("bfloat16", "float16"))
def copies_convert_between_every_pair_of_dtypes(run: Run) -> None:
    dtypes = ("float32", "float16", "bfloat16", "int32", "int8", "uint8")
    for source in dtypes:
        for target in dtypes:

            @T.prim_func
            def kernel(A: T.Tensor((37,), source), B: T.Tensor((37,), target)):
                with T.Kernel(1, threads=32):
                    f = T.alloc_fragment((37,), target)
                    T.copy(A, f)
                    T.copy(f, B)

            a, b = run.integers(37, low=0, high=100, dtype=source), run.empty(37, dtype=target)
            run(kernel, a, b)
            run.equal(b, a.to(b.dtype))


@TABLE()
def transposed_tile(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((20, 33), T.float32), B: T.Tensor((33, 20), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((20, 33), T.float32)
            t = T.alloc_shared((33, 20), T.float32)
            T.copy(A, s)
            T.transpose(s, t)
            T.copy(t, B)

    a, b = run.randn(20, 33), run.empty(33, 20)
    run(kernel, a, b)
    run.equal(b, a.T)


@TABLE()
def indices_far_outside_read_zero(run: Run) -> None:
    @T.prim_func
    def kernel(X: T.Tensor((96,), T.float32), Y: T.Tensor((3, 8, 48), T.float32)):
        with T.Kernel(8, threads=48) as b:
            far = b * 2147483647
            for j in T.Parallel(48):
                Y[0, b, j] = X[b * 48 << j]
                Y[1, b, j] = X[b * 2147483647 + j]
                Y[2, b, j] = X[far * 2 + j]

    x, y = run.randn(96), run.empty(3, 8, 48)
    run(kernel, x, y)
    beyond = 96
    index = torch.full((3, 8, 48), beyond, device=run.device)
    for b in range(8):
        for j in range(48):
            for form, at in enumerate((b * 48 << j, b * 2147483647 + j, b * 2147483647 * 2 + j)):
                index[form, b, j] = min(at, beyond)
    run.equal(y, torch.cat([x, torch.zeros(1, device=run.device)])[index])


@TABLE(case="D11", needs=("uint8", "int64"))
def elements_beyond_the_range_of_int32(run: Run) -> None:
    """Found by a constant, by an index of 64 bits and by a sum that 32 bits do not hold."""
    n, at = 2**31 + 64, 2**31 + 3

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.uint8), B: T.Tensor((48,), T.uint8), start: T.int64):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(16):
                B[i] = A[at + i]
                B[16 + i] = A[start + i]
                B[32 + i] = A[(bx + 1) * 2147483647 + 4 + i]

    # Memory that nobody touches is not paid for.
    a, b = torch.empty(n, dtype=torch.uint8), run.empty(48, dtype="uint8")
    a[at : at + 17] = torch.arange(100, 117, dtype=torch.uint8)
    run(kernel, a, b, at)
    run.equal(b, [*range(100, 116)] * 3)


@TABLE()
def unsigned_indices_are_guarded(run: Run) -> None:
    for dtype in ("uint8", "uint32", "uint64"):

        @T.prim_func
        def kernel(At: T.Tensor((6,), T.int32), X: T.Tensor((4,), T.float32), Y: T.Tensor((6,), T.float32)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(6):
                    Y[i] = X[T.cast(At[i], dtype)]

        at, x, y = run.tensor([3, 0, 4, 200, 1, 5], "int32"), run.randn(4), run.empty(6)
        run(kernel, at, x, y)
        run.equal(y, torch.cat([x, torch.zeros(1, device=run.device)])[[3, 0, 4, 4, 1, 4]])
