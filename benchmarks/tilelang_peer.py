"""TileLang's kernels for the workloads of `tensor_cores.py` and `gpu.py`, in a process: it has its own TVM.


    PYTHONPATH=FOLDER python benchmarks/tilelang_peer.py [--only TEXT] [--forms TEXT] [--burst] [--rounds N]

Written in TileLang's language as its own published kernels are: weights of four bits are unpacked in registers, and
multiplied from there or through shared memory. Each workload is tried with every form and tile of a table, checked, and
the fastest one of a burst is measured. Prints one JSON object: a workload's name to its milliseconds, the form that won
and how many forms were right; or to the reason why there is none.
"""

# TileLang reads the annotations of its kernels as values, so they are not strings here.

import argparse
import itertools
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from gpu_timing import Call, Timer

ZERO = 8
GROUP = 128
EPSILON = 1e-6
TRIES = 5


@dataclass(frozen=True)
class Form:
    """How a kernel is written and cut: a name for the result, its program, and what checks and gives the call."""

    name: str
    program: Callable[[], Any]
    checked: Callable[[Any], Call]


def w4a16(m: int, n: int, k: int) -> Iterator[Form]:
    """Forms of C = A @ Wᵀ, W of four bits with a scale for each group along K."""
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    packed = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
    scale = (torch.rand(k // GROUP, n, device="cuda") + 0.5).half()
    bits = torch.stack((packed & 15, packed >> 4), dim=-1).reshape(n, k).float()
    expected = a.float() @ ((bits - ZERO) * scale.float().repeat_interleave(GROUP, dim=0).T).T

    def checked(kernel: Any, turned: bool, split: int) -> Call:
        out = torch.full((n, m) if turned else (m, n), float("nan"), device="cuda", dtype=torch.float16)
        parts = [torch.empty((split, *out.shape), device="cuda", dtype=torch.float32)] if split > 1 else []
        kernel(a, packed, scale, *parts, out)
        error = float(((out.T if turned else out).float() - expected).norm() / expected.norm())
        if not error < 2e-3:
            raise ValueError(f"relative error {error:.1e}")
        return lambda: kernel(a, packed, scale, *parts, out)

    tiles = [
        *itertools.product(("registers", "shared"), (32, 64), (128, 256), (3,), (128,), (1, 2, 4)),
        *itertools.product(("registers", "shared"), (64,), (128,), (4,), (128,), (2, 4)),
        *itertools.product(("weights first",), (64,), (128, 256), (3,), (128,), (1, 4)),
        *itertools.product(("weights first",), (128,), (128,), (3,), (128, 256), (1, 4)),
    ]
    for form, rows, depth, stages, threads, split in tiles:
        options = {"rows": rows, "depth": depth, "stages": stages, "threads": threads, "split": split}
        yield Form(
            f"{form}, {', '.join(f'{name} {value}' for name, value in options.items())}",
            partial(_dequant_gemm, m, n, k, form=form, **options),
            partial(checked, turned=form == "weights first", split=split),
        )


def _dequant_gemm(  # noqa: C901 - one program in its forms
    m: int, n: int, k: int, *, form: str, rows: int, depth: int, stages: int, threads: int, split: int
) -> Any:
    """A block makes `rows` columns of C, of 16 rows; `split` blocks share K, and leave parts to a second launch."""
    import tilelang.language as T

    columns, steps = 16, k // (depth * split)
    groups = steps * depth // GROUP
    through_shared, weights_first = form == "shared", form == "weights first"
    out_shape = (n, m) if weights_first else (m, n)
    tile = (rows, columns) if weights_first else (columns, rows)

    @T.macro
    def multiply(X: Any, W: Any, total: Any) -> None:
        if weights_first:
            T.gemm(W, X, total, transpose_B=True)
        else:
            T.gemm(X, W, total, transpose_B=True)

    @T.macro
    def products(A: Any, B: Any, Scale: Any, total: Any, bx: Any, by: Any, bz: Any) -> None:
        X = T.alloc_shared((columns, depth), "float16")
        packed = T.alloc_shared((rows, depth // 2), "uint8")
        scales = T.alloc_shared((groups, rows), "float16")
        held = T.alloc_fragment((rows, depth // 2), "uint8")
        weights = T.alloc_fragment((rows, depth), "float16")
        if through_shared:
            operand = T.alloc_shared((rows, depth), "float16")
        else:
            operand = T.alloc_fragment((rows, depth), "float16")
        T.copy(Scale[bz * groups : (bz + 1) * groups, bx * rows : (bx + 1) * rows], scales)
        T.clear(total)
        for step in T.Pipelined(steps, num_stages=stages):
            T.copy(A[by * columns, (bz * steps + step) * depth], X)
            T.copy(B[bx * rows, (bz * steps + step) * (depth // 2)], packed)
            T.copy(packed, held)
            for i, j in T.Parallel(rows, depth):
                bits = (held[i, j // 2].astype("uint16") >> (j % 2 * 4).astype("uint16")) & T.uint16(15)
                whole = T.reinterpret(bits | T.uint16(0x6400), "float16") - T.float16(1024 + ZERO)
                weights[i, j] = whole * scales[(step * depth + j) // GROUP, i]
            T.copy(weights, operand)
            multiply(X, operand, total)

    @T.prim_func
    def whole(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((n, k // 2), "uint8"),
        Scale: T.Tensor((k // GROUP, n), "float16"),
        C: T.Tensor(out_shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(n, rows), T.ceildiv(m, columns), threads=threads) as (bx, by):
            total = T.alloc_fragment(tile, "float32")
            products(A, B, Scale, total, bx, by, 0)
            if weights_first:
                T.copy(total, C[bx * rows, by * columns])
            else:
                T.copy(total, C[by * columns, bx * rows])

    @T.prim_func
    def in_parts(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((n, k // 2), "uint8"),
        Scale: T.Tensor((k // GROUP, n), "float16"),
        Parts: T.Tensor((split, *out_shape), "float32"),
        C: T.Tensor(out_shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(n, rows), T.ceildiv(m, columns), split, threads=threads) as (bx, by, bz):
            total = T.alloc_fragment(tile, "float32")
            products(A, B, Scale, total, bx, by, bz)
            if weights_first:
                T.copy(total, Parts[bz, bx * rows : (bx + 1) * rows, by * columns : (by + 1) * columns])
            else:
                T.copy(total, Parts[bz, by * columns : (by + 1) * columns, bx * rows : (bx + 1) * rows])
        with T.Kernel(T.ceildiv(m * n, 1024), threads=128) as block:
            for i in T.Parallel(1024):
                at = block * 1024 + i
                found = T.alloc_var("float32", init=0.0)
                for part in T.unroll(split):
                    found += Parts[part, at // out_shape[1], at % out_shape[1]]
                C[at // out_shape[1], at % out_shape[1]] = found

    return whole if split == 1 else in_parts


def softmax(rows: int, n: int) -> Iterator[Form]:
    """Forms of softmax of rows in fp16."""
    x, y = torch.randn(rows, n, device="cuda", dtype=torch.float16), torch.empty(rows, n, device="cuda").half()
    yield from _row_forms(_softmax, (x,), y, torch.softmax(x.float(), dim=1))


def rms_norm(rows: int, n: int) -> Iterator[Form]:
    """Forms of RMSNorm of rows in fp16."""
    x, w = torch.randn(rows, n, device="cuda").half(), torch.randn(n, device="cuda").half()
    expected = torch.nn.functional.rms_norm(x.float(), (n,), w.float(), EPSILON)
    yield from _row_forms(_rms_norm, (x, w), torch.empty_like(x), expected)


def _row_forms(
    write: Callable[..., Any], inputs: tuple[torch.Tensor, ...], y: torch.Tensor, expected: torch.Tensor
) -> Iterator[Form]:
    rows, n = inputs[0].shape

    def checked(kernel: Any) -> Call:
        y.fill_(float("nan"))
        kernel(*inputs, y)
        torch.testing.assert_close(y.float(), expected, rtol=2e-2, atol=2e-3)
        return lambda: kernel(*inputs, y)

    for threads, together in itertools.product((128, 256, 512), (1, 2)):
        yield Form(f"{together} rows, {threads} threads", partial(write, rows, n, threads, together), checked)


def _padded(n: int, threads: int) -> int:
    return -(-n // (8 * threads)) * 8 * threads


def _softmax(rows: int, n: int, threads: int, together: int) -> Any:
    import tilelang.language as T

    width = _padded(n, threads)

    @T.prim_func
    def kernel(X: T.Tensor((rows, n), "float16"), Y: T.Tensor((rows, n), "float16")):
        with T.Kernel(T.ceildiv(rows, together), threads=threads) as block:
            x = T.alloc_fragment((together, width), "float16")
            wide = T.alloc_fragment((together, width), "float32")
            largest = T.alloc_fragment((together,), "float32")
            total = T.alloc_fragment((together,), "float32")
            T.copy(X[block * together, 0], x)
            for i, j in T.Parallel(together, width):
                wide[i, j] = T.if_then_else(j < n, T.cast(x[i, j], "float32"), -T.infinity("float32"))
            T.reduce_max(wide, largest, dim=1)
            for i, j in T.Parallel(together, width):
                wide[i, j] = T.exp2((wide[i, j] - largest[i]) * 1.4426950408889634)
            T.reduce_sum(wide, total, dim=1)
            for i, j in T.Parallel(together, width):
                x[i, j] = wide[i, j] / total[i]
            T.copy(x, Y[block * together, 0])

    return kernel


def _rms_norm(rows: int, n: int, threads: int, together: int) -> Any:
    import tilelang.language as T

    width = _padded(n, threads)

    @T.prim_func
    def kernel(X: T.Tensor((rows, n), "float16"), W: T.Tensor((n,), "float16"), Y: T.Tensor((rows, n), "float16")):
        with T.Kernel(T.ceildiv(rows, together), threads=threads) as block:
            x = T.alloc_fragment((together, width), "float16")
            w = T.alloc_fragment((width,), "float16")
            squares = T.alloc_fragment((together, width), "float32")
            total = T.alloc_fragment((together,), "float32")
            T.copy(X[block * together, 0], x)
            T.copy(W[0], w)
            for i, j in T.Parallel(together, width):
                squares[i, j] = T.cast(x[i, j], "float32") * T.cast(x[i, j], "float32")
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(together):
                total[i] = T.rsqrt(total[i] / n + EPSILON)
            for i, j in T.Parallel(together, width):
                x[i, j] = T.cast(x[i, j], "float32") * total[i] * T.cast(w[j], "float32")
            T.copy(x, Y[block * together, 0])

    return kernel


def _compiled(program: Callable[[], Any]) -> Any:
    """The kernel, or what stood against it: a form that cannot be compiled does not count."""
    import tilelang

    try:
        return tilelang.compile(program(), target="cuda")
    except Exception as problem:  # noqa: BLE001 - it is told
        return problem


WORKLOADS: dict[str, Callable[[], Iterator[Form]]] = {
    "w4a16 GEMM 16×8192×8192": lambda: w4a16(16, 8192, 8192),
    **{f"softmax fp16 8192×{n}": lambda n=n: softmax(8192, n) for n in (4096, 8192, 4093)},  # type: ignore[misc]
    **{f"RMSNorm fp16 8192×{n}": lambda n=n: rms_norm(8192, n) for n in (4096, 8192, 4093)},  # type: ignore[misc]
}


def measure(forms: Iterable[Form], timer: Timer, rounds: int, *, burst: bool) -> dict[str, Any]:
    """The fastest form that is right, timed as `rounds` says."""
    forms = list(forms)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        kernels = list(pool.map(_compiled, [form.program for form in forms]))
    found: dict[str, tuple[float, Call]] = {}
    failed: dict[str, str] = {}
    for form, kernel in zip(forms, kernels, strict=True):
        try:
            if isinstance(kernel, Exception):
                raise kernel
            call = form.checked(kernel)
            found[form.name] = statistics.median(timer.block(call, TRIES)), call
            print(f"{form.name}: {found[form.name][0] * 1e3:.1f} µs", file=sys.stderr, flush=True)
        except Exception as problem:  # noqa: BLE001 - a form that is wrong does not count, and is told
            failed[form.name] = f"{type(problem).__name__}: {str(problem)[-300:]}"
    if not found:
        return {"failed": failed}
    best = min(found, key=lambda name: found[name][0])
    times = timer.rounds({"TileLang": found[best][1]}, rounds, burst=burst)
    return {"ms": times["TileLang"], "form": best, "right": len(found), "failed": failed}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run the workloads whose name contains this text")
    parser.add_argument("--forms", default="", help="try the forms whose name contains this text")
    parser.add_argument("--burst", action="store_true", help="a few launches after a pause instead of a sustained run")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    options = parser.parse_args()
    import tilelang

    timer = Timer()
    found = {
        name: measure(
            (form for form in make() if options.forms in form.name), timer, options.rounds, burst=options.burst
        )
        for name, make in WORKLOADS.items()
        if options.only in name
    }
    print(json.dumps({"version": tilelang.__version__, "workloads": found}))


if __name__ == "__main__":
    main()
