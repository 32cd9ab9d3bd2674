"""Whole kernels as people write them, at sizes that nothing divides: several constructs that must hold together."""

from __future__ import annotations

import torch

import tile_core.language as T
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("kernels")


@TABLE(needs=("reduce", "atomics"))
def experts_of_tokens_and_their_counts(run: Run) -> None:
    tokens, experts, chosen, block = 37, 7, 2, 16

    @T.prim_func
    def kernel(
        Scores: T.Tensor((tokens, experts), T.float32),
        Ids: T.Tensor((tokens, chosen), T.int32),
        Counts: T.Tensor((experts,), T.int32),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=96) as b:
            T.annotate_safe_value({Scores: -T.infinity("float32")})
            scores, places = T.alloc_fragment((block, experts), T.float32), T.alloc_fragment((block, experts), T.int32)
            best, place = T.alloc_fragment((block,), T.float32), T.alloc_fragment((block,), T.int32)
            counts = T.alloc_shared((experts,), T.int32)
            T.clear(counts)
            T.copy(Scores[b * block, 0], scores)
            for k in range(chosen):
                T.reduce_max(scores, best, dim=1)
                for i, j in T.Parallel(block, experts):
                    places[i, j] = T.if_then_else(scores[i, j] == best[i], j, experts)
                T.reduce_min(places, place, dim=1)
                for i in T.Parallel(block):
                    if b * block + i < tokens:
                        Ids[b * block + i, k] = place[i]
                        T.atomic_add(counts[place[i]], 1)
                for i, j in T.Parallel(block, experts):
                    if j == place[i]:
                        scores[i, j] = -T.infinity("float32")
            for j in T.Parallel(experts):
                T.atomic_add(Counts[j], counts[j])

    scores = run.integers(tokens, experts, dtype="float32")
    ids, counts = run.empty(tokens, chosen, dtype="int32"), torch.zeros(experts, dtype=torch.int32)
    run(kernel, scores, ids, counts)
    found = torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :chosen]
    run.equal(ids, found)
    run.equal(counts, torch.bincount(found.flatten(), minlength=experts))


@TABLE(needs=("reduce", "atomics"))
def gradients_of_normalised_rows(run: Run) -> None:
    # What is added to the mean square is not small: in rows of one element the gradient would else be a difference of
    # almost equal numbers, whose rounding is all that is left.
    m, n, rows = 13, 97, 4

    @T.prim_func
    def kernel(
        X: T.Tensor((m, n), T.float32),
        Given: T.Tensor((m, n), T.float32),
        Weight: T.Tensor((n,), T.float32),
        OfX: T.Tensor((m, n), T.float32),
        OfWeight: T.Tensor((n,), T.float32),
    ):
        with T.Kernel(T.ceildiv(m, rows), threads=160) as b:
            x, g = T.alloc_fragment((n,), T.float32), T.alloc_fragment((n,), T.float32)
            part, weight = T.alloc_fragment((n,), T.float32), T.alloc_fragment((n,), T.float32)
            scale, slope = T.alloc_fragment((1,), T.float32), T.alloc_fragment((1,), T.float32)
            T.clear(weight)
            for r in T.serial(rows):
                row = b * rows + r
                if row < m:
                    T.copy(X[row, 0:n], x)
                    for j in T.Parallel(n):
                        part[j] = x[j] * x[j]
                    T.reduce_sum(part, scale)
                    scale[0] = T.rsqrt(scale[0] / n + 0.5)
                    for j in T.Parallel(n):
                        weight[j] += Given[row, j] * x[j] * scale[0]
                        g[j] = Given[row, j] * Weight[j]
                        part[j] = g[j] * x[j]
                    T.reduce_sum(part, slope)
                    for j in T.Parallel(n):
                        OfX[row, j] = scale[0] * (g[j] - x[j] * slope[0] * scale[0] * scale[0] / n)
            for j in T.Parallel(n):
                T.atomic_add(OfWeight[j], weight[j])

    x, weight, given = run.randn(m, n), run.randn(n), run.randn(m, n)
    of_x, of_weight = run.empty(m, n), torch.zeros(n)
    run(kernel, x, given, weight, of_x, of_weight)
    leaf, leaf_weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    (leaf * torch.rsqrt(leaf.square().mean(1, keepdim=True) + 0.5) * leaf_weight).backward(given)
    run.close(of_x, leaf.grad, rtol=1e-4, atol=1e-4)
    run.close(of_weight, leaf_weight.grad, rtol=1e-4, atol=1e-4)


