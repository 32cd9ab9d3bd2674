"""Matrix products and attention beside the vendor's libraries on one NVIDIA GPU, in one run.

    python benchmarks/tensor_cores.py [--json FILE] [--only TEXT] [--burst] [--rounds N] [--tilelang FOLDER]

On random data these kernels run at the board's power limit, so the clock is a variable. *Sustained* (the default): in
every round, in random order, each contender warms up for 200 ms and is timed for 100 ms, L2 flushed before each launch.
`--burst`: a few launches after a pause. Figures are medians over all rounds; ratios are best peer time / our time.
`--tilelang`: where TileLang and its TVM are installed (`pip install --target`); a process of its own measures it first.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import tile_core as tl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from attention import attention, reference
from attention_backward import attention_backward
from attention_decode import decode
from attention_decode import reference as decode_reference
from dequant_gemm import dequant_gemm, unpacked
from gemm import gemm
from gpu_timing import Timer, tilelang

WIDE = {"block": (128, 256, 64), "threads": 256, "num_stages": 4, "panel": 16}
TALL = {"block": (256, 128, 64), "threads": 256, "num_stages": 4}


@dataclass
class Contest:
    """One workload: our call and the peers', its operations or bytes, and the largest relative error of our result."""

    name: str
    work: float
    calls: dict[str, Callable[[], Any]]
    check: Callable[[], float]
    compile_s: float
    unit: str = "TFLOP/s"


def _compiled(program: Any, **options: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    kernel = tl.compile(program, target="cuda", **options)
    return kernel, time.perf_counter() - start


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm())


def _gemm(
    name: str, m: int, n: int, k: int, dtype: torch.dtype, *, transpose_b: bool = False, **options: Any
) -> Contest:
    text = str(dtype).removeprefix("torch.")
    kernel, seconds = _compiled(gemm(m, n, k, text, transpose_b=transpose_b, **options))
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    b = torch.randn((n, k) if transpose_b else (k, n), device="cuda", dtype=dtype)
    c, peer = (torch.full((m, n), float("nan"), device="cuda", dtype=dtype) for _ in range(2))
    right = b.T if transpose_b else b
    torch.matmul(a, right, out=peer)

    def check() -> float:
        kernel(a, b, c)
        return _error(c, peer)

    calls = {"ours": lambda: kernel(a, b, c), "cuBLAS": lambda: torch.matmul(a, right, out=peer)}
    return Contest(name, 2.0 * m * n * k, calls, check, seconds)


def _gemm_fp8(size: int, **options: Any) -> Contest:
    program = gemm(size, size, size, "float8_e4m3fn", "bfloat16", transpose_b=True, **options)
    kernel, seconds = _compiled(program)
    a, b = (torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    c = torch.full((size, size), float("nan"), device="cuda", dtype=torch.bfloat16)
    one = torch.ones((), device="cuda")

    def scaled(fast: bool) -> torch.Tensor:
        return torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)

    def check() -> float:
        kernel(a, b, c)
        return _error(c, scaled(False))

    calls = {"ours": lambda: kernel(a, b, c), "cuBLASLt": lambda: scaled(False), "cuBLASLt fast": lambda: scaled(True)}
    return Contest(f"GEMM e4m3→bf16 {size}³", 2.0 * size**3, calls, check, seconds)


def _dequant(m: int, n: int, k: int, group: int = 128, **options: Any) -> Contest:
    """Weights of four bits; the peer reads them as halves, four times the bytes."""
    kernel, seconds = _compiled(dequant_gemm(m, n, k, group=group, **options))
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
    scale = (torch.rand(k // group, n, device="cuda") + 0.5).half()
    whole = unpacked(b, scale, group)
    half, out = whole.half(), torch.empty(m, n, device="cuda", dtype=torch.float16)
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)

    def check() -> float:
        kernel(a, b, scale, c)
        return _error(c, a.float() @ whole.T)

    calls = {"ours": lambda: kernel(a, b, scale, c), "cuBLAS fp16": lambda: torch.matmul(a, half.T, out=out)}
    return Contest(f"w4a16 GEMM {m}×{n}×{k}", 2.0 * m * n * k, calls, check, seconds)


def _attention(causal: bool, batch: int = 8, heads: int = 32, sequence: int = 4096, dim: int = 128) -> Contest:
    program = attention(batch, heads, sequence, dim, causal=causal)
    kernel, seconds = _compiled(program, compile_flags=["--use_fast_math"])
    shape = (batch, sequence, heads, dim)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
    out, lse = torch.full_like(q, float("nan")), torch.empty(batch, heads, sequence, device="cuda")
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]

    def cudnn() -> torch.Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=causal)

    def check() -> float:
        kernel(q, k, v, out, lse)
        return _error(out[:1], reference(q[:1], k[:1], v[:1], causal=causal))

    flops = 4.0 * batch * heads * sequence * sequence * dim / (2 if causal else 1)
    kind = "causal" if causal else "full"
    return Contest(
        f"attention B{batch} H{heads} S{sequence} D{dim} {kind}",
        flops,
        {"ours": lambda: kernel(q, k, v, out, lse), "cuDNN": cudnn},
        check,
        seconds,
    )


