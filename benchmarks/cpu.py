"""The CPU backend beside torch: medians of alternating calls in one process, and their ratio.

    python benchmarks/cpu.py [--quick] [--single] [--json] [--only TEXT] [--torch-as-on-amd]

Every result is checked against torch in higher precision before it is timed. `must` and `aim` are the ratios, torch's
time over ours, that the project set itself on two cores; a machine whose libraries use other instructions moves them.
`of peak` is a row's rate in parts of what the machine does at most, measured before the row (`cpu_peak.py`): arithmetic
that stays in registers, or a copy of 64 MiB. Rows of bytes can be faster than that where caches hold their tensors.
Torch and the kernels use their own default number of threads. `--single` is for machines that do other
work: one thread, and the time that it computes.

`must` and `aim` were set on an AMD CPU (Zen 5), where torch's MKL takes its AVX2 code for float32, and oneDNN has no
matrix tiles. `--torch-as-on-amd` asks both libraries for that on any x86 CPU, so that the bars mean what they meant
there. The kernels keep every instruction of the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table

import tile_core as tl
import tile_core.language as T
from cpu_kernels import add, attention, gemm, gemm_gelu, rms_norm, softmax
from cpu_peak import MEMORY, peak

AS_ON_AMD = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""What torch's libraries read when they are loaded: the instructions that they use on an AMD CPU."""

Call = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Workload:
    """One row of the table. `work` is in floating-point operations or bytes, as `unit` says; `limit` bounds it."""

    name: str
    must: float
    aim: float
    program: Callable[[], object]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    output: Callable[[], torch.Tensor]
    reference: Callable[..., torch.Tensor]
    peer: Callable[..., object]
    tolerance: float
    work: float
    unit: str
    limit: str


def gemm_row(M, N, K, dtype, must, aim, peer=None, dynamic=False):
    """A matrix product against `torch.mm`, or `peer`."""
    kind = getattr(torch, dtype)
    whole = dtype == "int8"
    out = "int32" if whole else "float32"

    def program():
        sizes = tuple(T.dynamic(name) for name in "MNK") if dynamic else (M, N, K)
        return gemm(*sizes, dtype, out)

    def matrix(rows, columns):
        return torch.randint(-100, 100, (rows, columns), dtype=kind) if whole else torch.randn(rows, columns).to(kind)

    return Workload(
        name=f"GEMM {dtype} {M}×{N}×{K}" + (" dynamic" if dynamic else ""),
        must=must,
        aim=aim,
        program=program,
        inputs=lambda: (matrix(M, K), matrix(K, N)),
        output=lambda: torch.empty(M, N, dtype=getattr(torch, out)),
        reference=lambda a, b: a.double() @ b.double(),
        peer=peer or (lambda a, b, spare: torch.mm(a, b)),
        tolerance=0.0 if whole else 2e-6 * math.sqrt(K),
        work=2.0 * M * N * K,
        unit="GFLOP/s",
        limit=dtype,
    )


def add_row(N, dtype, must, aim):
    """A vector addition against `torch.add`."""
    kind = getattr(torch, dtype)
    return Workload(
        name=f"add {dtype} 2^24{f'+{N - 2**24}' if N != 2**24 else ''}" if N >= 2**24 else f"add {dtype} {N}",
        must=must,
        aim=aim,
        program=lambda: add(N, dtype),
        inputs=lambda: (torch.randn(N).to(kind), torch.randn(N).to(kind)),
        output=lambda: torch.empty(N, dtype=kind),
        reference=lambda a, b: (a + b).double(),
        peer=lambda a, b, spare: torch.add(a, b, out=spare),
        tolerance=0.0,
        work=3.0 * N * kind.itemsize,
        unit="GB/s",
        limit=MEMORY,
    )


def row_wise(name, M, N, must, aim, program, reference, peer, weights=False):
    """A function of rows of a float32 matrix."""
    return Workload(
        name=f"{name} float32 {M}×{N}",
        must=must,
        aim=aim,
        program=lambda: program(M, N),
        inputs=lambda: (torch.randn(M, N), *([torch.randn(N)] if weights else [])),
        output=lambda: torch.empty(M, N),
        reference=reference,
        peer=peer,
        tolerance=2e-6,
        work=2.0 * M * N * 4,
        unit="GB/s",
        limit=MEMORY,
    )


