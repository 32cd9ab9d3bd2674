"""What emulated execution costs, beside its bars: seconds of this process and its compilers, not of the clock.

    python benchmarks/emulator.py [cuda|rocm]

The time of the processor is what a calm machine would take on one core; the clock is shown beside it. The conformance
suite, which has a bar of 6 minutes on two cores, is measured by `python -m nox -s conformance-cuda`.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T
from tile_core.settings import settings

CHECKED = {"tile.emulate_check": True}
REPEATS = 5
NONE = float("inf")
"""The bar of a figure that has none."""


def add(n: int) -> Any:
    """C = A + B."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32), C: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
            for i in T.Parallel(256):
                C[bx * 256 + i] = A[bx * 256 + i] + B[bx * 256 + i]

    return kernel


def gemm(n: int) -> Any:
    """C = A @ B in fused multiply-adds, one block of 128 threads."""

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


def softmax(m: int, n: int) -> Any:
    """Softmax of rows, a block each."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), T.float32), Y: T.Tensor((m, n), T.float32)):
        with T.Kernel(m, threads=128) as row:
            x = T.alloc_fragment((1, n), T.float32)
            most = T.alloc_fragment((1,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(1, n):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[row, 0])

    return kernel


def measured(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the processor, those of child processes included, and of the clock."""
    start, clock = _processor(), time.perf_counter()
    work()
    return _processor() - start, time.perf_counter() - clock


def _processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def tell(what: str, processor: float, clock: float, bar: float) -> bool:
    """One line; whether the figure is within its bar."""
    within = processor <= bar
    shown = (
        f"{processor:8.3f} s of the processor, {clock:8.3f} s of the clock{'' if bar == NONE else f', bar {bar:g} s'}"
    )
    sys.stdout.write(f"{what:58} {shown}{'' if within else '  OVER'}\n")
    return within


def main() -> int:
    """Print the figures; 1 if one is over its bar."""
    target = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    build = {"target": target, "execution": "emulate"}
    vectors = [torch.randn(4096) for _ in range(3)]
    squares = [torch.randn(64, 64) for _ in range(3)]
    within = True
    with tempfile.TemporaryDirectory() as folder, settings.override(cache_dir=Path(folder)):
        first = measured(lambda: tl.compile(add(64), **build)(*(vector[:64].clone() for vector in vectors)))
        tell("the first kernel: imports, and the emulator itself", *first, NONE)
        within &= tell(
            "elementwise kernel, compiled and run", *measured(lambda: tl.compile(add(4096), **build)(*vectors)), 1.5
        )
        again = measured(lambda: tl.compile(add(4096), **build)(*vectors))
        within &= tell("elementwise kernel, traced anew, from the cache", *again, 0.05)
        within &= tell(
            "64x64x64 gemm, compiled and run", *measured(lambda: tl.compile(gemm(64), **build)(*squares)), 2.0
        )
    pairs = {"elementwise": (add(4096), vectors), "gemm": (gemm(64), squares), "softmax": (softmax(64, 1003), None)}
    for name, (program, given) in pairs.items():
        arguments = given or [torch.randn(64, 1003), torch.empty(64, 1003)]
        plain, checked = (tl.compile(program, **build, pass_configs=configs) for configs in ({}, CHECKED))
        times = [_typical(kernel, arguments) for kernel in (plain, checked)]
        ratio = times[1] / times[0]
        within &= ratio <= 10
        over = "" if ratio <= 10 else "  OVER"
        sys.stdout.write(
            f"{name + ', checks':58} {times[0]:8.4f} s without, {times[1]:8.4f} s with: {ratio:.1f}, bar 10{over}\n"
        )
    return int(not within)


def _typical(kernel: Any, arguments: list[torch.Tensor]) -> float:
    kernel(*arguments)
    return statistics.median(measured(lambda: kernel(*arguments))[0] for _ in range(REPEATS))


if __name__ == "__main__":
    sys.exit(main())
