"""Values of vector dtypes: pairs, broadcasts, shuffles, and buffers of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core.language as T

N = 12


def program(body, dtype, lanes, loop):
    """`body(a)` makes a vector of `lanes` lanes from a scalar; lane k of element i is stored to Out[i, k]."""

    @T.macro
    def store(Out, i, vector):
        for k in tuple(np.arange(lanes)):
            Out[i, k] = T.extract_lane(vector, int(k))

    @T.prim_func
    def over(A: T.Tensor((N,), dtype), Out: T.Tensor((N, lanes), dtype)):
        with T.Kernel(1):
            for i in loop(N):
                vector = body(A[i])
                store(Out, i, vector)

    return over


def run(interpret, body, dtype, lanes, values):
    """What `body` makes of each value, in a serial loop and in T.Parallel, which must agree."""
    results = []
    for loop in (T.serial, T.Parallel):
        out = torch.zeros(N, lanes, dtype=values.dtype)
        interpret(program(body, dtype, lanes, loop), values, out)
        results.append(out)
    assert torch.equal(results[0], results[1])
    return results[0]


def values():
    return torch.randn(N)


def test_arithmetic_of_pairs(interpret):
    a = values()
    out = run(interpret, lambda x: T.add2(T.float32x2(x, x * 2), T.float32x2(1.0, 3.0)), "float32", 2, a)
    assert torch.equal(out, torch.stack([a + 1, a * 2 + 3], 1))
    out = run(interpret, lambda x: T.max2(T.float32x2(x, -x), T.Broadcast(x * 0, 2)), "float32", 2, a)
    assert torch.equal(out, torch.stack([a.clamp(min=0), (-a).clamp(min=0)], 1))


def test_broadcast_ramp_and_shuffle(interpret):
    a = torch.arange(N, dtype=torch.int32)
    out = run(interpret, lambda x: T.Ramp(x, 3, 4) + T.Broadcast(x, 4), "int32", 4, a)
    assert torch.equal(out, 2 * a[:, None] + 3 * torch.arange(4, dtype=torch.int32))
    out = run(interpret, lambda x: T.Shuffle([T.Ramp(x, 1, 2), T.Ramp(x * 10, 1, 2)], [3, 0, 2]), "int32", 3, a)
    assert torch.equal(out, torch.stack([a * 10 + 1, a, a * 10], 1))


def test_conditions_choose_whole_vectors(interpret):
    a = values()

    def body(x):
        return T.if_then_else(x > 0, T.float32x2(x, 1.0), T.float32x2(0.0, x))

    out = run(interpret, body, "float32", 2, a)
    positive = a > 0
    assert torch.equal(out[:, 0], torch.where(positive, a, 0))
    assert torch.equal(out[:, 1], torch.where(positive, 1, a))


def test_reinterpret_between_lanes(interpret):
    a = torch.arange(N, dtype=torch.int32) * 65537 + 5

    @T.prim_func
    def program(A: T.Tensor((N,), "int32"), Out: T.Tensor((N,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                halves = T.reinterpret(A[i], "int16x2")
                Out[i] = T.reinterpret(T.Shuffle([halves], [1, 0]), "int32")

    out = torch.zeros(N, dtype=torch.int32)
    interpret(program, a, out)
    assert torch.equal(out.view(torch.int16).view(N, 2), a.view(torch.int16).view(N, 2).flip(1))


@pytest.mark.parametrize("loop", [T.serial, T.Parallel])
def test_buffers_of_vectors(interpret, loop):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), Out: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((N,), "float32x2")
            for i in loop(N):
                tile[i] = T.float32x2(A[i], A[i] + 1)
            for i in loop(N):
                pair = tile[i]
                Out[i] = T.extract_lane(pair, 0) * T.extract_lane(pair, 1)

    a, out = values(), torch.zeros(N)
    interpret(program, a, out)
    assert torch.equal(out, a * (a + 1))


def test_packed_pairs_of_float4(interpret):
    @T.prim_func
    def program(A: T.Tensor((8,), "float4_e2m1fnx2"), Out: T.Tensor((8,), "float4_e2m1fnx2")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                Out[7 - i] = A[i]

    raw = torch.randint(0, 256, (8,), dtype=torch.uint8)
    A, out = raw.view(torch.float4_e2m1fn_x2), torch.zeros(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    interpret(program, A, out)
    assert torch.equal(out.view(torch.uint8), raw.flip(0))