def attention_row(H, S, D, dtype, causal, must, aim):
    """Attention against torch's fused one."""
    sdpa = torch.nn.functional.scaled_dot_product_attention
    kind = getattr(torch, dtype)
    return Workload(
        name=f"attention {dtype} {'causal' if causal else 'full'} H{H} S{S} D{D}",
        must=must,
        aim=aim,
        program=lambda: attention(H, S, D, dtype, causal),
        inputs=lambda: tuple(torch.randn(H, S, D).to(kind) for _ in range(3)),
        output=lambda: torch.empty(H, S, D, dtype=kind),
        reference=lambda q, k, v: sdpa(q.double(), k.double(), v.double(), is_causal=causal),
        peer=lambda q, k, v, spare: sdpa(q[None], k[None], v[None], is_causal=causal),
        tolerance=2.0**-7 if dtype == "bfloat16" else 1e-5,
        work=4.0 * H * S * S * D / (2 if causal else 1),
        unit="GFLOP/s",
        limit=dtype,
    )


def gelu_row(n, must, aim):
    """A fused linear layer against torch's two calls."""
    gelu = torch.nn.functional.gelu
    return Workload(
        name=f"GEMM+bias+GELU float32 {n}³",
        must=must,
        aim=aim,
        program=lambda: gemm_gelu(n, n, n, "float32"),
        inputs=lambda: (torch.randn(n, n), torch.randn(n, n) / math.sqrt(n), torch.randn(n)),
        output=lambda: torch.empty(n, n),
        reference=lambda a, b, bias: gelu(a.double() @ b.double() + bias.double()),
        peer=lambda a, b, bias, spare: gelu(torch.addmm(bias, a, b)),
        tolerance=2e-5,
        work=2.0 * n**3,
        unit="GFLOP/s",
        limit="float32",
    )


def workloads() -> Iterator[Workload]:
    """All rows, in the order of the table."""
    rms = torch.nn.functional.rms_norm
    for shape in ((1024,) * 3, (2048,) * 3, (1000, 1003, 999)):
        yield gemm_row(*shape, "float32", 1.7, 2.3)
    yield gemm_row(1000, 1003, 999, "float32", 1.7, 2.3, dynamic=True)
    for n in (1024, 2048):
        yield gemm_row(n, n, n, "bfloat16", 0.95, 1.1)
    yield gemm_row(1024, 1024, 1024, "int8", 0.8, 1.0, peer=lambda a, b, spare: torch._int_mm(a, b))
    yield gemm_row(1024, 1024, 1024, "float16", 50.0, 100.0)
    yield add_row(2**24, "float32", 1.0, 1.25)
    yield add_row(2**24 + 1, "float32", 1.0, 1.25)
    yield add_row(2**24, "bfloat16", 1.0, 1.25)
    for columns, must, aim in ((4096, 1.0, 1.1), (1003, 0.9, 1.05)):
        yield row_wise(
            "softmax",
            4096,
            columns,
            must,
            aim,
            softmax,
            lambda x: torch.softmax(x.double(), 1),
            lambda x, spare: torch.softmax(x, 1, out=spare),
        )
    for columns, must, aim in ((4096, 8.0, 12.0), (1003, 2.0, 2.7)):
        yield row_wise(
            "RMSNorm",
            4096,
            columns,
            must,
            aim,
            rms_norm,
            lambda x, w: rms(x.double(), (x.shape[1],), w.double(), 1e-6),
            lambda x, w, spare: rms(x, (x.shape[1],), w, 1e-6),
            weights=True,
        )
    for dtype, bars in (("float32", ((2.0, 2.5), (2.3, 2.9))), ("bfloat16", ((3.5, 4.4), (4.0, 5.2)))):
        for causal, (must, aim) in zip((False, True), bars, strict=True):
            yield attention_row(8, 2048, 64, dtype, causal, must, aim)
    yield gelu_row(2048, 1.7, 2.3)


def milliseconds(call: Call, clock: Clock) -> float:
    """The time of one call."""
    start = clock()
    call()
    return (clock() - start) * 1e3


