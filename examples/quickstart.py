"""Four tile kernels, checked against torch and timed beside it.

    python examples/quickstart.py [--target TARGET] [--size small|full] [--show-source]

Runs on whichever target `auto` finds. Exits with a non-zero status if a result is wrong.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table

import tile_core as tl
import tile_core.language as T

ROUNDS = 15


def gemm_relu(M: int, N: int, K: int, dtype: str, block_M: int = 128, block_N: int = 128, block_K: int = 64):
    """C = relu(A @ B), accumulated in float32."""

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return kernel


def softmax(M: int, N: int, rows: int = 4):
    """Softmax over the last axis, whole rows in registers."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), T.float32), Y: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_fragment((rows, N), T.float32)
            row_max = T.alloc_fragment((rows,), T.float32)
            row_sum = T.alloc_fragment((rows,), T.float32)
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, row_max, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = T.exp(x[i, j] - row_max[i])
            T.reduce_sum(x, row_sum, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] / row_sum[i]
            T.copy(x, Y[bx * rows, 0])

    return kernel


def vector_add(N: int, block: int = 2048):
    """C = A + B at any length: the tail is the compiler's business."""

    @T.prim_func
    def kernel(A: T.Tensor((N,), T.float32), B: T.Tensor((N,), T.float32), C: T.Tensor((N,), T.float32)):
        with T.Kernel(T.ceildiv(N, block), threads=256) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return kernel


def rms_norm(M: int, N: int, rows: int = 4, eps: float = 1e-6):
    """Y = X / sqrt(mean(X²) + eps) * W over the last axis."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), T.float32), W: T.Tensor((N,), T.float32), Y: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_fragment((rows, N), T.float32)
            square = T.alloc_fragment((rows, N), T.float32)
            total = T.alloc_fragment((rows,), T.float32)
            T.copy(X[bx * rows, 0], x)
            for i, j in T.Parallel(rows, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] * T.rsqrt(total[i] / N + eps) * W[j]
            T.copy(x, Y[bx * rows, 0])

    return kernel


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    `tolerance` bounds the largest error by the largest expected value; `work` counts floating-point operations or
    bytes, as `unit` says.
    """

    name: str
    program: object
    inputs: Callable[[str], tuple[torch.Tensor, ...]]
    output: Callable[[str], torch.Tensor]
    reference: Callable[..., torch.Tensor]
    peer: Callable[..., object]
    tolerance: float
    work: float
    unit: str


def gemm_workload(n: int, dtype: torch.dtype, tolerance: float) -> Workload:
    """C = relu(A @ B) of n × n matrices, against torch's two calls."""
    name = str(dtype).removeprefix("torch.")
    return Workload(
        name=f"GEMM + ReLU {n}³ {name}",
        program=gemm_relu(n, n, n, name),
        inputs=lambda device: (torch.randn(n, n).to(device, dtype), torch.randn(n, n).to(device, dtype)),
        output=lambda device: torch.empty(n, n, dtype=dtype, device=device),
        reference=lambda a, b: torch.relu(a.double() @ b.double()),
        peer=lambda a, b, out: torch.matmul(a, b, out=out).relu_(),
        tolerance=tolerance,
        work=2.0 * n**3,
        unit="GFLOP/s",
    )


