"""What stands around a kernel's own time: import, tracing, compiling, a call, the interpreter.

    python benchmarks/overhead.py

Prints each figure beside its bar or its peer, measured in this process (the import in a fresh one).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

LINES = 200


def add(n: int) -> Any:
    """C = A + B."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32), C: T.Tensor((n,), T.float32)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                C[i] = A[i] + B[i]

    return kernel


def gemm(n: int) -> Any:
    """C = A @ B, one block."""

    @T.prim_func
    def kernel(A: T.Tensor((n, n), T.float32), B: T.Tensor((n, n), T.float32), C: T.Tensor((n, n), T.float32)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((n, n), T.float32)
            b = T.alloc_shared((n, n), T.float32)
            c = T.alloc_fragment((n, n), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    return kernel


def long_kernel() -> Any:
    """200 statements with a ternary and a conjunction each, made while tracing."""

    @T.prim_func
    def kernel(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=32):
            for k in list(range(LINES)):
                A[k % 8] = A[(k + 1) % 8] * k + (1 if A[0] > k and A[1] < k else 2)

    return kernel


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def microseconds(call: Callable[[], object], calls: int = 20_000) -> float:
    """The median over rounds of a call's time."""
    rounds = [seconds(lambda: [call() for _ in range(calls // 10)]) / (calls // 10) for _ in range(10)]
    return statistics.median(rounds) * 1e6


def main() -> None:
    """Measure and print."""
    start_up = "import time; s = time.perf_counter(); import tile_core; print(time.perf_counter() - s)"
    imported = min(
        float(subprocess.run([sys.executable, "-c", start_up], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    )
    print(f"import tile_core              {imported * 1e3:8.1f} ms   (bar 250)")
    long_kernel()
    print(f"trace {LINES} lines               {min(seconds(long_kernel) for _ in range(3)) * 1e3:8.1f} ms   (bar 150)")
    os.environ["TILE_CACHE"] = "0"
    cold = seconds(lambda: tl.compile(add(1003), target="cpu"))
    print(f"cold compile of an add        {cold * 1e3:8.1f} ms   (bar 1000)")
    kernel = tl.compile(add(64), target="cpu")
    a, b, c = torch.randn(64), torch.randn(64), torch.empty(64)
    ours, theirs = microseconds(lambda: kernel(a, b, c)), microseconds(lambda: torch.add(a, b, out=c))
    print(f"call with three tensors       {ours:8.2f} µs   (torch.add {theirs:.2f}, ratio {theirs / ours:.2f})")
    run = tl.compile(gemm(128), target="interpret")
    x, y, z = torch.randn(128, 128), torch.randn(128, 128), torch.empty(128, 128)
    print(f"interpreted 128³ GEMM         {seconds(lambda: run(x, y, z)) * 1e3:8.1f} ms   (bar 1000)")


if __name__ == "__main__":
    main()
