"""Ours beside torch and Triton on one NVIDIA GPU, in one run: medians with L2 flushed before every launch.

    python benchmarks/gpu.py [--json FILE] [--only TEXT]

Prints a table and, of each row, the ratio best peer time / our time: above 1 is faster than every peer.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tlang
from triton.testing import do_bench

import tile_core as tl
import tile_core.language as T

LENGTH = 4096 * 4096


def add_parallel(n: int, dtype: str, block: int) -> Any:
    """The plain formulation: one T.Parallel over a block of elements, 256 threads."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add


def add_fragments(n: int, dtype: str, block: int = 2048) -> Any:
    """Through fragments with T.copy."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            a = T.alloc_fragment((block,), dtype)
            b = T.alloc_fragment((block,), dtype)
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            for i in T.Parallel(block):
                a[i] = a[i] + b[i]
            T.copy(a, C[bx * block])

    return add


def add_shared(n: int, dtype: str, block: int = 2048) -> Any:
    """Through shared memory."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as bx:
            a = T.alloc_shared((block,), dtype)
            b = T.alloc_shared((block,), dtype)
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            for i in T.Parallel(block):
                C[bx * block + i] = a[i] + b[i]

    return add


def add_rows(m: int, n: int, dtype: str, block: int = 1024) -> Any:
    """Two dimensions, any row length."""

    @T.prim_func
    def add(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block), m, threads=128) as (bx, by):
            for j in T.Parallel(block):
                C[by, bx * block + j] = A[by, bx * block + j] + B[by, bx * block + j]

    return add


def softmax(m: int, n: int, dtype: str) -> Any:
    """Row softmax, one row a block, computed in float32."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=256) as row:
            x = T.alloc_fragment((n,), T.float32)
            largest = T.alloc_fragment((1,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, :], x)
            T.reduce_max(x, largest, dim=0)
            for j in T.Parallel(n):
                x[j] = T.exp(x[j] - largest[0])
            T.reduce_sum(x, total, dim=0)
            for j in T.Parallel(n):
                x[j] = x[j] / total[0]
            T.copy(x, Y[row, :])

    return kernel


def rms_norm(m: int, n: int, dtype: str, eps: float = 1e-6) -> Any:
    """RMSNorm, one row a block, computed in float32."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), W: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m, threads=256) as row:
            x = T.alloc_fragment((n,), T.float32)
            square = T.alloc_fragment((n,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, :], x)
            for j in T.Parallel(n):
                square[j] = x[j] * x[j]
            T.reduce_sum(square, total, dim=0)
            for j in T.Parallel(n):
                Y[row, j] = x[j] * T.rsqrt(total[0] / n + eps) * W[j]

    return kernel


@triton.jit
def _triton_add(a, b, c, n, BLOCK: tlang.constexpr):
    at = tlang.program_id(0) * BLOCK + tlang.arange(0, BLOCK)
    inside = at < n
    tlang.store(c + at, tlang.load(a + at, mask=inside) + tlang.load(b + at, mask=inside), mask=inside)


@dataclass(frozen=True)
class Row:
    """One workload: our kernel, its arguments (the output last), the peers, and the bytes that must move."""

    name: str
    program: Any
    inputs: tuple[torch.Tensor, ...]
    output: torch.Tensor
    reference: Callable[..., torch.Tensor]
    peers: dict[str, Callable[[], Any]]
    bytes: int
    tolerance: float


def _values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, device="cuda").to(dtype)
    return torch.randint(-50, 50, shape, device="cuda").to(dtype)


def add_table() -> list[Callable[[], Row]]:
    """Vector adds: formulations at three lengths, then dtypes, then two dimensions with an odd row length."""
    formulations: dict[str, Callable[[int], Any]] = {
        "Parallel(256)": lambda n: add_parallel(n, "float16", 256),
        "Parallel(2048)": lambda n: add_parallel(n, "float16", 2048),
        "fragments": lambda n: add_fragments(n, "float16"),
        "shared": lambda n: add_shared(n, "float16"),
    }
    found: list[Callable[[], Row]] = []
    for delta in (0, 1, -1):
        n = LENGTH + delta
        for name, make in formulations.items():
            found.append(
                lambda n=n, name=name, make=make, delta=delta: _add_row(
                    f"add fp16 4096²{delta:+d} {name}", make(n), (n,), torch.float16
                )
            )
    n = LENGTH + 1
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16"), (torch.int8, "int8")):
        found.append(
            lambda dtype=dtype, name=name: _add_row(
                f"add {name} 4096²+1 Parallel(2048)", add_parallel(n, name, 2048), (n,), dtype
            )
        )
    found += [
        lambda columns=columns: _add_row(
            f"add fp16 4096×{columns}", add_rows(4096, columns, "float16"), (4096, columns), torch.float16
        )
        for columns in (4096, 4093)
    ]
    return found


