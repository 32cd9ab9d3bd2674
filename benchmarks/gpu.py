"""Ours beside torch, Inductor, Triton and TileLang on one NVIDIA GPU: medians with L2 flushed before every launch.

    python benchmarks/gpu.py [--json FILE] [--only PATTERN] [--peers NAMES] [--tilelang FOLDER]

Every result is checked first. A line tells our time, the bytes a second, each peer's time, the floor (the time in which
torch's copy moves as many bytes, measured in the same run) and the ratio best peer's time / our time: above
1 is faster than every peer. A peer that cannot run here is named, and does not count.

Where two tensors of a kernel lie in memory is worth up to a tenth of its time. So every contender makes its outputs in
each call, and all get the same block of torch's pool. They are timed in turns, twice, and the better median counts.
TileLang's softmax and RMSNorm are measured before them, in a process of their own, on tensors of their own.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton
from triton.testing import do_bench

import gpu_kernels as kernels
import gpu_peers as peers
import tile_core as tl
from gpu_timing import tilelang

LENGTH = 4096 * 4096
ROWS = 8192
Tensor = torch.Tensor


@dataclass(frozen=True)
class Row:
    """One workload: our program, its arguments, the reference of its outputs (the last arguments), peers, and bytes."""

    name: str
    program: Any
    arguments: tuple[Tensor, ...]
    outputs: int
    reference: Callable[..., tuple[Tensor, ...]]
    peers: dict[str, Callable[[], Any]]
    tolerance: float = 2e-2
    bytes: int = 0
    unchecked: frozenset[int] = field(default_factory=frozenset)


def fresh(like: Tensor) -> Tensor:
    """A tensor for an output, which lies where the last one of its size lay."""
    return torch.empty_like(like)


def moved(*tensors: Tensor) -> int:
    """Bytes of all tensors, each read or written once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def values(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Random values of any dtype."""
    if not dtype.is_floating_point:
        return torch.randint(-50, 50, shape, device="cuda").to(dtype)
    return torch.randn(shape, device="cuda").to(dtype)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function by Inductor, for sizes that do not change."""
    return torch.compile(function, dynamic=False)  # type: ignore[no-any-return]


# -- adds ----------------------------------------------------------------------------------------------------------


def add_row(name: str, program: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Row:
    """One add. 8-bit floats have no addition in torch: it widens, adds and converts, by Inductor."""
    a, b = values(shape, dtype), values(shape, dtype)
    c = torch.empty_like(a)
    narrow = dtype == torch.float8_e4m3fn

    def wide(a: Tensor, b: Tensor) -> Tensor:
        return (a.float() + b.float()).clamp(-448, 448).to(dtype)

    others: dict[str, Callable[[], Any]] = {"triton": lambda: peers.add(a, b, fresh(c))}
    if narrow:
        inductor = compiled(wide)
        others["inductor"] = lambda: inductor(a, b)
    else:
        others["torch"] = lambda: torch.add(a, b, out=fresh(c))
    reference = wide if narrow else torch.add
    return Row(
        name, program, (a, b, c), 1, lambda a, b: (reference(a, b),), others, tolerance=0.0, bytes=moved(a, b, c)
    )


def add_table() -> Iterator[Callable[[], Row]]:
    """Formulations at three lengths, then dtypes, then two dimensions with an odd row length."""
    formulations: dict[str, Callable[[int], Any]] = {
        "Parallel(256)": lambda n: kernels.add_parallel(n, "float16", 256),
        "Parallel(2048)": lambda n: kernels.add_parallel(n, "float16", 2048),
        "fragments": lambda n: kernels.add_fragments(n, "float16"),
        "shared": lambda n: kernels.add_shared(n, "float16"),
        "by hand": lambda n: kernels.add_vectorized(n, "float16"),
    }
    for delta in (0, 1, -1):
        n = LENGTH + delta
        for name, make in formulations.items():
            yield lambda n=n, name=name, make=make, delta=delta: add_row(
                f"add fp16 4096²{delta:+d} {name}", make(n), (n,), torch.float16
            )
    for dtype, block in (("float32", 1024), ("bfloat16", 2048), ("int8", 4096), ("float8_e4m3fn", 4096)):
        for delta in (0, 1):
            n = LENGTH + delta
            yield lambda n=n, dtype=dtype, block=block, delta=delta: add_row(
                f"add {dtype} 4096²{delta:+d}", kernels.add_parallel(n, dtype, block), (n,), getattr(torch, dtype)
            )
    for columns in (4096, 4093):
        yield lambda columns=columns: add_row(
            f"add fp16 4096×{columns}", kernels.add_rows(4096, columns, "float16"), (4096, columns), torch.float16
        )


# -- rows ----------------------------------------------------------------------------------------------------------


def row_peers(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], ours: Any, output: Tensor) -> dict[str, Any]:
    """torch and Inductor on the same function, and a Triton kernel."""
    inductor = compiled(function)
    return {
        "torch": lambda: function(*inputs),
        "inductor": lambda: inductor(*inputs),
        "triton": lambda: ours(*inputs, fresh(output)),
    }


def softmax_row(n: int) -> Row:
    """Softmax in fp16."""
    x = values((ROWS, n), torch.float16)
    y = torch.empty_like(x)
    others = row_peers(lambda x: torch.softmax(x, dim=1), (x,), peers.softmax, y)
    program = kernels.softmax(ROWS, n, "float16")
    return Row(
        f"softmax fp16 {ROWS}×{n}", program, (x, y), 1, lambda x: (torch.softmax(x.float(), dim=1),), others, 2e-3,
        moved(x, y),
    )  # fmt: skip


def rms_norm_row(n: int) -> Row:
    """RMSNorm in fp16."""
    x, w = values((ROWS, n), torch.float16), values((n,), torch.float16)
    y = torch.empty_like(x)

    def norm(x: Tensor, w: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x, (n,), w, 1e-6)

    others = row_peers(norm, (x, w), peers.rms_norm, y)
    program = kernels.rms_norm(ROWS, n, "float16")
    return Row(
        f"RMSNorm fp16 {ROWS}×{n}", program, (x, w, y), 1, lambda x, w: (norm(x.float(), w.float()),), others,
        bytes=moved(x, w, y),
    )  # fmt: skip


def layer_norm_row(n: int) -> Row:
    """LayerNorm in fp16."""
    x, w, b = values((ROWS, n), torch.float16), values((n,), torch.float16), values((n,), torch.float16)
    y = torch.empty_like(x)

    def norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x, (n,), w, b, 1e-5)

    others = row_peers(norm, (x, w, b), peers.layer_norm, y)
    program = kernels.layer_norm(ROWS, n, "float16")
    return Row(
        f"LayerNorm fp16 {ROWS}×{n}", program, (x, w, b, y), 1,
        lambda x, w, b: (norm(x.float(), w.float(), b.float()),), others, bytes=moved(x, w, b, y),
    )  # fmt: skip


