"""`T.gemm_sp` by sparse instructions, by loops where there are none, and in the interpreter, against dense products."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.emulator import EmulatedInstructionError
from tile_core.errors.ops import GemmDTypeError, GemmShapeError
from tile_core.testing.scripts import load_script
from tile_cuda.target import device_architecture

CHUNKS = {"uint8": 2, "uint16": 4, "uint32": 8}
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "sparse_gemm.py"


@dataclass(frozen=True)
class Case:
    """One product; `uses` is what the report says of it."""

    size: tuple[int, int, int]
    block: tuple[int, int, int]
    dtype: str = "float16"
    total: str = "float32"
    places: str = "uint16"
    transpose_b: bool = False
    transpose_e: bool = False
    stages: int = 0
    arch: str = "sm_80"
    threads: int = 64
    uses: str = "mma m16n8k32_f32_f16_f16_sp"


CASES = [
    Case((32, 40, 64), (32, 40, 64)),
    Case((35, 41, 208), (32, 40, 64), transpose_b=True, stages=3),
    Case((17, 24, 32), (32, 24, 32), "bfloat16", places="uint8", transpose_e=True, uses="mma m16n8k32_f32_bf16"),
    Case((33, 8, 48), (32, 16, 16), total="float16", uses="mma m16n8k16_f32_f16_f16_sp", arch="sm_90", stages=2),
    Case((35, 40, 320), (32, 40, 64), "int8", "int32", "uint32", True, uses="mma m16n8k64_s32_s8_s8_sp"),
    Case((32, 40, 32), (32, 40, 32), "uint8", "int32", "uint8", uses="mma m16n8k32_s32_u8_u8_sp"),
    Case((20, 40, 128), (32, 40, 64), "float8_e4m3fn", arch="sm_89", stages=2, uses="mma m16n8k64_f32_e4m3_e4m3_sp"),
    Case((20, 40, 0), (32, 40, 64)),
    Case((70, 41, 208), (64, 64, 64), stages=3, arch="sm_90", threads=128, uses="wgmma m64n64k32_f32_f16_f16_sp"),
    Case(
        (130, 72, 192),
        (128, 64, 64),
        "bfloat16",
        places="uint8",
        transpose_b=True,
        transpose_e=True,
        stages=2,
        arch="sm_90",
        threads=256,
        uses="wgmma m64n64k32_f32_bf16_bf16_sp",
    ),
    Case(
        (70, 40, 320),
        (128, 32, 128),
        "int8",
        "int32",
        "uint32",
        True,
        stages=2,
        arch="sm_90",
        threads=128,
        uses="wgmma m64n32k64_s32_s8_s8_sp",
    ),
    Case(
        (64, 40, 256),
        (64, 40, 128),
        "float8_e4m3fn",
        transpose_b=True,
        arch="sm_90",
        threads=128,
        uses="wgmma m64n40k64_f32_e4m3_e4m3_sp",
    ),
    Case((64, 40, 256), (64, 40, 128), "float8_e5m2", arch="sm_90", threads=128, uses="mma m16n8k64_f32_e5m2"),
    Case((35, 40, 128), (32, 40, 64), arch="sm_75", uses="scalar code (sm_75 has no mma with a sparse A"),
    Case((30, 20, 64), (30, 20, 64), places="uint32", uses="scalar code (the tile 30 × 20 × 64"),
    Case((32, 40, 64), (32, 40, 64), places="uint32", uses="scalar code (E of 16-bit operands"),
]


def program(case: Case) -> Any:
    (m, n, k), (bm, bn, bk), tb, te = case.size, case.block, case.transpose_b, case.transpose_e
    words, held = k // 4 // CHUNKS[case.places], bk // 4 // CHUNKS[case.places]

    @T.prim_func
    def kernel(
        A: T.Tensor((m, k // 2), case.dtype),
        E: T.Tensor((words, m) if te else (m, words), case.places),
        B: T.Tensor((n, k) if tb else (k, n), case.dtype),
        C: T.Tensor((m, n), case.total),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=case.threads) as (bx, by):
            a = T.alloc_shared((bm, bk // 2), case.dtype)
            e = T.alloc_shared((held, bm) if te else (bm, held), case.places)
            b = T.alloc_shared((bn, bk) if tb else (bk, bn), case.dtype)
            c = T.alloc_fragment((bm, bn), case.total)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=case.stages):
                T.copy(A[by * bm, step * (bk // 2)], a)
                if te:
                    T.copy(E[step * held, by * bm], e)
                else:
                    T.copy(E[by * bm, step * held], e)
                if tb:
                    T.copy(B[bx * bn, step * bk], b)
                else:
                    T.copy(B[step * bk, bx * bn], b)
                T.gemm_sp(a, e, b, c, transpose_B=tb, transpose_E=te)
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def values(shape: tuple[int, int], name: str) -> torch.Tensor:
    dtype = getattr(torch, name)
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 50, shape).to(dtype)


def operands(case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The stored half of A, places, B, and all of A in float64."""
    m, n, k = case.size
    torch.manual_seed(2)
    places = np.sort(np.argsort(np.random.default_rng(0).random((m, k // 4, 4)), -1)[..., :2], -1)
    bits, per = places[..., 0] | places[..., 1] << 2, CHUNKS[case.places]
    words = (bits.reshape(m, k // 4 // per, per).astype(np.uint64) << np.arange(0, 4 * per, 4, dtype=np.uint64)).sum(-1)
    held, b = values((m, k // 2), case.dtype), values((k, n), case.dtype)
    full = torch.zeros(m, k // 4, 4, dtype=torch.float64)
    full.scatter_(2, torch.from_numpy(places), held.double().reshape(m, k // 4, 2))
    return held, torch.from_numpy(words.astype(case.places)), b, full.reshape(m, k)


def check(case: Case, device: str, **how: Any) -> Any:
    a, e, b, full = operands(case)
    c = torch.full((case.size[0], case.size[1]), 77).to(getattr(torch, case.total)).to(device)
    kernel = tl.compile(program(case), **how)
    e, right = (e.T.contiguous() if case.transpose_e else e), (b.T.contiguous() if case.transpose_b else b)
    kernel(a.to(device), e.to(device), right.to(device), c)
    expected = full @ b.double()
    tolerance = 2e-3 if case.total == "float16" or case.dtype.startswith("float8") else 1e-5
    scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(c.cpu().double() / scale, expected / scale, rtol=0, atol=tolerance)
    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize("case", CASES, ids=str)
def test_emulated(case: Case) -> None:
    target = {"kind": "cuda", "arch": case.arch}
    kernel = check(case, "cpu", target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
    assert case.uses in kernel.report()["products"][0]


@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_interpreted(case: Case) -> None:
    check(case, "cpu", target="interpret")


@pytest.mark.device
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_the_device(case: Case) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check(case, "cuda", target="cuda")


@pytest.mark.emulate
def test_places_that_are_not_in_order_are_found() -> None:
    case = CASES[0]
    a, e, b, _full = operands(case)
    kernel = tl.compile(program(case), target={"kind": "cuda", "arch": "sm_80"}, execution="emulate")
    e[3, 1] = 0b0001_0100_0100_0100
    with pytest.raises(EmulatedInstructionError, match="no two different places in order"):
        kernel(a, e, b, torch.zeros(32, 40))


@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        (Case((32, 40, 64), (32, 40, 64), "float32"), GemmDTypeError, "no product of float32"),
        (Case((32, 40, 72), (32, 40, 72)), GemmShapeError, "E names 16 chunks of 32 rows, B is 72 × 40"),
    ],
)
def test_operands_that_do_not_go_together(case: Case, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        program(case)


@pytest.mark.emulate
def test_the_example() -> None:
    example = load_script(EXAMPLE)
    m, n, k = 70, 48, 160
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    kept, places, full = example.compress(a)
    c = torch.full((m, n), float("nan")).half()
    target = {"kind": "cuda", "arch": "sm_80"}
    tl.compile(example.sparse_gemm(m, n, k, block=(64, 48, 64)), target=target, execution="emulate")(kept, places, b, c)
    torch.testing.assert_close(c.float(), full.float() @ b.float(), rtol=1e-2, atol=0.05)


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_compiles_for(arch: str) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    source = tl.compile(program(CASES[1]), target={"kind": "cuda", "arch": arch}).get_kernel_source()
    assert "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32" in source


@pytest.mark.compile
def test_products_by_warpgroups_compile() -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    case = next(case for case in CASES if case.uses.startswith("wgmma"))
    kernel = tl.compile(program(case), target={"kind": "cuda", "arch": "sm_90a"})
    assert "wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16" in kernel.get_kernel_source()
    assert (kernel.report()["kernels"][0]["spilled_bytes"], kernel.report()["kernels"][0]["remarks"]) == (0, [])
