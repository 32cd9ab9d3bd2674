"""Unrolled loops that cannot be written out, or not in reasonable size, stay loops and compile."""

from __future__ import annotations

import torch
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.ir import visit
from tile_cpu.passes.limit_unrolling import LimitUnrolling


@T.prim_func
def kernel(B: T.Tensor((64,), "int32"), n: T.int32):
    with T.Kernel(1):
        for i in T.unroll(n):
            B[i] = i
        for i in T.unroll(1 << 30):
            if i < 64:
                B[i] = B[i] + 1
            if i >= 64:
                B[0] = 0
        for i in T.unroll(64):
            for _ in T.unroll(4):
                B[i] = B[i] + 2
        for _ in T.unroll(100):
            for i in T.unroll(64):
                B[i] = B[i] + 2


def test_only_short_loops_are_unrolled() -> None:
    loops = visit.collect(LimitUnrolling()(kernel).body, S.For)
    kinds = [S.ForKind(int(loop.kind)).name for loop in loops if loop.kind != S.ForKind.THREAD_BINDING]
    assert kinds == ["SERIAL", "SERIAL", "UNROLLED", "UNROLLED", "SERIAL", "UNROLLED"]


def test_they_compile_and_run() -> None:
    @T.prim_func
    def short(B: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            for i in T.unroll(n):
                B[i] = i
            for _ in T.unroll(1 << 20):
                B[63] = B[63] + 1

    b = torch.zeros(64, dtype=torch.int32)
    tl.compile(short, target="cpu")(b, 5)
    assert b.tolist() == [0, 1, 2, 3, 4, *[0] * 58, 1 << 20]