@TABLE()
def a_bitonic_sort_that_keeps_ties_in_order(run: Run) -> None:
    n, steps = 64, 6

    @T.prim_func
    def kernel(X: T.Tensor((n,), T.float32), Y: T.Tensor((n,), T.float32), Places: T.Tensor((n,), T.int32)):
        with T.Kernel(1, threads=96):
            x, p = T.alloc_shared((n,), T.float32), T.alloc_shared((n,), T.int32)
            y, q = T.alloc_shared((n,), T.float32), T.alloc_shared((n,), T.int32)
            T.copy(X, x)
            for i in T.Parallel(n):
                p[i] = i
            for size in range(steps):
                for back in range(size + 1):
                    for i in T.Parallel(n):
                        other = i ^ (1 << (size - back))
                        is_less = (x[i] < x[other]) or (x[i] == x[other] and p[i] < p[other])
                        keeps = ((i < other) == ((i & (2 << size)) == 0)) == is_less
                        y[i] = T.if_then_else(keeps, x[i], x[other])
                        q[i] = T.if_then_else(keeps, p[i], p[other])
                    T.copy(y, x)
                    T.copy(q, p)
            T.copy(x, Y)
            T.copy(p, Places)

    x = run.integers(n, dtype="float32")
    x[3], x[40] = float("inf"), float("-inf")
    y, places = run.empty(n), run.empty(n, dtype="int32")
    run(kernel, x, y, places)
    found = torch.sort(x, stable=True)
    run.equal(y, found.values)
    run.equal(places, found.indices)


@TABLE()
def a_search_by_halves_in_every_iteration(run: Run) -> None:
    n, asked = 37, 50

    @T.prim_func
    def kernel(Sorted: T.Tensor((n,), T.float32), X: T.Tensor((asked,), T.float32), Out: T.Tensor((asked,), T.int32)):
        with T.Kernel(T.ceildiv(asked, 32), threads=33) as b:
            for i in T.Parallel(32):
                if b * 32 + i < asked:
                    low, high = T.alloc_var("int32", init=0), T.alloc_var("int32", init=n)
                    while low < high:
                        middle = (low + high) // 2
                        if Sorted[middle] < X[b * 32 + i]:
                            low = middle + 1
                        else:
                            high = middle
                    Out[b * 32 + i] = low

    ordered, x = run.integers(n, dtype="float32").sort().values, run.integers(asked, low=-10, high=11, dtype="float32")
    out = run.empty(asked, dtype="int32")
    run(kernel, ordered, x, out)
    run.equal(out, torch.searchsorted(ordered, x))


@TABLE()
def the_largest_of_a_row_by_insertion(run: Run) -> None:
    m, n, kept = 9, 61, 4

    @T.prim_func
    def kernel(X: T.Tensor((m, n), T.float32), Best: T.Tensor((m, kept), T.float32), At: T.Tensor((m, kept), T.int32)):
        with T.Kernel(1, threads=96):
            best, at = T.alloc_shared((m, kept), T.float32), T.alloc_shared((m, kept), T.int32)
            T.fill(best, -T.infinity("float32"))
            T.fill(at, -1)
            for i in T.Parallel(m):
                for j in T.serial(n):
                    if X[i, j] > best[i, kept - 1]:
                        place = T.alloc_var("int32", init=kept - 1)
                        while place > 0 and X[i, j] > best[i, T.max(place - 1, 0)]:
                            best[i, place] = best[i, place - 1]
                            at[i, place] = at[i, place - 1]
                            place -= 1
                        best[i, place] = X[i, j]
                        at[i, place] = j
            T.copy(best, Best)
            T.copy(at, At)

    x = run.integers(m, n, dtype="float32")
    best, at = run.empty(m, kept), run.empty(m, kept, dtype="int32")
    run(kernel, x, best, at)
    found = torch.sort(x, dim=1, descending=True, stable=True)
    run.equal(best, found.values[:, :kept])
    run.equal(at, found.indices[:, :kept])


