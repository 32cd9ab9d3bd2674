"""Attention of one new token a sequence (decode): blocks share the context, a second kernel combines their parts.

    python examples/attention_decode.py [--target TARGET]

Checks both kinds against torch: keys and values as one tensor, and in pages that a table names.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

LOG2_E = 1.4426950408889634
ROWS = 64
"""Query heads that a block computes: those of one head of keys, padded to the rows of a matrix instruction."""


@T.macro
def softmax_step(scores: Any, weights: Any, result: Any, row_max: Any, total: Any, scale: float) -> None:
    """Turn scores into weights, and what was summed before to the new maximum."""
    rows, columns, dim = *scores.shape, result.shape[1]
    before = T.alloc_fragment((rows,), T.float32)
    row_scale = T.alloc_fragment((rows,), T.float32)
    row_sum = T.alloc_fragment((rows,), T.float32)
    T.copy(row_max, before)
    T.reduce_max(scores, row_max, dim=1, clear=False)
    for i in T.Parallel(rows):
        row_scale[i] = T.exp2((before[i] - row_max[i]) * scale)
    for i, j in T.Parallel(rows, columns):
        scores[i, j] = T.exp2((scores[i, j] - row_max[i]) * scale)
    T.reduce_sum(scores, row_sum, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * row_scale[i] + row_sum[i]
    for i, j in T.Parallel(rows, dim):
        result[i, j] = result[i, j] * row_scale[i]
    T.copy(scores, weights)


@T.macro
def combine(parts: Any, tops: Any, sums: Any, Out: Any, scale: float) -> None:
    """Out = the sum of the parts divided by the sum of their weights, both taken to the largest of the maxima."""
    splits, batch, heads, dim = parts.shape
    with T.Kernel(heads, batch, threads=128) as (h, b):
        top = T.alloc_var(T.float32, T.min_value(T.float32))
        total = T.alloc_var(T.float32, 0.0)
        result = T.alloc_fragment((dim,), T.float32)
        T.clear(result)
        for s in T.serial(splits):
            top = T.max(top, tops[s, b, h])
        for s in T.serial(splits):
            total += sums[s, b, h] * T.exp2((tops[s, b, h] - top) * scale)
            for j in T.Parallel(dim):
                result[j] += parts[s, b, h, j] * T.exp2((tops[s, b, h] - top) * scale)
        for j in T.Parallel(dim):
            Out[b, h, j] = result[j] / total


def decode(
    batch: int,
    heads: int,
    kv_heads: int,
    context: int,
    dim: int,
    dtype: str = "float16",
    *,
    splits: int = 2,
    block: int = 128,
    num_stages: int = 3,
) -> Any:
    """Out = softmax(Q Kᵀ / √dim) V for one query a sequence and head.

    Q and Out are (batch, heads, dim), K and V (batch, context, kv_heads, dim); `heads / kv_heads` query heads share one
    head of keys. Each of `splits` blocks takes its share of the context, `block` keys at a time.
    """
    group, scale = heads // kv_heads, dim**-0.5 * LOG2_E
    steps = T.ceildiv(T.ceildiv(context, block), splits)

    @T.prim_func
    def kernel(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((batch, context, kv_heads, dim), dtype),
        V: T.Tensor((batch, context, kv_heads, dim), dtype),
        Out: T.Tensor((batch, heads, dim), dtype),
    ):
        parts = T.alloc_global((splits, batch, heads, dim), T.float32)
        tops = T.alloc_global((splits, batch, heads), T.float32)
        sums = T.alloc_global((splits, batch, heads), T.float32)
        with T.Kernel(splits, kv_heads, batch, threads=128) as (split, h, b):
            Q_shared = T.alloc_shared((ROWS, dim), dtype)
            K_shared = T.alloc_shared((block, dim), dtype)
            V_shared = T.alloc_shared((block, dim), dtype)
            scores = T.alloc_fragment((ROWS, block), T.float32)
            weights = T.alloc_fragment((ROWS, block), dtype)
            result = T.alloc_fragment((ROWS, dim), T.float32)
            row_max = T.alloc_fragment((ROWS,), T.float32)
            total = T.alloc_fragment((ROWS,), T.float32)
            T.copy(Q[b, h * group : h * group + ROWS, :], Q_shared)
            T.clear(result)
            T.clear(total)
            T.fill(row_max, T.min_value(T.float32))
            for step in T.Pipelined(steps, num_stages=num_stages):
                first = (split * steps + step) * block
                T.copy(K[b, first : first + block, h, :], K_shared)
                T.copy(V[b, first : first + block, h, :], V_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                if context % (block * splits):
                    for i, j in T.Parallel(ROWS, block):
                        scores[i, j] = T.if_then_else(first + j < context, scores[i, j], -T.infinity(T.float32))
                softmax_step(scores, weights, result, row_max, total, scale)
                T.gemm(weights, V_shared, result, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(ROWS, dim):
                if i < group:
                    parts[split, b, h * group + i, j] = result[i, j]
            for i in T.Parallel(ROWS):
                if i < group:
                    tops[split, b, h * group + i] = row_max[i]
                    sums[split, b, h * group + i] = total[i]
        combine(parts, tops, sums, Out, scale)

    return kernel


def decode_paged(
    batch: int,
    heads: int,
    kv_heads: int,
    pages: int,
    page: int,
    longest: int,
    dim: int,
    dtype: str = "float16",
    *,
    splits: int = 2,
    num_stages: int = 3,
) -> Any:
    """The same with K and V as (pages, page, kv_heads, dim): token t of sequence b is in page `Table[b, t // page]`.

    Table is (batch, longest), Lengths (batch,): a sequence has at least one token. What the last page of a sequence
    holds behind its length is not read.
    """
    group, scale = heads // kv_heads, dim**-0.5 * LOG2_E

    @T.prim_func
    def kernel(
        Q: T.Tensor((batch, heads, dim), dtype),
        K: T.Tensor((pages, page, kv_heads, dim), dtype),
        V: T.Tensor((pages, page, kv_heads, dim), dtype),
        Table: T.Tensor((batch, longest), T.int32),
        Lengths: T.Tensor((batch,), T.int32),
        Out: T.Tensor((batch, heads, dim), dtype),
    ):
        parts = T.alloc_global((splits, batch, heads, dim), T.float32)
        tops = T.alloc_global((splits, batch, heads), T.float32)
        sums = T.alloc_global((splits, batch, heads), T.float32)
        with T.Kernel(splits, kv_heads, batch, threads=128) as (split, h, b):
            Q_shared = T.alloc_shared((ROWS, dim), dtype)
            K_shared = T.alloc_shared((page, dim), dtype)
            V_shared = T.alloc_shared((page, dim), dtype)
            K_last = T.alloc_shared((page, dim), dtype)
            V_last = T.alloc_shared((page, dim), dtype)
            scores = T.alloc_fragment((ROWS, page), T.float32)
            weights = T.alloc_fragment((ROWS, page), dtype)
            result = T.alloc_fragment((ROWS, dim), T.float32)
            row_max = T.alloc_fragment((ROWS,), T.float32)
            total = T.alloc_fragment((ROWS,), T.float32)
            full, left = Lengths[b] // page, Lengths[b] % page
            share = T.ceildiv(full, splits)
            T.copy(Q[b, h * group : h * group + ROWS, :], Q_shared)
            T.clear(result)
            T.clear(total)
            T.fill(row_max, T.min_value(T.float32))
            for step in T.Pipelined(split * share, T.min(split * share + share, full), num_stages=num_stages):
                T.copy(K[Table[b, step], :, h, :], K_shared)
                T.copy(V[Table[b, step], :, h, :], V_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                softmax_step(scores, weights, result, row_max, total, scale)
                T.gemm(weights, V_shared, result, policy=T.GemmWarpPolicy.FullRow)
            if split == splits - 1 and left > 0:
                for i, j in T.Parallel(page, dim):
                    K_last[i, j] = T.if_then_else(i < left, K[Table[b, full], i, h, j], 0)
                    V_last[i, j] = T.if_then_else(i < left, V[Table[b, full], i, h, j], 0)
                T.gemm(Q_shared, K_last, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(ROWS, page):
                    scores[i, j] = T.if_then_else(j < left, scores[i, j], -T.infinity(T.float32))
                softmax_step(scores, weights, result, row_max, total, scale)
                T.gemm(weights, V_last, result, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(ROWS, dim):
                if i < group:
                    parts[split, b, h * group + i, j] = result[i, j]
            for i in T.Parallel(ROWS):
                if i < group:
                    tops[split, b, h * group + i] = row_max[i]
                    sums[split, b, h * group + i] = total[i]
        combine(parts, tops, sums, Out, scale)

    return kernel


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The same in float32 by torch: q is (batch, heads, dim), k and v (batch, context, kv_heads, dim)."""
    q, k, v = q.float()[:, :, None], k.float().transpose(1, 2), v.float().transpose(1, 2)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)[:, :, 0]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    name = str(dtype).removeprefix("torch.")
    batch, heads, kv_heads, context, dim, page = 2, 8, 2, 300, 64, 64
    q = torch.randn(batch, heads, dim, device=device).to(dtype)
    k, v = (torch.randn(batch, context, kv_heads, dim, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(q)
    tl.compile(decode(batch, heads, kv_heads, context, dim, name), target=options.target)(q, k, v, out)
    torch.testing.assert_close(out.float(), reference(q, k, v), rtol=1e-2, atol=1e-2)

    longest = -(-context // page)
    lengths = torch.tensor([context, 70], dtype=torch.int32, device=device)
    table = torch.randperm(batch * longest, device=device).to(torch.int32).reshape(batch, longest)
    program = decode_paged(batch, heads, kv_heads, batch * longest, page, longest, dim, name)
    tl.compile(program, target=options.target)(q, paged(k, table, page), paged(v, table, page), table, lengths, out)
    for b, length in enumerate(lengths.tolist()):
        expected = reference(q[b : b + 1], k[b : b + 1, :length], v[b : b + 1, :length])
        torch.testing.assert_close(out[b : b + 1].float(), expected, rtol=1e-2, atol=1e-2)
    print(f"decode of {heads}/{kv_heads} heads, context {context}, {dtype} on {device}: right, in pages too")


def paged(values: torch.Tensor, table: torch.Tensor, page: int) -> torch.Tensor:
    """(batch, context, kv_heads, dim) as the pages of `table`; NaN where no token is."""
    batch, context, kv_heads, dim = values.shape
    longest = table.shape[1]
    padded = torch.full((batch, longest * page, kv_heads, dim), float("nan"), dtype=values.dtype, device=values.device)
    padded[:, :context] = values
    pages = torch.empty_like(padded).reshape(batch * longest, page, kv_heads, dim)
    pages[table.flatten().long()] = padded.reshape(batch * longest, page, kv_heads, dim)
    return pages


if __name__ == "__main__":
    main()
