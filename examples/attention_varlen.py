"""Attention forward over sequences of different lengths, packed one behind the other.

    python examples/attention_varlen.py [--target TARGET] [--causal]

Checks against torch. Sequence b has the queries `Starts_q[b]` to `Starts_q[b + 1]` and the keys `Starts_k[b]` to
`Starts_k[b + 1]`.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

LOG2_E = 1.4426950408889634


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
        scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
    T.reduce_sum(scores, row_sum, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * row_scale[i] + row_sum[i]
    for i, j in T.Parallel(rows, dim):
        result[i, j] = result[i, j] * row_scale[i]
    T.copy(scores, weights)


def attention_varlen(
    batch: int,
    heads: int,
    longest: int,
    dim: int,
    dtype: str = "float16",
    *,
    causal: bool = False,
    groups: int = 1,
    block: tuple[int, int] = (128, 128),
    num_stages: int = 2,
    threads: int = 256,
) -> Any:
    """O = softmax(Q Kᵀ / √dim) V, sequence by sequence, none with more than `longest` queries.

    Q and Out are (queries, heads, dim), K and V (keys, heads / groups, dim), Starts_q and Starts_k (batch + 1,). With
    `causal` the last query sees all keys, the one before it one less, and so on. A query without keys gets zeros.
    """
    bm, bn = block
    scale = dim**-0.5 * LOG2_E
    queries, keys = T.dynamic("queries"), T.dynamic("keys")

    @T.prim_func
    def kernel(
        Q: T.Tensor((queries, heads, dim), dtype),
        K: T.Tensor((keys, heads // groups, dim), dtype),
        V: T.Tensor((keys, heads // groups, dim), dtype),
        Starts_q: T.Tensor((batch + 1,), T.int32),
        Starts_k: T.Tensor((batch + 1,), T.int32),
        Out: T.Tensor((queries, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(longest, bm), heads, batch, threads=threads) as (bx, h, b):
            Q_shared = T.alloc_shared((bm, dim), dtype)
            K_shared = T.alloc_shared((bn, dim), dtype)
            V_shared = T.alloc_shared((bn, dim), dtype)
            K_last = T.alloc_shared((bn, dim), dtype)
            V_last = T.alloc_shared((bn, dim), dtype)
            scores = T.alloc_fragment((bm, bn), T.float32)
            weights = T.alloc_fragment((bm, bn), dtype)
            result = T.alloc_fragment((bm, dim), T.float32)
            row_max = T.alloc_fragment((bm,), T.float32)
            total = T.alloc_fragment((bm,), T.float32)
            row, first = bx * bm, Starts_k[b]
            rows, length = Starts_q[b + 1] - Starts_q[b], Starts_k[b + 1] - Starts_k[b]
            behind = length - rows
            seen = T.min(length, row + bm + behind) if causal else length
            full = T.if_then_else(row < rows, T.max(seen, 0) // bn, 0)
            left = T.if_then_else(row < rows, seen - full * bn, 0)
            T.copy(Q[Starts_q[b] + row : Starts_q[b] + row + bm, h, :], Q_shared)
            T.clear(result)
            T.clear(total)
            T.fill(row_max, T.min_value(T.float32))
            for step in T.Pipelined(full, num_stages=num_stages):
                T.copy(K[first + step * bn : first + step * bn + bn, h // groups, :], K_shared)
                T.copy(V[first + step * bn : first + step * bn + bn, h // groups, :], V_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                if causal:  # noqa: SIM102 - decided while tracing, the next by the kernel
                    if step * bn + bn > row + behind:
                        for i, j in T.Parallel(bm, bn):
                            visible = row + i + behind >= step * bn + j
                            scores[i, j] = T.if_then_else(visible, scores[i, j], -T.infinity(T.float32))
                softmax_step(scores, weights, result, row_max, total, scale)
                T.gemm(weights, V_shared, result, policy=T.GemmWarpPolicy.FullRow)
            # What lies behind the last key is of the next sequence: it is not even multiplied by zero.
            if left > 0:
                for i, j in T.Parallel(bn, dim):
                    K_last[i, j] = T.if_then_else(i < left, K[first + full * bn + i, h // groups, j], 0)
                    V_last[i, j] = T.if_then_else(i < left, V[first + full * bn + i, h // groups, j], 0)
                T.gemm(Q_shared, K_last, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(bm, bn):
                    visible = j < left and (not causal or row + i + behind >= full * bn + j)
                    scores[i, j] = T.if_then_else(visible, scores[i, j], -T.infinity(T.float32))
                softmax_step(scores, weights, result, row_max, total, scale)
                T.gemm(weights, V_last, result, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, dim):
                if row + i < rows:
                    Out[Starts_q[b] + row + i, h, j] = T.if_then_else(total[i] == 0, 0, result[i, j] / total[i])

    return kernel


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, starts_q: list[int], starts_k: list[int], *, causal: bool
) -> torch.Tensor:
    """The same in float32 by torch."""
    out = torch.zeros_like(q, dtype=torch.float32)
    for q0, q1, k0, k1 in zip(starts_q, starts_q[1:], starts_k, starts_k[1:], strict=False):
        ones = torch.ones(q1 - q0, k1 - k0, dtype=torch.bool, device=q.device)
        seen = ones.tril(k1 - k0 - q1 + q0) if causal else ones
        parts = (x.float().transpose(0, 1) for x in (q[q0:q1], k[k0:k1], v[k0:k1]))
        found = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=seen, enable_gqa=True)
        out[q0:q1] = torch.where(seen.any(1)[:, None, None], found.transpose(0, 1), 0)
    return out


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    parser.add_argument("--causal", action="store_true", help="the last query of a sequence sees all of its keys")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    heads, groups, dim, starts = 4, 2, 64, [0, 200, 201, 201, 331]
    q, out = (torch.randn(starts[-1], heads, dim, device=device).to(dtype) for _ in range(2))
    k, v = (torch.randn(starts[-1], heads // groups, dim, device=device).to(dtype) for _ in range(2))
    program = attention_varlen(
        len(starts) - 1, heads, 200, dim, str(dtype).removeprefix("torch."), causal=options.causal, groups=groups
    )
    on_device = torch.tensor(starts, dtype=torch.int32, device=device)
    tl.compile(program, target=options.target)(q, k, v, on_device, on_device, out)
    expected = reference(q, k, v, starts, starts, causal=options.causal)
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
    print(f"attention of {len(starts) - 1} sequences of up to 200 tokens, {dtype} on {device}: right")


if __name__ == "__main__":
    main()
