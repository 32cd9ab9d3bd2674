"""Attention forward in the portable language, softmax computed while keys go by.

    python examples/attention.py [--target TARGET] [--causal]

Checks against torch. Queries, keys and values are (batch, sequence, heads, dim); with fewer heads of keys than of
queries, groups of query heads share one (GQA).
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

LOG2_E = 1.4426950408889634


def attention(  # noqa: C901 - one kernel, all of whose branches but one are decided while it is traced
    batch: int,
    heads: int,
    sequence: int,
    dim: int,
    dtype: str = "float16",
    *,
    causal: bool = False,
    window: int | None = None,
    groups: int = 1,
    block: tuple[int, int] = (128, 128),
    num_stages: int = 2,
    threads: int = 256,
    growth: float = 8.0,
) -> Any:
    """O = softmax(Q Kᵀ / √dim) V; row i sees keys up to i where `causal`, and with `window` the last so many of those.

    `groups` query heads share a head of K and V. `block` is the number of queries a block of threads holds and of keys
    it takes at a time. A maximum may grow by `growth` powers of two before the sums are scaled to it: weights are at
    most 256 until then. Lse is log2 of each row's sum of exp(scores), which `attention_backward.py` needs.

    A block reads no value of a key that none of its rows sees. Among its rows, a value that is not finite reaches all,
    also those that do not see its key, since their weight of zero is multiplied by it.
    """
    if window and not causal:
        raise ValueError("a window is one of causal attention")
    bm, bn = block
    scale = dim**-0.5 * LOG2_E
    shape, shared = (batch, sequence, heads, dim), (batch, sequence, heads // groups, dim)

    @T.prim_func
    def kernel(  # noqa: C901 - the same
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shared, dtype),
        V: T.Tensor(shared, dtype),
        Out: T.Tensor(shape, dtype),
        Lse: T.Tensor((batch, heads, sequence), T.float32),
    ):
        with T.Kernel(T.ceildiv(sequence, bm), heads, batch, threads=threads) as (bx, by, bz):
            if causal:
                T.use_swizzle(8)
            Q_shared = T.alloc_shared((bm, dim), dtype)
            Q_local = T.alloc_fragment((bm, dim), dtype)
            K_shared = T.alloc_shared((bn, dim), dtype)
            V_shared = T.alloc_shared((bn, dim), dtype)
            V_last = T.alloc_shared((bn, dim), dtype)
            scores = T.alloc_fragment((bm, bn), T.float32)
            weights = T.alloc_fragment((bm, bn), dtype)
            result = T.alloc_fragment((bm, dim), T.float32)
            row_max = T.alloc_fragment((bm,), T.float32)
            row_max_before = T.alloc_fragment((bm,), T.float32)
            row_scale = T.alloc_fragment((bm,), T.float32)
            row_sum = T.alloc_fragment((bm,), T.float32)
            total = T.alloc_fragment((bm,), T.float32)
            # The last rows see the most keys: blocks begin with them, so that no long one is left for the end.
            row = (T.ceildiv(sequence, bm) - 1 - bx) * bm if causal else bx * bm
            first = T.max(row - window + 1, 0) if window else 0
            end = T.min(row + bm, sequence) if causal else sequence
            steps = T.ceildiv(end - first, bn)
            T.copy(Q[bz, row : row + bm, by, :], Q_shared)
            T.copy(Q_shared, Q_local)
            T.clear(result)
            T.clear(weights)
            T.clear(total)
            T.fill(row_max, T.min_value(T.float32))
            # Weights meet their values one step later, so that this product runs beside the next softmax.
            for step in T.Pipelined(steps, num_stages=num_stages):
                key = first + step * bn
                late = T.if_then_else(step > 0, key - bn, -bn) if window else key - bn  # at first, what reads as zeros
                T.copy(K[bz, key : key + bn, by // groups, :], K_shared)
                T.gemm(Q_local, K_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[bz, late : late + bn, by // groups, :], V_shared)
                T.gemm(weights, V_shared, result, policy=T.GemmWarpPolicy.FullRow)
                if causal:
                    if key + bn > row or (key < row + bm - window if window else False):
                        for i, j in T.Parallel(bm, bn):
                            visible = (row + i >= key + j) and (key + j < sequence)
                            if window:
                                visible = visible and row + i < key + j + window
                            scores[i, j] = T.if_then_else(visible, scores[i, j], -T.infinity(T.float32))
                elif sequence % bn:
                    for i, j in T.Parallel(bm, bn):
                        scores[i, j] = T.if_then_else(key + j < sequence, scores[i, j], -T.infinity(T.float32))
                T.copy(row_max, row_max_before)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                if growth:
                    for i in T.Parallel(bm):
                        is_large = (row_max[i] - row_max_before[i]) * scale > growth
                        row_max[i] = T.if_then_else(is_large, row_max[i], row_max_before[i])
                for i in T.Parallel(bm):
                    row_scale[i] = T.exp2((row_max_before[i] - row_max[i]) * scale)
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * row_scale[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(bm, dim):
                    if not growth or row_scale[i] != 1:
                        result[i, j] = result[i, j] * row_scale[i]
            last = first + (steps - 1) * bn
            if causal and (window or bm % bn):
                for i, j in T.Parallel(bn, dim):
                    V_last[i, j] = T.if_then_else(last + i < end, V[bz, last + i, by // groups, j], 0)
            else:
                T.copy(V[bz, last : last + bn, by // groups, :], V_last)
            T.gemm(weights, V_last, result, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, dim):
                result[i, j] = result[i, j] / total[i]
            T.copy(result, Out[bz, row : row + bm, by, :])
            for i in T.Parallel(bm):
                if row + i < sequence:
                    Lse[bz, by, row + i] = row_max[i] * scale + T.log2(total[i])

    return kernel


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, window: int | None = None
) -> torch.Tensor:
    """The same in float32 by torch, (batch, sequence, heads, dim)."""
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    seen = None
    if window:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril().triu(1 - window)
    out = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=seen, is_causal=causal and not window, enable_gqa=True
    )
    return out.transpose(1, 2)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    parser.add_argument("--causal", action="store_true", help="each query sees the keys up to its own position")
    parser.add_argument("--window", type=int, help="with --causal, and of those no more than this many")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    batch, heads, sequence, dim = 1, 4, 300, 64
    q, k, v = (torch.randn(batch, sequence, heads, dim, device=device).to(dtype) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(batch, heads, sequence, device=device)
    seen = {"causal": options.causal, "window": options.window}
    program = attention(batch, heads, sequence, dim, str(dtype).removeprefix("torch."), **seen)
    tl.compile(program, target=options.target)(q, k, v, out, lse)
    torch.testing.assert_close(out.float(), reference(q, k, v, **seen), rtol=1e-2, atol=1e-2)
    print(f"attention of {heads} heads, {sequence} × {dim} {dtype} on {device}: right")


if __name__ == "__main__":
    main()