def _backward(causal: bool, batch: int = 8, heads: int = 32, sequence: int = 4096, dim: int = 128) -> Contest:
    shape = (batch, sequence, heads, dim)
    kernel, seconds = _compiled(attention_backward(*_bhsd(shape), causal=causal), compile_flags=["--use_fast_math"])
    q, k, v, d_out = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(4))
    out, *found = (torch.full_like(q, float("nan")) for _ in range(4))
    lse = torch.empty(batch, heads, sequence, device="cuda")
    _compiled(attention(*_bhsd(shape), causal=causal), compile_flags=["--use_fast_math"])[0](q, k, v, out, lse)
    heads_first = [x.transpose(1, 2).requires_grad_() for x in (q, k, v)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        peer = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=causal)

    def cudnn() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(peer, heads_first, d_out.transpose(1, 2), retain_graph=True)

    def check() -> float:
        kernel(q, k, v, out, d_out, lse, *found)
        return max(_error(one, right.transpose(1, 2)) for one, right in zip(found, cudnn(), strict=True))

    flops = 10.0 * batch * heads * sequence * sequence * dim / (2 if causal else 1)
    name = f"backward B{batch} H{heads} S{sequence} D{dim} {'causal' if causal else 'full'}"
    calls = {"ours": lambda: kernel(q, k, v, out, d_out, lse, *found), "cuDNN": cudnn}
    return Contest(name, flops, calls, check, seconds)


def _bhsd(shape: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    batch, sequence, heads, dim = shape
    return batch, heads, sequence, dim


def _decode(batch: int = 16, heads: int = 32, kv_heads: int = 8, context: int = 8192, dim: int = 128) -> Contest:
    """Beside a copy that moves as many bytes, half of them each way, as decode reads keys and values."""
    program = decode(batch, heads, kv_heads, context, dim, splits=1)
    kernel, seconds = _compiled(program, compile_flags=["--use_fast_math"])
    q = torch.randn(batch, heads, dim, device="cuda", dtype=torch.float16)
    k, v = (torch.randn(batch, context, kv_heads, dim, device="cuda", dtype=torch.float16) for _ in range(2))
    out = torch.full_like(q, float("nan"))
    source, target = (torch.zeros(k.nbytes, device="cuda", dtype=torch.int8) for _ in range(2))
    heads_first = [q[:, :, None], k.transpose(1, 2), v.transpose(1, 2)]

    def check() -> float:
        kernel(q, k, v, out)
        return _error(out, decode_reference(q, k, v))

    def cudnn() -> torch.Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(*heads_first, enable_gqa=True)

    calls = {"ours": lambda: kernel(q, k, v, out), "cuDNN": cudnn, "copy": lambda: target.copy_(source)}
    name = f"decode B{batch} H{heads}/{kv_heads} C{context} D{dim}"
    return Contest(name, 2.0 * k.nbytes, calls, check, seconds, unit="TB/s")


def contests() -> Iterator[tuple[str, Callable[[], Contest]]]:
    """Every workload by name."""
    half, brain = torch.float16, torch.bfloat16
    for size in (4096, 8192):
        name = f"GEMM fp16 {size}³ K×N"
        yield name, lambda name=name, size=size: _gemm(name, size, size, size, half, **WIDE)
        name = f"GEMM fp16 {size}³ N×K"
        yield name, lambda name=name, size=size: _gemm(name, size, size, size, half, transpose_b=True, **WIDE)
    yield (
        "GEMM bf16 4000×4104×4056",
        lambda: _gemm("GEMM bf16 4000×4104×4056", 4000, 4104, 4056, brain, **TALL),
    )
    yield "GEMM e4m3→bf16 8192³", lambda: _gemm_fp8(8192, **{**WIDE, "block": (128, 256, 128)})
    yield (
        "GEMM fp16 16×8192×8192",
        lambda: _gemm("GEMM fp16 16×8192×8192", 16, 8192, 8192, half, block=(16, 64, 128), num_stages=4),
    )
    yield "w4a16 GEMM 16×8192×8192", lambda: _dequant(16, 8192, 8192, block=(16, 64, 512), num_stages=3)
    yield "attention full", lambda: _attention(causal=False)
    yield "attention causal", lambda: _attention(causal=True)
    yield "attention backward full", lambda: _backward(causal=False)
    yield "attention backward causal", lambda: _backward(causal=True)
    yield "attention decode", _decode


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--only", default="", help="run the workloads whose name contains this text")
    parser.add_argument("--burst", action="store_true", help="a few launches after a pause instead of a sustained run")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each in another order (default 3)")
    parser.add_argument("--tilelang", type=Path, help="a folder with TileLang, to be measured too")
    parser.add_argument("--tilelang-forms", default="", help="only its forms whose name contains this text")
    options = parser.parse_args()
    peers = tilelang(options.tilelang, options.only, options.rounds, forms=options.tilelang_forms, burst=options.burst)
    timer, results = Timer(), []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {'burst' if options.burst else 'sustained'}")
    for name, make in contests():
        if options.only not in name:
            continue
        try:
            contest = make()
            error = contest.check()
        except Exception as problem:  # noqa: BLE001 - one workload that fails must not hide the others
            print(f"{name:40s} failed: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
            results.append({"name": name, "failed": str(problem)[:2000]})
            continue
        times = timer.rounds(contest.calls, options.rounds, burst=options.burst)
        times |= {"TileLang": peers[name]} if name in peers else {}
        ratio = min(value for key, value in times.items() if key != "ours") / times["ours"]
        rates = "  ".join(f"{key} {contest.work / value / 1e9:.4g}" for key, value in times.items())
        print(
            f"{name:32s} {contest.unit}: {rates}  ratio {ratio:.3f}  error {error:.1e}",
            f"compile {contest.compile_s:.2f} s",
            flush=True,
        )
        results.append({"name": name, "ms": times, "ratio": ratio, "error": error, "compile_s": contest.compile_s})
        del contest
        torch.cuda.empty_cache()
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
