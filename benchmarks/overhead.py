"""What stands around a kernel's own time: import, tracing, compiling, a call, the interpreter.

    python benchmarks/overhead.py

Prints each figure beside its bar or its peer, measured in this process (imports and compilations for a GPU in fresh
ones). Where there is a GPU, its rows follow: a call, and compilations without and with an entry of the disk cache, of
programs that are not the first of their process; what the first one costs beside that is told too.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
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


COMPILATIONS = """
import sys, time, torch, tile_core as tl
sys.path.insert(0, sys.argv[1])
import gpu_kernels as kernels

def milliseconds(program):
    start = time.perf_counter()
    tl.compile(program(), target="cuda")
    return (time.perf_counter() - start) * 1e3

torch.zeros(1, device="cuda")
print(milliseconds(lambda: kernels.add_parallel(1000, "float32")))
print(milliseconds(lambda: kernels.add_parallel(4096 * 4096, "float16")))
print(milliseconds(lambda: kernels.softmax(8192, 4096, "float16")))
"""


def compilations(cache: str) -> list[float]:
    """Milliseconds of the first compilation of a process, of the add after it, and of softmax."""
    command = [sys.executable, "-c", COMPILATIONS, str(Path(__file__).parent)]
    environment = {**os.environ, "TILE_CACHE": "1", "TILE_CACHE_DIR": cache}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [float(line) for line in run.stdout.split()]


def on_a_gpu() -> None:
    """The rows of a GPU."""
    kernel = tl.compile(add(1024), target="cuda")
    a, b, c = (torch.randn(1024, device="cuda") for _ in range(3))
    ours, theirs = (
        microseconds(call, calls=5_000) for call in (lambda: kernel(a, b, c), lambda: torch.add(a, b, out=c))
    )
    print(f"GPU call with three tensors   {ours:8.2f} µs   (bar 6; torch.add {theirs:.2f}, ratio {theirs / ours:.2f})")
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = compilations(cache), compilations(cache)
    for name, bar, was_cold, was_warm in zip(("add", "softmax"), (500, 700), cold[1:], warm[1:], strict=True):
        print(f"GPU compile of {name:14s} {was_cold:8.1f} ms   (bar {bar}), from disk {was_warm:.1f} ms (bar 30)")
    print(f"GPU first of a process        {cold[0]:8.1f} ms, from disk {warm[0]:.1f} ms")


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def microseconds(call: Callable[[], object], calls: int = 20_000) -> float:
    """The median over rounds of a call's time."""
    call()
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
    if torch.cuda.is_available():
        on_a_gpu()


if __name__ == "__main__":
    main()
