"""Multi-head latent attention of one new token a sequence (MLA decode): all heads read one latent vector a token.

    python examples/attention_mla.py [--target TARGET]

Checks against torch. Keys are a token's latent vector and its rotated part, values the latent vector alone.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

LOG2_E = 1.4426950408889634


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


def mla_decode(
    batch: int,
    heads: int,
    context: int,
    dim: int = 512,
    rope: int = 64,
    dtype: str = "float16",
    *,
    splits: int = 1,
    block: tuple[int, int] = (64, 64),
    num_stages: int = 2,
    threads: int = 256,
) -> Any:
    """Out = softmax((Q Latentᵀ + Q_rope K_ropeᵀ) / √(dim + rope)) Latent for one query a sequence and head.

    Q and Out are (batch, heads, dim), Q_rope (batch, heads, rope), Latent (batch, context, dim),
    K_rope (batch, context, rope). A block takes `block[0]` heads and `block[1]` tokens at a time, each of `splits` its
    share of the context.
    """
    bm, bn = block
    scale = (dim + rope) ** -0.5 * LOG2_E
    steps = T.ceildiv(T.ceildiv(context, bn), splits)
    by_columns = T.GemmWarpPolicy.FullCol

    @T.prim_func
    def kernel(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_rope: T.Tensor((batch, heads, rope), dtype),
        Latent: T.Tensor((batch, context, dim), dtype),
        K_rope: T.Tensor((batch, context, rope), dtype),
        Out: T.Tensor((batch, heads, dim), dtype),
    ):
        parts = T.alloc_global((splits, batch, heads, dim), T.float32)
        tops = T.alloc_global((splits, batch, heads), T.float32)
        sums = T.alloc_global((splits, batch, heads), T.float32)
        with T.Kernel(splits, T.ceildiv(heads, bm), batch, threads=threads) as (split, h, b):
            Q_shared = T.alloc_shared((bm, dim), dtype)
            Q_rope_shared = T.alloc_shared((bm, rope), dtype)
            latent = T.alloc_shared((bn, dim), dtype)
            K_rope_shared = T.alloc_shared((bn, rope), dtype)
            weights = T.alloc_shared((bm, bn), dtype)
            scores = T.alloc_fragment((bm, bn), T.float32)
            result = T.alloc_fragment((bm, dim), T.float32)
            row_max = T.alloc_fragment((bm,), T.float32)
            before = T.alloc_fragment((bm,), T.float32)
            row_scale = T.alloc_fragment((bm,), T.float32)
            row_sum = T.alloc_fragment((bm,), T.float32)
            total = T.alloc_fragment((bm,), T.float32)
            T.copy(Q[b, h * bm : h * bm + bm, :], Q_shared)
            T.copy(Q_rope[b, h * bm : h * bm + bm, :], Q_rope_shared)
            T.clear(result)
            T.clear(total)
            T.fill(row_max, T.min_value(T.float32))
            for step in T.Pipelined(steps, num_stages=num_stages):
                first = (split * steps + step) * bn
                T.copy(Latent[b, first : first + bn, :], latent)
                T.copy(K_rope[b, first : first + bn, :], K_rope_shared)
                T.gemm(Q_shared, latent, scores, transpose_B=True, clear_accum=True, policy=by_columns)
                T.gemm(Q_rope_shared, K_rope_shared, scores, transpose_B=True, policy=by_columns)
                if context % (bn * splits):
                    for i, j in T.Parallel(bm, bn):
                        scores[i, j] = T.if_then_else(first + j < context, scores[i, j], -T.infinity(T.float32))
                T.copy(row_max, before)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i in T.Parallel(bm):
                    row_scale[i] = T.exp2((before[i] - row_max[i]) * scale)
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * row_scale[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(bm, dim):
                    result[i, j] = result[i, j] * row_scale[i]
                T.gemm(weights, latent, result, policy=by_columns)
            T.copy(result, parts[split, b, h * bm : h * bm + bm, :])
            T.copy(row_max, tops[split, b, h * bm : h * bm + bm])
            T.copy(total, sums[split, b, h * bm : h * bm + bm])
        combine(parts, tops, sums, Out, scale)

    return kernel


def reference(q: torch.Tensor, q_rope: torch.Tensor, latent: torch.Tensor, k_rope: torch.Tensor) -> torch.Tensor:
    """The same in float32 by torch."""
    queries, keys = torch.cat([q, q_rope], -1).float(), torch.cat([latent, k_rope], -1).float()
    weights = (queries @ keys.transpose(1, 2) * queries.shape[-1] ** -0.5).softmax(-1)
    return weights @ latent.float()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    batch, heads, context, dim, rope = 2, 128, 500, 512, 64
    shapes = [(batch, heads, dim), (batch, heads, rope), (batch, context, dim), (batch, context, rope)]
    tensors = [torch.randn(shape, device=device).to(dtype) for shape in shapes]
    out = torch.empty_like(tensors[0])
    program = mla_decode(batch, heads, context, dim, rope, str(dtype).removeprefix("torch."), splits=2)
    tl.compile(program, target=options.target)(*tensors, out)
    torch.testing.assert_close(out.float(), reference(*tensors), rtol=1e-2, atol=1e-2)
    print(f"MLA decode of {heads} heads, context {context}, {dtype} on {device}: right")


if __name__ == "__main__":
    main()