def cast_row(n: int) -> Row:
    """Rows of bf16 as fp8 with a scale each."""
    x = values((ROWS, n), torch.bfloat16)
    s, y = torch.empty(ROWS, device="cuda"), torch.empty((ROWS, n), device="cuda", dtype=torch.float8_e4m3fn)

    def quantize(x: Tensor) -> tuple[Tensor, Tensor]:
        largest = x.abs().amax(dim=1).float().clamp(min=1e-4)
        return largest / 448, (x.float() * (448 / largest)[:, None]).to(torch.float8_e4m3fn)

    inductor = compiled(quantize)
    others = {
        "torch": lambda: quantize(x),
        "inductor": lambda: inductor(x),
        "triton": lambda: peers.cast_per_token(x, fresh(s), fresh(y)),
    }
    program = kernels.cast_per_token(ROWS, n, "bfloat16")
    # One unit of float8_e4m3fn is 1/8 of a value.
    return Row(f"cast per token {ROWS}×{n}", program, (x, s, y), 2, quantize, others, 0.13, moved(x, s, y))


def swiglu_row() -> Row:
    """SwiGLU in fp16."""
    n = ROWS * 4096
    g, u = values((n,), torch.float16), values((n,), torch.float16)
    y = torch.empty_like(g)

    def swiglu(g: Tensor, u: Tensor) -> Tensor:
        return torch.nn.functional.silu(g) * u

    others = row_peers(swiglu, (g, u), peers.swiglu, y)
    program = kernels.swiglu(n, "float16")
    return Row(
        f"SwiGLU fp16 {ROWS}×4096", program, (g, u, y), 1, lambda g, u: (swiglu(g.float(), u.float()),), others,
        bytes=moved(g, u, y),
    )  # fmt: skip


def transpose_row() -> Row:
    """A batch of matrices transposed, fp16."""
    b, m, n = 8, 2048, 2048
    x, y = values((b, m, n), torch.float16), torch.empty((b, n, m), device="cuda", dtype=torch.float16)
    others = row_peers(lambda x: x.transpose(1, 2).contiguous(), (x,), peers.transpose, y)
    program = kernels.transpose(b, m, n, "float16")
    return Row(
        f"transpose fp16 {b}×{m}×{n}", program, (x, y), 1, lambda x: (x.transpose(1, 2),), others, 0.0, moved(x, y)
    )


def cumsum_row(n: int) -> Row:
    """Running sums in float32."""
    x = values((ROWS, n), torch.float32)
    y = torch.empty_like(x)
    others = row_peers(lambda x: torch.cumsum(x, dim=1), (x,), peers.cumsum, y)
    program = kernels.cumsum(ROWS, n, "float32")
    return Row(
        f"cumsum fp32 {ROWS}×{n}", program, (x, y), 1, lambda x: (x.double().cumsum(1),), others, 1e-3, moved(x, y)
    )