def _add_row(name: str, program: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Row:
    a, b = _values(shape, dtype), _values(shape, dtype)
    c, c1, c2 = (torch.empty_like(a) for _ in range(3))
    n = a.numel()
    peers: dict[str, Callable[[], Any]] = {
        "torch": lambda: torch.add(a, b, out=c1),
        "triton": lambda: _triton_add[(triton.cdiv(n, 1024),)](a, b, c2, n, BLOCK=1024),
    }
    return Row(name, program, (a, b), c, torch.add, peers, 3 * a.nbytes, 0.0)


def row_table() -> list[Callable[[], Row]]:
    """Softmax and RMSNorm over rows."""
    return [
        lambda columns=columns, make=make: make(columns)
        for columns in (4096, 8192, 4093)
        for make in (_softmax_row, _norm_row)
    ]


def _softmax_row(columns: int) -> Row:
    x = torch.randn(8192, columns, device="cuda", dtype=torch.float16)
    compiled = torch.compile(lambda x: torch.softmax(x, dim=1))
    peers: dict[str, Callable[[], Any]] = {
        "torch": lambda: torch.softmax(x, dim=1),
        "inductor": lambda: compiled(x),
    }
    program = softmax(8192, columns, "float16")
    name = f"softmax fp16 8192×{columns}"
    return Row(
        name, program, (x,), torch.empty_like(x), lambda x: torch.softmax(x.float(), dim=1), peers, 2 * x.nbytes, 2e-3
    )


def _norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[1],), w, 1e-6)


def _norm_row(columns: int) -> Row:
    x = torch.randn(8192, columns, device="cuda", dtype=torch.float16)
    w = torch.randn(columns, device="cuda", dtype=torch.float16)
    compiled = torch.compile(_norm)
    peers: dict[str, Callable[[], Any]] = {"torch": lambda: _norm(x, w), "inductor": lambda: compiled(x, w)}
    program = rms_norm(8192, columns, "float16")
    name = f"RMSNorm fp16 8192×{columns}"
    return Row(
        name, program, (x, w), torch.empty_like(x), lambda x, w: _norm(x.float(), w.float()), peers, 2 * x.nbytes, 2e-2
    )


def measure(row: Row) -> dict[str, Any]:
    """Check the result, then time ours and every peer."""
    kernel = tl.compile(row.program, target="cuda")
    row.output.fill_(float("nan") if row.output.is_floating_point() else -99)
    kernel(*row.inputs, row.output)
    expected = row.reference(*row.inputs).float()
    torch.testing.assert_close(row.output.float(), expected, rtol=row.tolerance, atol=row.tolerance)
    ours = do_bench(lambda: kernel(*row.inputs, row.output), return_mode="median")
    peers = {name: do_bench(call, return_mode="median") for name, call in row.peers.items()}
    gigabytes = row.bytes / ours / 1e6
    return {
        "name": row.name,
        "ours_ms": ours,
        "peers_ms": peers,
        "ratio": min(peers.values()) / ours,
        "gb_per_s": gigabytes,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--only", default="", help="run the rows whose name contains this text")
    options = parser.parse_args()
    results = []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}")
    for make in [*add_table(), *row_table()]:
        row = make()
        if options.only not in row.name:
            continue
        result = measure(row)
        results.append(result)
        peers = "  ".join(f"{name} {time:.4f}" for name, time in result["peers_ms"].items())
        print(
            f"{result['name']:36s} ours {result['ours_ms']:.4f} ms  {result['gb_per_s']:5.0f} GB/s  {peers}  "
            f"ratio {result['ratio']:.3f}",
            flush=True,
        )
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