def medians(ours: Call, peer: Call, seconds: float, clock: Clock) -> tuple[float, float]:
    """Medians of alternating calls for about `seconds`, five pairs at least."""
    ours()
    once = milliseconds(ours, clock) + milliseconds(peer, clock)
    rounds = max(5, min(200, int(seconds * 1e3 / once)))
    times = [(milliseconds(ours, clock), milliseconds(peer, clock)) for _ in range(rounds)]
    mine, theirs = zip(*times, strict=True)
    return statistics.median(mine), statistics.median(theirs)


def measure(workload: Workload, seconds: float, clock: Clock) -> dict[str, object]:
    """Compile, check and time one workload."""
    torch.manual_seed(0)
    program = workload.program()
    start = time.perf_counter()
    kernel = tl.compile(program, target="cpu")
    compile_ms = (time.perf_counter() - start) * 1e3
    inputs, output, spare = workload.inputs(), workload.output(), workload.output()
    kernel(*inputs, output)
    expected = workload.reference(*inputs).double()
    error = (output.double() - expected).abs().max().item() / max(expected.abs().max().item(), 1e-30)
    most = peak(workload.limit, clock)
    mine, theirs = medians(lambda: kernel(*inputs, output), lambda: workload.peer(*inputs, spare), seconds, clock)
    return {
        "name": workload.name,
        "ms": mine,
        "torch_ms": theirs,
        "ratio": theirs / mine,
        "must": workload.must,
        "aim": workload.aim,
        "rate": workload.work / mine / 1e6,
        "unit": workload.unit,
        "peak": most,
        "of_peak": workload.work / mine / 1e6 / most,
        "error": error,
        "right": error <= workload.tolerance,
        "compile_ms": compile_ms,
    }


def row(result: dict[str, object]) -> tuple[str, ...]:
    """The cells of one result."""
    ratio, must, aim = (float(result[key]) for key in ("ratio", "must", "aim"))
    colour = "green" if ratio >= aim else "yellow" if ratio >= must else "red"
    error = f"{result['error']:.1e}"
    return (
        str(result["name"]),
        f"{result['ms']:.3f}",
        f"{result['torch_ms']:.3f}",
        f"{result['rate']:.0f} {result['unit']}",
        f"{result['of_peak']:.0%}",
        f"[{colour}]{ratio:.2f}[/{colour}]",
        f"{must:g} / {aim:g}",
        error if result["right"] else f"[red]{error}[/red]",
        f"{result['compile_ms']:.0f}",
    )


COLUMNS = ("workload", "ms", "torch ms", "rate", "of peak", "torch / ours", "must / aim", "error", "compile ms")


def main() -> int:
    """The command line; the exit status is 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the time for each row")
    parser.add_argument("--single", action="store_true", help="one thread, and the time that it computes")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of a table")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument(
        "--torch-as-on-amd",
        action="store_true",
        help="torch as on an AMD CPU, where the bars were set: MKL with AVX2, oneDNN without matrix tiles; "
        "the kernels keep every instruction of this machine",
    )
    options = parser.parse_args()
    if options.torch_as_on_amd and not AS_ON_AMD.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | AS_ON_AMD)
    console = Console(stderr=options.json, width=None if sys.stdout.isatty() else 140)
    if options.single:
        os.environ["TILE_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
    clock = time.thread_time if options.single else time.perf_counter
    results = []
    with console.status("preparing") as status:
        for workload in workloads():
            if options.only in workload.name:
                status.update(workload.name)
                results.append(measure(workload, 0.4 if options.quick else 2.0, clock))
    if options.json:
        print(
            json.dumps(
                {
                    "threads": torch.get_num_threads(),
                    "torch": torch.__version__,
                    "torch_as_on_amd": options.torch_as_on_amd,
                    "results": results,
                },
                indent=2,
            )
        )
    else:
        table = Table(
            "workload", "ms", "torch ms", "rate", "of peak", "torch / ours", "must / aim", "error", "compile ms"
        )
        for column in table.columns[1:]:
            column.justify = "right"
        for result in results:
            table.add_row(*row(result))
        console.print(table)
    return 0 if all(result["right"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
