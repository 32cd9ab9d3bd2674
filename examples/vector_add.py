"""One add in five formulations, as closures and in the eager style, for any length; its printed code; its speed.

    python examples/vector_add.py [--target TARGET] [--emulate] [--print NAME] [--bench]

Checks every formulation at an aligned length and at one element more and less. `--print` shows the code that the
formulation becomes, `--bench` times all of them beside torch and Triton at 4096² elements and one
more and less.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tile_core as tl
import tile_core.language as T

BLOCK, THREADS, WIDTH = 2048, 256, 8


def plain(n: int, dtype: str = "float16", block: int = BLOCK) -> Any:
    """One `T.Parallel` over a block: the compiler deals vectors to the threads and makes the tail."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=THREADS) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add


def one_a_thread(n: int, dtype: str = "float16") -> Any:
    """The same with a block as long as there are threads: one element each, as its author asks."""
    return plain(n, dtype, THREADS)


def fragments(n: int, dtype: str = "float16") -> Any:
    """Through registers: tiles are copied, added and copied back."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=THREADS) as bx:
            a = T.alloc_fragment((BLOCK,), dtype)
            b = T.alloc_fragment((BLOCK,), dtype)
            T.copy(A[bx * BLOCK], a)
            T.copy(B[bx * BLOCK], b)
            for i in T.Parallel(BLOCK):
                a[i] = a[i] + b[i]
            T.copy(a, C[bx * BLOCK])

    return add


def shared(n: int, dtype: str = "float16") -> Any:
    """Through shared memory."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=THREADS) as bx:
            a = T.alloc_shared((BLOCK,), dtype)
            b = T.alloc_shared((BLOCK,), dtype)
            T.copy(A[bx * BLOCK], a)
            T.copy(B[bx * BLOCK], b)
            for i in T.Parallel(BLOCK):
                C[bx * BLOCK + i] = a[i] + b[i]

    return add


def by_hand(n: int, dtype: str = "float16") -> Any:
    """The program of one thread: a vector where a whole one is inside, single elements at the end."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, THREADS * WIDTH), threads=THREADS) as bx:
            first = (bx * THREADS + T.get_thread_binding()) * WIDTH
            if first + WIDTH <= n:
                for v in T.vectorized(WIDTH):
                    C[first + v] = A[first + v] + B[first + v]
            else:
                for v in T.serial(WIDTH):
                    if first + v < n:
                        C[first + v] = A[first + v] + B[first + v]

    return add


FORMULATIONS: dict[str, Callable[..., Any]] = {
    "plain": plain,
    "one a thread": one_a_thread,
    "fragments": fragments,
    "shared": shared,
    "by hand": by_hand,
}


def eager(target: Any, execution: str | None = None) -> Callable[..., torch.Tensor]:
    """The plain formulation in the eager style: called with tensors, it returns their sum."""

    @tl.jit(target=target, execution=execution)
    def add(A, B, dtype="float16"):  # type: ignore[no-untyped-def]
        n = T.const("n")
        A: T.Tensor((n,), dtype)
        B: T.Tensor((n,), dtype)
        C = T.empty((n,), dtype)
        with T.Kernel(T.ceildiv(n, BLOCK), threads=THREADS) as bx:
            for i in T.Parallel(BLOCK):
                C[bx * BLOCK + i] = A[bx * BLOCK + i] + B[bx * BLOCK + i]
        return C

    return add


def check(length: int, target: Any, execution: str | None, device: str) -> None:
    """Every formulation at `length` and one element more and less, against torch."""
    dtype = "float16" if device == "cuda" or execution == "emulate" else "float32"
    for n in (length, length + 1, length - 1):
        a, b = (torch.randn(n, device=device).to(getattr(torch, dtype)) for _ in range(2))
        for name, make in FORMULATIONS.items():
            if name == "by hand" and execution != "emulate" and device != "cuda":
                continue  # a thread index needs threads
            c = torch.full_like(a, float("nan"))
            tl.compile(make(n, dtype), target=target, execution=execution)(a, b, c)
            assert torch.equal(c, a + b), name
        assert torch.equal(eager(target, execution)(a, b, dtype), a + b)


def code_of(name: str, n: int) -> str:
    """The kernel that a formulation becomes on an H200 for aligned tensors, without the functions before it."""
    target = {"kind": "cuda", "arch": "sm_90"}
    source: str = tl.compile(FORMULATIONS[name](n), target=target, execution="emulate").get_kernel_source()
    kernel = 'extern "C" __global__'
    return kernel + source.split(kernel)[1].rstrip()


def _torch_add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Callable[[], Any]:
    return lambda: torch.add(a, b, out=c)


def _triton_add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Callable[[], Any]:
    """The kernel of `benchmarks/gpu_peers.py`: 1024 elements a program, masked."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
    from gpu_peers import add

    return lambda: add(a, b, c)


def _launcher(make: Callable[..., Any]) -> Callable[..., Callable[[], Any]]:
    def prepare(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Callable[[], Any]:
        kernel = tl.compile(make(len(a)), target="cuda")
        return lambda: kernel(a, b, c)

    return prepare


def bench(length: int) -> None:
    """A table of milliseconds, L2 flushed before every launch, medians."""
    from triton.testing import do_bench

    columns = [length, length + 1, length - 1]
    print("| formulation |" + "".join(f" {n} |" for n in columns))
    print("|---|" + "---|" * len(columns))
    peers = {"torch.add(out=)": _torch_add, "Triton, 1024 a program, masked": _triton_add}
    makers = {**peers, **{name: _launcher(make) for name, make in FORMULATIONS.items()}}
    for name, make in makers.items():
        times = []
        for n in columns:
            a, b = (torch.randn(n, device="cuda").half() for _ in range(2))
            times.append(do_bench(make(a, b, torch.empty_like(a)), return_mode="median"))
        print(f"| {name} |" + "".join(f" {time:.4f} |" for time in times), flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="auto", help="where to compile for (default: the best there is)")
    parser.add_argument("--emulate", action="store_true", help="run the printed code on the CPU")
    parser.add_argument("--length", type=int, default=1 << 14)
    parser.add_argument("--print", choices=FORMULATIONS, dest="printed", help="show a formulation's code for CUDA")
    parser.add_argument("--bench", action="store_true", help="time all formulations on a GPU")
    options = parser.parse_args()
    if options.printed:
        print(code_of(options.printed, options.length))
        return
    if options.bench:
        bench(4096 * 4096)
        return
    device = (
        "cuda" if torch.cuda.is_available() and options.target in ("auto", "cuda") and not options.emulate else "cpu"
    )
    check(options.length, options.target, "emulate" if options.emulate else None, device)
    print(f"{len(FORMULATIONS)} formulations of {options.length} elements, ±1, on {device}: right")


if __name__ == "__main__":
    main()