def workloads(size: str) -> list[Workload]:
    """The five rows; `small` shrinks them for a slow machine or the interpreter."""
    n, rows, length = (1024, 4096, 2**24 + 1) if size == "full" else (256, 256, 2**16 + 1)
    return [
        gemm_workload(n, torch.float32, tolerance=1e-5),
        gemm_workload(n, torch.bfloat16, tolerance=2.0**-8),
        Workload(
            name=f"softmax {rows}×1003 float32",
            program=softmax(rows, 1003),
            inputs=lambda device: (torch.randn(rows, 1003).to(device),),
            output=lambda device: torch.empty(rows, 1003, device=device),
            reference=lambda x: torch.softmax(x.double(), dim=1),
            peer=lambda x, out: torch.softmax(x, dim=1, out=out),
            tolerance=1e-6,
            work=2.0 * rows * 1003 * 4,
            unit="GB/s",
        ),
        Workload(
            name=f"vector add {length} float32",
            program=vector_add(length),
            inputs=lambda device: (torch.randn(length).to(device), torch.randn(length).to(device)),
            output=lambda device: torch.empty(length, device=device),
            reference=lambda a, b: a + b,
            peer=lambda a, b, out: torch.add(a, b, out=out),
            tolerance=0.0,
            work=3.0 * length * 4,
            unit="GB/s",
        ),
        Workload(
            name=f"RMSNorm {rows}×1000 float32",
            program=rms_norm(rows, 1000),
            inputs=lambda device: (torch.randn(rows, 1000).to(device), torch.randn(1000).to(device)),
            output=lambda device: torch.empty(rows, 1000, device=device),
            reference=lambda x, w: x.double() * torch.rsqrt(x.double().square().mean(1, keepdim=True) + 1e-6) * w,
            peer=lambda x, w, out: torch.nn.functional.rms_norm(x, (1000,), w, 1e-6),
            tolerance=2e-6,
            work=2.0 * rows * 1000 * 4,
            unit="GB/s",
        ),
    ]


def milliseconds(call: Callable[[], object], device: str) -> float:
    """Wall time of one call, its device work included."""
    if device != "cpu":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    call()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - start) * 1e3


def medians(ours: Callable[[], object], peer: Callable[[], object], device: str) -> tuple[float, float]:
    """Medians of alternating calls, after a warm-up of both."""
    for call in (ours, peer, ours, peer):
        call()
    times = [(milliseconds(ours, device), milliseconds(peer, device)) for _ in range(ROUNDS)]
    mine, theirs = zip(*times, strict=True)
    return statistics.median(mine), statistics.median(theirs)


def run(workload: Workload, target: object, show_source: bool, console: Console) -> tuple[tuple[str, ...], bool]:
    """Compile, check and time one workload: its row, and whether it was right."""
    start = time.perf_counter()
    kernel = tl.compile(workload.program, target=target)
    compile_ms = (time.perf_counter() - start) * 1e3
    if show_source:
        console.rule(workload.name)
        console.print(kernel.get_kernel_source(), markup=False, highlight=False)
    torch.manual_seed(0)
    device = kernel.device
    inputs, output, scratch = workload.inputs(device), workload.output(device), workload.output(device)
    output.fill_(float("nan"))
    kernel(*inputs, output)
    expected = workload.reference(*inputs).double()
    error = (output.double() - expected).abs().max().item()
    allowed = workload.tolerance * expected.abs().max().item()
    right = error <= allowed  # false for NaN
    mine, theirs = medians(lambda: kernel(*inputs, output), lambda: workload.peer(*inputs, scratch), device)
    row = (
        workload.name,
        kernel.target.kind,
        f"{error:.1e}" if right else f"[red]{error:.1e} > {allowed:.0e}[/red]",
        f"{mine:.3f} ms",
        f"{workload.work / mine / 1e6:.0f} {workload.unit}",
        f"{theirs / mine:.2f}×",
        f"{compile_ms:.0f} ms",
    )
    return row, right


def main() -> int:
    """The command line; the exit status is 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--target", default="auto", help="a target such as cpu or interpret (default: the best present)"
    )
    parser.add_argument("--size", choices=("small", "full"), default="full", help="extents of the workloads")
    parser.add_argument("--show-source", action="store_true", help="print the generated code of every kernel")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    target = tl.select_target(options.target)
    table = Table(
        "kernel", "target", "largest error", "time", "rate", "torch / ours", "compile", title="tile quickstart"
    )
    for column in table.columns[2:]:
        column.justify = "right"
    all_right = True
    with console.status("preparing") as status:
        for workload in workloads(options.size):
            status.update(f"compiling {workload.name}")
            row, right = run(workload, target, options.show_source, console)
            table.add_row(*row)
            all_right &= right
    console.print(table)
    if not all_right:
        console.print("[red]A result is wrong.[/red]")
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
