"""Matrix products by instructions: shapes, orders and dtypes against float64, emulated and on a GPU where there is one.

Emulated runs check bounds, races and what asynchronous instructions may not touch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_cuda.target import device_architecture


@dataclass(frozen=True)
class Case:
    """One product: sizes, tile, operands' order, pipeline, threads, policy, and what must have computed it."""

    size: tuple[int, int, int]
    block: tuple[int, int, int]
    dtype: str = "float16"
    transpose_a: bool = False
    transpose_b: bool = False
    stages: int = 0
    threads: int = 128
    policy: str = "Square"
    arch: str = "sm_90"
    uses: str = "wgmma"
    total: str = ""
    b_dtype: str = ""
    half_sums: bool = False

    def __str__(self) -> str:
        order = "".join("NT"[flag] for flag in (self.transpose_a, self.transpose_b))
        sizes = "x".join(map(str, self.size)) + "-" + "x".join(map(str, self.block))
        dtypes = "-".join(filter(None, (self.dtype, self.b_dtype, self.total, "sums" * self.half_sums)))
        return f"{self.arch}-{dtypes}-{order}-{sizes}-s{self.stages}-t{self.threads}-{self.policy}"

    @property
    def result(self) -> str:
        """The dtype of C."""
        return self.total or ("int32" if self.dtype in ("int8", "uint8") else "float32")

    @property
    def tolerance(self) -> float:
        """Relative to the largest result: operands that are rounded, or a result that is."""
        if self.half_sums:
            return 2e-2
        # Sums of float8 in warpgroups are kept to about 14 bits.
        if self.dtype == "float32" or self.dtype.startswith("float8"):
            return 2e-3
        return {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-14}.get(self.total, 1e-5)