def topk_row(n: int, k: int = 8) -> Row:
    """The k largest of rows. Which of equal values is found is left open, so places are not compared."""
    x = values((ROWS, n), torch.float16)
    v = torch.empty((ROWS, k), device="cuda", dtype=torch.float16)
    places = torch.empty((ROWS, k), device="cuda", dtype=torch.int32)

    def largest(x: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.topk(x, k, dim=1)
        return found.values, found.indices

    inductor = compiled(largest)
    others = {"torch": lambda: largest(x), "inductor": lambda: inductor(x)}
    return Row(
        f"top-{k} fp16 {ROWS}×{n}", kernels.topk(ROWS, n, k, "float16"), (x, v, places), 2, largest, others, 0.0,
        moved(x, v, places), frozenset({1}),
    )  # fmt: skip


def row_table() -> Iterator[Callable[[], Row]]:
    """Workloads over rows."""
    for n in (4096, 8192, 4093):
        yield lambda n=n: softmax_row(n)
        yield lambda n=n: rms_norm_row(n)
    for make in (layer_norm_row, cast_row, cumsum_row, topk_row):
        yield lambda make=make: make(4096)
    yield swiglu_row
    yield transpose_row


# -- measuring -----------------------------------------------------------------------------------------------------


def time_of(call: Callable[[], Any]) -> float:
    """Median milliseconds, L2 flushed before every launch."""
    return float(do_bench(call, warmup=15, rep=60, return_mode="median"))


@functools.cache
def copy_time(size: int) -> float:
    """Milliseconds in which torch's copy reads and writes `size` bytes in all."""
    x = torch.empty(size // 2, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    return time_of(lambda: y.copy_(x))


def check(row: Row) -> Callable[[], Any]:
    """A call of the compiled kernel, whose results agree with the reference."""
    kernel = tl.compile(row.program, target="cuda")
    inputs, outputs = row.arguments[: -row.outputs], row.arguments[-row.outputs :]
    for output in outputs:
        output.view(torch.uint8).fill_(0xFF)
    kernel(*row.arguments)
    for position, (output, expected) in enumerate(zip(outputs, row.reference(*inputs), strict=True)):
        if position not in row.unchecked:
            torch.testing.assert_close(
                output.float(), expected.float(), rtol=row.tolerance, atol=row.tolerance, equal_nan=True
            )
    return lambda: kernel(*inputs, *map(fresh, outputs))


def summary(error: Exception) -> str:
    """The kind and first line of an error."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def measure(row: Row, wanted: frozenset[str], others: Mapping[str, float]) -> dict[str, Any]:
    """Check the result, then time ours and the peers in `wanted` (all, where it is empty) in turns.

    `others` are peers that were timed elsewhere.
    """
    floor = copy_time(row.bytes)
    torch.cuda.empty_cache()
    calls = {"ours": check(row)}
    calls |= {name: call for name, call in row.peers.items() if not wanted or name in wanted}
    times: dict[str, float] = {}
    failed: dict[str, str] = {}
    for turn in range(3):
        for name in [name for name in calls if name not in failed]:
            try:
                if turn:
                    times[name] = min(times.get(name, float("inf")), time_of(calls[name]))
                else:
                    calls[name]()
            except Exception as error:  # noqa: BLE001 - a peer that cannot run here is named
                failed[name] = summary(error)
    ours = times.pop("ours")
    times |= others
    return {
        "name": row.name,
        "ours_ms": ours,
        "peers_ms": times,
        "peers_failed": failed,
        "floor_ms": floor,
        "ratio": min(times.values()) / ours if times else None,
        "gb_per_s": row.bytes / ours / 1e6,
    }


def line_of(result: dict[str, Any]) -> str:
    """One line of the table."""
    others = "  ".join(f"{name} {time:.4f}" for name, time in result["peers_ms"].items())
    failed = "".join(f"  [{name}: {reason}]" for name, reason in result["peers_failed"].items())
    ratio = "-" if result["ratio"] is None else f"{result['ratio']:.3f}"
    return (
        f"{result['name']:34s} ours {result['ours_ms']:.4f} ms  {result['gb_per_s']:5.0f} GB/s  {others}  "
        f"floor {result['floor_ms']:.4f}  ratio {ratio}{failed}"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--only", default="", help="run the rows in whose name this pattern is found")
    parser.add_argument("--peers", default="", help="time these peers only, with commas between them")
    parser.add_argument("--tilelang", type=Path, help="a folder with TileLang, to be measured too")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    wanted = frozenset(filter(None, options.peers.split(",")))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}")
    elsewhere = tilelang(options.tilelang, f"fp16 {ROWS}×", rounds=2)
    for make in (*add_table(), *row_table()):
        row = make()
        if not re.search(options.only, row.name):
            continue
        try:
            others = {"tilelang": elsewhere[row.name]} if row.name in elsewhere else {}
            results.append(measure(row, wanted, others))
        except Exception as error:  # noqa: BLE001 - the other rows are measured all the same
            print(f"{row.name:34s} failed: {type(error).__name__}: {error}", flush=True)
            continue
        print(line_of(results[-1]), flush=True)
    if options.json is not None:
        found = {"device": torch.cuda.get_device_name(), "rows": results}
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
