"""Gradients of attention: scores are computed again from the logarithms that the forward pass left.

    python examples/attention_backward.py [--target TARGET] [--causal]

Checks against torch. All tensors are (batch, sequence, heads, dim).
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

LOG2_E = 1.4426950408889634


def attention_backward(  # noqa: C901 - three kernels, most of whose branches are decided while they are traced
    batch: int,
    heads: int,
    sequence: int,
    dim: int,
    dtype: str = "float16",
    *,
    causal: bool = False,
    block: tuple[int, int] = (64, 128),
    num_stages: int = 2,
    threads: int = 256,
) -> Any:
    """dQ, dK, dV of O = softmax(Q Kᵀ / √dim) V for dO; `Lse` (batch, heads, sequence) is log2 of each row's sum of exp.

    A block of threads owns `block[1]` keys and walks over the queries, `block[0]` at a time. Scores are computed
    transposed, so that weights and their gradients are left operands where they stand, in registers. The product for dQ
    is made one step late, beside the exponentials of the next. Blocks add their parts of dQ, in an order that is not
    fixed, to strips of eight columns: threads that hold neighbours of a column then write one run of bytes. `dim` is a
    multiple of 8.
    """
    bm, bn = block
    norm = dim**-0.5
    scale = norm * LOG2_E
    shape = (batch, sequence, heads, dim)
    by_rows, by_columns = T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol

    @T.prim_func
    def kernel(  # noqa: C901 - the same
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Out: T.Tensor(shape, dtype),
        dOut: T.Tensor(shape, dtype),
        Lse: T.Tensor((batch, heads, sequence), T.float32),
        dQ: T.Tensor(shape, dtype),
        dK: T.Tensor(shape, dtype),
        dV: T.Tensor(shape, dtype),
    ):
        rows = T.alloc_global((batch, heads, 2, sequence), T.float32)
        sums = T.alloc_global((batch, heads, T.ceildiv(sequence, bm), dim // 8, bm, 8), T.float32)
        with T.Kernel(T.ceildiv(sequence, bm), heads, batch, threads=128) as (bx, h, b):
            left = T.alloc_fragment((bm, dim), dtype)
            right = T.alloc_fragment((bm, dim), dtype)
            products = T.alloc_fragment((bm, dim), T.float32)
            delta = T.alloc_fragment((bm,), T.float32)
            zeros = T.alloc_fragment((dim // 8, bm, 8), T.float32)
            T.copy(Out[b, bx * bm : bx * bm + bm, h, :], left)
            T.copy(dOut[b, bx * bm : bx * bm + bm, h, :], right)
            for i, j in T.Parallel(bm, dim):
                products[i, j] = T.cast(left[i, j], T.float32) * right[i, j]
            T.reduce_sum(products, delta, dim=1)
            T.clear(zeros)
            T.copy(zeros, sums[b, h, bx, :, :, :])
            for i in T.Parallel(bm):
                if bx * bm + i < sequence:
                    rows[b, h, 0, bx * bm + i] = Lse[b, h, bx * bm + i]
                    rows[b, h, 1, bx * bm + i] = delta[i]
        with T.Kernel(T.ceildiv(sequence, bn), heads, batch, threads=threads) as (bx, h, b):
            K_shared = T.alloc_shared((bn, dim), dtype)
            V_shared = T.alloc_shared((bn, dim), dtype)
            Q_shared = T.alloc_shared((bm, dim), dtype)
            dOut_shared = T.alloc_shared((bm, dim), dtype)
            rows_shared = T.alloc_shared((2, bm), T.float32)
            d_scores_shared = T.alloc_shared((bn, bm), dtype)
            scores = T.alloc_fragment((bn, bm), T.float32)
            d_weights = T.alloc_fragment((bn, bm), T.float32)
            weights_half = T.alloc_fragment((bn, bm), dtype)
            d_scores_half = T.alloc_fragment((bn, bm), dtype)
            dQ_part = T.alloc_fragment((bm, dim), T.float32)
            dK_local = T.alloc_fragment((bn, dim), T.float32)
            dV_local = T.alloc_fragment((bn, dim), T.float32)
            key = bx * bn
            T.copy(K[b, key : key + bn, h, :], K_shared)
            T.copy(V[b, key : key + bn, h, :], V_shared)
            T.clear(dK_local)
            T.clear(dV_local)
            T.clear(d_scores_shared)
            first = key // bm if causal else 0
            last = T.ceildiv(sequence, bm) - 1
            for step in T.Pipelined(first, last + 1, num_stages=num_stages):
                T.copy(Q[b, step * bm : step * bm + bm, h, :], Q_shared)
                T.copy(dOut[b, step * bm : step * bm + bm, h, :], dOut_shared)
                T.copy(rows[b, h, :, step * bm : step * bm + bm], rows_shared)
                T.gemm(K_shared, Q_shared, scores, transpose_B=True, clear_accum=True, policy=by_rows)
                T.gemm(d_scores_shared, K_shared, dQ_part, transpose_A=True, clear_accum=True, policy=by_columns)
                for i, j in T.Parallel(bn, bm):
                    scores[i, j] = T.exp2(scores[i, j] * scale - rows_shared[0, j])
                if causal:  # noqa: SIM102 - decided while tracing, the next by the kernel
                    if step * bm < key + bn:
                        for i, j in T.Parallel(bn, bm):
                            scores[i, j] = T.if_then_else(j - i >= key - step * bm, scores[i, j], 0)
                if sequence % bm or sequence % bn:
                    for i, j in T.Parallel(bn, bm):
                        inside = step * bm + j < sequence and key + i < sequence
                        scores[i, j] = T.if_then_else(inside, scores[i, j], 0)
                T.copy(scores, weights_half)
                T.gemm(weights_half, dOut_shared, dV_local, policy=by_rows)
                before = T.max(step - 1, first)
                for i, j in T.Parallel(bm, dim):
                    T.atomic_add(sums[b, h, before, j // 8, i, j % 8], dQ_part[i, j])
                T.gemm(V_shared, dOut_shared, d_weights, transpose_B=True, clear_accum=True, policy=by_rows)
                for i, j in T.Parallel(bn, bm):
                    scores[i, j] = scores[i, j] * (d_weights[i, j] - rows_shared[1, j])
                T.copy(scores, d_scores_half)
                T.copy(d_scores_half, d_scores_shared)
                T.gemm(d_scores_half, Q_shared, dK_local, policy=by_rows)
            T.gemm(d_scores_shared, K_shared, dQ_part, transpose_A=True, clear_accum=True, policy=by_columns)
            for i, j in T.Parallel(bm, dim):
                T.atomic_add(sums[b, h, last, j // 8, i, j % 8], dQ_part[i, j])
            for i, j in T.Parallel(bn, dim):
                dK_local[i, j] = dK_local[i, j] * norm
            T.copy(dK_local, dK[b, key : key + bn, h, :])
            T.copy(dV_local, dV[b, key : key + bn, h, :])
        with T.Kernel(T.ceildiv(sequence, bm), heads, batch, threads=128) as (bx, h, b):
            for i, strip, j in T.Parallel(bm, dim // 8, 8):
                dQ[b, bx * bm + i, h, strip * 8 + j] = sums[b, h, bx, strip, i, j] * norm

    return kernel


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_out: torch.Tensor, *, causal: bool
) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
    """The output, `Lse` and the gradients by torch in float32."""
    inputs = [x.float().transpose(1, 2).requires_grad_() for x in (q, k, v)]
    scores = inputs[0] @ inputs[1].transpose(2, 3) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    out = scores.softmax(-1) @ inputs[2]
    gradients = torch.autograd.grad(out, inputs, d_out.float().transpose(1, 2))
    lse = (torch.logsumexp(scores, -1) * LOG2_E).detach().contiguous()
    return out.detach().transpose(1, 2), lse, tuple(x.transpose(1, 2) for x in gradients)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    parser.add_argument("--causal", action="store_true", help="each query sees the keys up to its own position")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    batch, heads, sequence, dim = 1, 2, 300, 64
    q, k, v, d_out = (torch.randn(batch, sequence, heads, dim, device=device).to(dtype) for _ in range(4))
    out, lse, expected = reference(q, k, v, d_out, causal=options.causal)
    found = [torch.empty_like(q) for _ in range(3)]
    program = attention_backward(batch, heads, sequence, dim, str(dtype).removeprefix("torch."), causal=options.causal)
    tl.compile(program, target=options.target)(q, k, v, out.to(dtype).contiguous(), d_out, lse, *found)
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), right, rtol=1e-2, atol=1e-2)
    print(f"gradients of attention of {heads} heads, {sequence} × {dim} {dtype} on {device}: right")


if __name__ == "__main__":
    main()
