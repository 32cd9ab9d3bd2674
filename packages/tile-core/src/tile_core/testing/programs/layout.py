"""Fragments and how parallel loops share them, at thread counts that fit and that do not."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("layout")
THREADS = (64, 128, 256, 96)


@TABLE(case="L1")
def partial_overwrite(run: Run) -> None:
    for threads in THREADS:

        @T.prim_func
        def kernel(C: T.Tensor((256,), T.float32)):
            with T.Kernel(1, threads=threads):
                f = T.alloc_fragment((256,), T.float32)
                for i in T.Parallel(256):
                    f[i] = 1
                for i in T.Parallel(100):
                    f[i] = 5
                for i in T.Parallel(256):
                    C[i] = f[i] + 1

        c = run.empty(256)
        run(kernel, c)
        run.equal(c, torch.tensor([6.0] * 100 + [2.0] * 156))


@TABLE(case="L4")
def broadcast_rows_of_a_fragment(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 14), T.int32), B: T.Tensor((16, 448), T.int32)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((16, 14), T.int32)
            T.copy(A, f)
            for i, j in T.Parallel(16, 448):
                B[i, j] += f[i, j // 32]

    a, b = run.integers(16, 14), run.integers(16, 448)
    expected = b + a.repeat_interleave(32, dim=1)
    run(kernel, a, b)
    run.equal(b, expected)


@TABLE(case="L8", needs=("bfloat16",))
def small_tile_many_threads(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), T.bfloat16), D: T.Tensor((4, 64), T.float32)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((8,), T.bfloat16)
            f = T.alloc_fragment((8,), T.float32)
            T.copy(A, s)
            T.copy(s, f)
            for k in T.serial(64):
                for i in T.Parallel(4):
                    D[i, k] = s[i]

    a, d = run.randn(8, dtype="bfloat16"), run.empty(4, 64)
    run(kernel, a, d)
    run.equal(d, a[:4].float()[:, None].expand(4, 64))


@TABLE(case="L9", needs=("reduce",))
def reduce_middle_axis_then_divide(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 4, 4), T.float32), B: T.Tensor((32, 4, 4), T.float32)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((32, 4, 4), T.float32)
            total = T.alloc_fragment((32, 4), T.float32)
            T.copy(A, f)
            T.reduce_sum(f, total, dim=1)
            for i, j, k in T.Parallel(32, 4, 4):
                B[i, j, k] = f[i, j, k] / total[i, k]

    a, b = run.randn(32, 4, 4).abs() + 0.5, run.empty(32, 4, 4)
    run(kernel, a, b)
    run.close(b, a / a.sum(dim=1, keepdim=True))


@TABLE(case="V1")
def variable_set_in_a_parallel_loop(run: Run) -> None:
    @T.prim_func
    def kernel(D: T.Tensor((2048,), T.int32)):
        with T.Kernel(1, threads=64):
            index = T.alloc_var(T.int32)
            for i in T.Parallel(2048):
                index = i
                D[i] = index

    d = run.empty(2048, dtype="int32")
    run(kernel, d)
    run.equal(d, torch.arange(2048))


@TABLE()
def three_axes_with_odd_extents(run: Run) -> None:
    for extents in ((1, 1, 1), (3, 5, 7), (2, 31, 17)):
        m, n, k = extents

        @T.prim_func
        def kernel(A: T.Tensor((m, n, k), T.float32), B: T.Tensor((k, n, m), T.float32)):
            with T.Kernel(1, threads=96):
                for x, y, z in T.Parallel(m, n, k):
                    B[z, y, x] = A[x, y, z] * 2

        a, b = run.randn(m, n, k), run.empty(k, n, m)
        run(kernel, a, b)
        run.equal(b, a.permute(2, 1, 0) * 2)


@TABLE(case="L3", needs=("reduce", "float16"))
def normalised_rows_with_few_threads(run: Run) -> None:
    for d in (512, 576):

        @T.prim_func
        def kernel(X: T.Tensor((3, d), T.float16), Y: T.Tensor((3, d), T.float16)):
            with T.Kernel(3, threads=64) as row:
                x = T.alloc_fragment((d,), T.float32)
                square = T.alloc_fragment((d,), T.float32)
                total = T.alloc_fragment((1,), T.float32)
                T.copy(X[row, :], x)
                for i in T.Parallel(d):
                    square[i] = x[i] * x[i]
                T.reduce_sum(square, total)
                for i in T.Parallel(d):
                    Y[row, i] = x[i] * T.rsqrt(total[0] / d + 1e-6)

        x, y = run.randn(3, d, dtype="float16"), run.empty(3, d, dtype="float16")
        run(kernel, x, y)
        wide = x.float()
        run.close(y, wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6), rtol=2e-3, atol=2e-3)


@TABLE(case="L5", needs=("dynamic",))
def a_guarded_row_of_a_strided_tensor(run: Run) -> None:
    n, stride = T.dynamic("n"), T.dynamic("stride")

    @T.prim_func
    def kernel(
        A: T.StridedTensor((n, 8192), (stride, 1), T.uint8), B: T.StridedTensor((n, 8192), (stride, 1), T.uint8)
    ):
        with T.Kernel(1, threads=128):
            for token, i in T.Parallel(64, 8192):
                if token < 1:
                    B[token, i] = A[token, i]

    wide_a = run.integers(3, 9000, low=0, high=200, dtype="uint8")
    wide_b = torch.full((3, 9000), 201, dtype=torch.uint8)
    expected = wide_b.clone()
    expected[0, :8192] = wide_a[0, :8192]
    run(kernel, wide_a[:, :8192], wide_b[:, :8192])
    run.equal(wide_b, expected)


@TABLE(case="L11")
def a_fragment_written_out_by_a_serial_loop(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 16), T.float32), B: T.Tensor((16, 16), T.float32)):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((16, 16), T.float32)
            T.copy(A, f)
            for i in T.serial(16):
                for j in T.serial(16):
                    B[i, j] = f[i, j] * 2.0

    a, b = run.randn(16, 16), run.empty(16, 16)
    run(kernel, a, b)
    run.equal(b, a * 2)


@TABLE(case="L13", needs=("reduce",))
def largest_magnitude_of_groups_of_a_reshaped_tile(run: Run) -> None:
    m, k, group = 6, 64, 16

    @T.prim_func
    def kernel(A: T.Tensor((m, k), T.float32), Out: T.Tensor((m * k // group,), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((m, k), T.float32)
            out = T.alloc_fragment((m * k // group,), T.float32)
            T.copy(A, s)
            T.reduce_absmax(T.reshape(s, (m * k // group, group)), out, dim=1)
            T.copy(out, Out)

    a, out = run.randn(m, k), run.empty(m * k // group)
    run(kernel, a, out)
    run.equal(out, a.reshape(-1, group).abs().amax(1))


@TABLE(case="V5")
def a_mask_fragment(run: Run) -> None:
    @T.prim_func
    def kernel(Index: T.Tensor((64,), T.int32), Mask: T.Tensor((64,), T.bool)):
        with T.Kernel(1, threads=32):
            mask = T.alloc_fragment((64,), T.bool)
            for i in T.Parallel(64):
                mask[i] = Index[i] >= 0
            T.copy(mask, Mask)

    index, mask = run.integers(64), run.empty(64, dtype="bool")
    run(kernel, index, mask)
    run.equal(mask, index >= 0)


@TABLE(case="V8")
def select_lane_by_lane(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), T.float32), B: T.Tensor((4,), T.float32), C: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=1):
            for i in T.vectorized(4):
                C[i] = T.Select(A[i] > B[i], A[i], B[i])

    a, b, c = run.tensor([1.0, 5.0, -2.0, 0.0]), run.tensor([2.0, 4.0, -3.0, 0.0]), run.empty(4)
    run(kernel, a, b, c)
    run.equal(c, [2.0, 5.0, -2.0, 0.0])


@TABLE()
def a_column_reduction_feeds_rows(run: Run) -> None:
    m, n = 24, 40

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.float32), B: T.Tensor((m, n), T.float32)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((m, n), T.float32)
            largest = T.alloc_fragment((n,), T.float32)
            T.copy(A, f)
            T.reduce_max(f, largest, dim=0)
            for i, j in T.Parallel(m, n):
                B[i, j] = f[i, j] - largest[j]

    a, b = run.randn(m, n), run.empty(m, n)
    run(kernel, a, b)
    run.equal(b, a - a.amax(0))


@TABLE()
def a_bias_is_broadcast_over_rows(run: Run) -> None:
    m, n = 13, 37

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.float32), Bias: T.Tensor((n,), T.float32), B: T.Tensor((m, n), T.float32)):
        with T.Kernel(1, threads=96):
            f = T.alloc_fragment((m, n), T.float32)
            bias = T.alloc_fragment((n,), T.float32)
            T.copy(A, f)
            T.copy(Bias, bias)
            for i, j in T.Parallel(m, n):
                f[i, j] += bias[j]
            T.copy(f, B)

    a, bias, b = run.randn(m, n), run.randn(n), run.empty(m, n)
    run(kernel, a, bias, b)
    run.equal(b, a + bias)


@TABLE(case="V2")
def lanes_that_add_into_one_place(run: Run) -> None:
    """An address without the lane: the lanes are added one after another, whatever runs the loop."""

    @T.prim_func
    def kernel(A: T.Tensor((4, 8), T.int32), B: T.Tensor((4,), T.int32)):
        with T.Kernel(4, threads=1) as bx:
            total = T.alloc_local((1,), T.int32)
            total[0] = 0
            for lane in T.vectorized(8):
                total[0] += A[bx, lane]
            B[bx] = total[0]

    a, b = run.integers(4, 8), run.empty(4, dtype="int32")
    run(kernel, a, b)
    run.equal(b, a.sum(1))


@TABLE(case="L14")
def a_layout_that_is_not_injective_is_refused(run: Run) -> None:
    with run.raises(naming=["not injective", "tile"]):

        @T.prim_func
        def kernel(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
            with T.Kernel(1, threads=64):
                tile = T.alloc_shared((128,), T.float32)
                T.annotate_layout({tile: T.Layout((128,), lambda i: i % 64)})
                T.copy(A, tile)
                T.copy(tile, B)


@TABLE(case="L14")
def injective_layouts_change_nothing(run: Run) -> None:
    for place in (lambda i: i ^ 1, lambda i: 2 * i, lambda i: i + 10):

        @T.prim_func
        def kernel(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
            with T.Kernel(1, threads=64):
                tile = T.alloc_shared((128,), T.float32)
                T.annotate_layout({tile: T.Layout((128,), place)})
                T.copy(A, tile)
                for i in T.Parallel(128):
                    B[i] = tile[127 - i]

        a, b = run.randn(128), run.empty(128)
        run(kernel, a, b)
        run.equal(b, a.flip(0))


@TABLE()
def vectors_inside_of_a_parallel_loop(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40, 3), T.int32), B: T.Tensor((40, 3), T.int32), Sums: T.Tensor((41,), T.int32)):
        with T.Kernel(1, threads=64):
            last = T.alloc_var(T.int32)
            for i in T.Parallel(40):
                for w in T.vectorized(3):
                    last = w
                    B[i, w] = A[i, w] + w
            for i in T.Parallel(37):
                for w in T.vectorized(3):
                    Sums[i] = Sums[i] + A[i, w]
            Sums[40] = last

    a, b, sums = run.integers(40, 3), run.empty(40, 3, dtype="int32"), run.integers(41, low=0, high=1)
    run(kernel, a, b, sums)
    run.equal(b, a + run.tensor([0, 1, 2], "int32"))
    run.equal(sums, [*a.sum(1)[:37].tolist(), 0, 0, 0, 2])