@TABLE()
def random_bits_of_a_counter(run: Run) -> None:
    n, seed = 1009, 0xDEADBEEF

    @T.prim_func
    def kernel(X: T.Tensor((n,), T.float32), Y: T.Tensor((n,), T.float32), start: T.uint32, dropped: T.float32):
        with T.Kernel(T.ceildiv(n, 256), threads=160) as b:
            for i in T.Parallel(256):
                if b * 256 + i < n:
                    first = T.cast(b * 256 + i, "uint32") * T.uint32(0x9E3779B1) + start
                    second = (first ^ (first >> 16)) * T.uint32(0x85EBCA6B)
                    third = (second ^ (second >> 13)) * T.uint32(0xC2B2AE35)
                    share = T.cast((third ^ (third >> 16)) >> 8, "float32") * (1.0 / 16777216.0)
                    Y[b * 256 + i] = T.if_then_else(share >= dropped, X[b * 256 + i], 0.0)

    x, y = run.randn(n), run.empty(n)
    x[0], x[1], x[2] = float("nan"), float("inf"), float("-inf")
    run(kernel, x, y, seed, 0.25)
    mask = 0xFFFFFFFF
    bits = (torch.arange(n, dtype=torch.int64) * 0x9E3779B1 + seed) & mask
    bits = ((bits ^ (bits >> 16)) * 0x85EBCA6B) & mask
    bits = ((bits ^ (bits >> 13)) * 0xC2B2AE35) & mask
    share = ((bits ^ (bits >> 16)) >> 8).float() / 16777216
    run.equal(y, torch.where(share >= 0.25, x, 0.0))


@TABLE()
def neighbourhoods_beyond_every_edge(run: Run) -> None:
    m, n, rows, columns = 13, 9, 4, 8

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.float32), Out: T.Tensor((m, n), T.float32)):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=96) as (bx, by):
            T.annotate_safe_value({A: 5.0})
            tile = T.alloc_shared((rows + 2, columns + 2), T.float32)
            total = T.alloc_fragment((rows, columns), T.float32)
            top, left = by * rows - 1, bx * columns - 1
            T.copy(A[top : top + rows + 2, left : left + columns + 2], tile)
            T.clear(total)
            for down, right in T.grid(3, 3):
                for i, j in T.Parallel(rows, columns):
                    total[i, j] += tile[i + down, j + right]
            T.copy(total, Out[by * rows, bx * columns])

    a, out = run.integers(m, n, dtype="float32"), run.empty(m, n)
    run(kernel, a, out)
    padded = torch.nn.functional.pad(a, (1, 1, 1, 1), value=5.0)
    run.equal(out, sum(padded[i : i + m, j : j + n] for i in range(3) for j in range(3)))


@TABLE(needs=("scan",))
def what_is_kept_moves_together(run: Run) -> None:
    n = 97

    @T.prim_func
    def kernel(X: T.Tensor((n,), T.float32), Out: T.Tensor((n,), T.float32), Count: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=96):
            keep, place = T.alloc_shared((n,), T.int32), T.alloc_shared((n,), T.int32)
            for i in T.Parallel(n):
                keep[i] = T.if_then_else(X[i] > 0, 1, 0)
            T.cumsum(keep, place)
            for i in T.Parallel(n):
                if keep[i] == 1:
                    Out[place[i] - 1] = X[i]
            Count[0] = place[n - 1]

    x = run.randn(n)
    x[2], x[3], x[96] = float("nan"), -0.0, 7.0
    out, count = torch.full((n,), 9.0), run.empty(1, dtype="int32")
    run(kernel, x, out, count)
    kept = x[x > 0]
    run.equal(count, [len(kept)])
    run.equal(out, torch.cat([kept, torch.full((n - len(kept),), 9.0)]))