def program(case: Case) -> Any:
    """C = op(A) op(B) with the case's tiles."""
    (m, n, k), (bm, bn, bk) = case.size, case.block
    ta, tb, dtype, total = case.transpose_a, case.transpose_b, case.dtype, case.result
    b_dtype = case.b_dtype or dtype
    policy = getattr(T.GemmWarpPolicy, case.policy)

    @T.prim_func
    def product(
        A: T.Tensor((k, m) if ta else (m, k), dtype),
        B: T.Tensor((n, k) if tb else (k, n), b_dtype),
        C: T.Tensor((m, n), total),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=case.threads) as (bx, by):
            a = T.alloc_shared((bk, bm) if ta else (bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if tb else (bk, bn), b_dtype)
            c = T.alloc_fragment((bm, bn), total)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=case.stages):
                if ta:
                    T.copy(A[step * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, step * bk], a)
                if tb:
                    T.copy(B[bx * bn, step * bk], b)
                else:
                    T.copy(B[step * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb, policy=policy)
            T.copy(c, C[by * bm, bx * bn])

    return product


def check(case: Case, execution: str, device: str) -> None:
    """Run `case` and compare with float64 (exactly for integers)."""
    m, n, k = case.size
    torch.manual_seed(0)
    a, b = _values((m, k), case.dtype), _values((k, n), case.b_dtype or case.dtype)
    total = getattr(torch, case.result)
    c = torch.full((m, n), float("nan") if total.is_floating_point else -7, dtype=total).to(device)
    configs: dict[str, Any] = {"tile.emulate_check": True} if execution == "emulate" else {}
    configs |= {"tile.allow_tf32": True} if case.dtype == "float32" else {}
    configs |= {"tile.allow_float16_sums": True} if case.half_sums else {}
    target = {"kind": "cuda", "arch": case.arch}
    kernel = tl.compile(program(case), target=target, execution=execution, pass_configs=configs)
    left, right = (a.T if case.transpose_a else a), (b.T if case.transpose_b else b)
    kernel(left.contiguous().to(device), right.contiguous().to(device), c)
    source = kernel.get_kernel_source()
    assert not k or f"tile_{case.uses}_" in source or f"tile::{case.uses}" in source, (
        "the product was not made by instructions"
    )
    assert not k or bool(re.search(r"k\d+_f16_", kernel.report()["products"][0])) == case.half_sums
    expected = a.double() @ b.double()
    if total == torch.int32:
        assert torch.equal(c.cpu().double(), expected)
    else:
        scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
        torch.testing.assert_close(c.cpu().double() / scale, expected / scale, rtol=0, atol=case.tolerance)


def _values(shape: tuple[int, int], name: str) -> torch.Tensor:
    dtype = getattr(torch, name)
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(-100 if dtype == torch.int8 else 0, 100, shape).to(dtype)


ORDERS = [(ta, tb) for ta in (False, True) for tb in (False, True)]
WARPGROUPS = [
    Case((130, 72, 200), (128, 64, 64), transpose_b=True, stages=2, threads=256, total="float16", half_sums=True),
    Case((64, 64, 128), (64, 64, 128), "float8_e4m3fn", transpose_b=True, total="float16", half_sums=True),
    *(Case((128, 128, 128), (128, 128, 64), transpose_a=ta, transpose_b=tb, threads=256) for ta, tb in ORDERS),
    *(Case((130, 200, 72), (64, 64, 32), "bfloat16", ta, tb, stages=2) for ta, tb in ORDERS),
    *(Case((136, 136, 200), (128, 64, 64), transpose_a=ta, transpose_b=tb, stages=3) for ta, tb in ORDERS),
    Case((128, 136, 128), (64, 136, 16), stages=2, transpose_b=True),
    Case((64, 256, 192), (64, 256, 64), stages=4, threads=256),
    Case((256, 128, 64), (256, 128, 64), threads=256, policy="FullRow"),
    Case((64, 128, 64), (64, 128, 64), threads=256, policy="FullCol"),
    Case((99, 101, 77), (128, 128, 64), stages=3, threads=256),
    Case((128, 128, 0), (128, 128, 64), stages=3, threads=256),
    Case((1, 8, 8), (64, 64, 64), stages=2),
    Case((128, 144, 160), (128, 128, 128), "int8", transpose_b=True, stages=2),
    Case((100, 24, 80), (64, 24, 64), "uint8", transpose_b=True, stages=2),
    Case((100, 72, 80), (64, 72, 32), "float32", transpose_b=True, stages=2),
    Case((100, 40, 80), (64, 40, 64), "float8_e5m2", transpose_b=True, stages=2, b_dtype="float8_e4m3fn"),
]
WARPS = [
    Case((50, 72, 40), (32, 48, 16), arch="sm_80", uses="mma", stages=2, total="float16", half_sums=True),
    *(Case((64, 64, 64), (64, 64, 32), transpose_a=ta, transpose_b=tb, arch="sm_80", uses="mma") for ta, tb in ORDERS),
    *(Case((50, 72, 40), (32, 48, 16), "bfloat16", ta, tb, arch="sm_80", uses="mma", stages=2) for ta, tb in ORDERS),
    Case((16, 128, 256), (16, 64, 128), stages=3, uses="mma"),
    Case((48, 32, 64), (48, 32, 64), threads=96, uses="mma"),
    Case((64, 32, 96), (64, 32, 32), "int8", transpose_b=True, arch="sm_80", uses="mma"),
    Case((64, 64, 64), (64, 64, 64), policy="FullCol", arch="sm_89", uses="mma"),
    Case((64, 64, 64), (64, 64, 64), policy="FullRow", arch="sm_120", uses="mma"),
    Case((50, 40, 72), (32, 40, 24), arch="sm_75", uses="mma", threads=64),
    Case((50, 40, 72), (32, 40, 24), transpose_a=True, transpose_b=True, arch="sm_75", uses="mma", threads=64),
    Case((50, 40, 80), (24, 40, 48), "int8", transpose_b=True, arch="sm_75", uses="mma", threads=32),
    *(Case((37, 24, 24), (32, 24, 8), "float32", ta, tb, threads=32, arch="sm_80", uses="mma") for ta, tb in ORDERS),
    *(
        Case((19, 24, 12), (16, 24, 4), "float64", ta, tb, 2, 32, "Square", "sm_80", "mma", "float64")
        for ta, tb in ORDERS
    ),
    Case((67, 40, 33), (32, 40, 16), "float64", transpose_b=True, stages=2, total="float64", uses="mma", threads=64),
    *(Case((35, 40, 65), (32, 40, 32), "uint8", ta, tb, threads=64, uses="mma") for ta, tb in ORDERS),
    Case((64, 40, 65), (64, 40, 64), "float8_e4m3fn", uses="mma", b_dtype="float8_e5m2"),
    Case((35, 40, 65), (32, 40, 32), "float8_e5m2", transpose_b=True, threads=64, arch="sm_89", uses="mma"),
    Case((35, 40, 65), (32, 40, 32), "float8_e4m3fn", threads=64, arch="sm_120", uses="mma", total="float16"),
    Case((64, 72, 40), (64, 72, 32), total="float16", uses="mma", stages=2),
    Case((48, 24, 40), (48, 24, 16), total="bfloat16", dtype="bfloat16", arch="sm_80", uses="mma", threads=96),
    Case((31, 20, 8), (32, 24, 8), "bfloat16", arch="sm_80", uses="mma", threads=64),
    Case((33, 100, 16), (48, 104, 16), arch="sm_80", uses="mma", threads=96),
    Case((1, 1, 1), (16, 8, 16), arch="sm_80", uses="mma", threads=32),
    Case((17, 9, 0), (16, 8, 16), arch="sm_80", uses="mma", threads=32),
]


@pytest.mark.parametrize("case", [*WARPGROUPS, *WARPS], ids=str)
def test_emulated(case: Case) -> None:
    check(case, "emulate", "cpu")


@pytest.mark.device
@pytest.mark.parametrize("case", [*WARPGROUPS, *WARPS], ids=str)
def test_on_the_device(case: Case) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    if case.arch != found:
        pytest.skip(f"the case is for {case.arch}, the GPU is of {found}")
    check(case, "native", "cuda")


@pytest.mark.compile
@pytest.mark.parametrize(
    ("case", "mnemonic"),
    [
        (WARPGROUPS[0], "wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16"),
        (WARPGROUPS[1], "wgmma.mma_async.sync.aligned.m64n64k32.f16.e4m3.e4m3"),
        (WARPS[0], "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"),
        (
            Case((64, 64, 64), (64, 64, 64), "float8_e5m2", transpose_b=True, b_dtype="float8_e4m3fn"),
            "wgmma.mma_async.sync.aligned.m64n64k32.f32.e5m2.e4m3",
        ),
        (
            Case((64, 64, 64), (64, 64, 64), "float8_e4m3fn", arch="sm_89", b_dtype="float8_e5m2"),
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
        ),
    ],
    ids=str,
)
def test_less_usual_forms_compile(case: Case, mnemonic: str) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    configs = {"tile.allow_float16_sums": case.half_sums}
    kernel = tl.compile(program(case), target={"kind": "cuda", "arch": case.arch}, pass_configs=configs)
    assert mnemonic in kernel.get_kernel_source()
    assert (kernel.report()["kernels"][0]["spilled_bytes"], kernel.report()["kernels"][0]["remarks"]) == (0, [])
