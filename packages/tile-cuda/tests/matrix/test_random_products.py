"""Random products against float64: dtypes, orders, ragged sizes, tiles, stages, policies, walked or not.

A handful runs emulated with checks; two hundred on a GPU where there is one. The seed in a test's name is the program.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_cuda.target import detect, device_architecture

EMULATED, NATIVE = range(8), range(200)
SM_90 = {"kind": "cuda", "arch": "sm_90"}
SHARED_BYTES = 200_000
ROWWISE = ("float8_e4m3fn", "float8_e5m2", "int8")
"""Operands of eight bits are summed along their rows."""
POISON = -7


@dataclass(frozen=True)
class Program:
    """One product C = op(A) op(B)."""

    size: tuple[int, int, int]
    block: tuple[int, int, int]
    dtype: str
    out: str
    transpose_a: bool
    transpose_b: bool
    stages: int
    threads: int
    policy: str
    panel: int
    walked_by: int

    @property
    def total(self) -> str:
        """The dtype of the sums."""
        return "int32" if self.dtype == "int8" else "float32"


def drawn(seed: int, largest: int) -> Program:
    """The program of a seed, with sizes up to `largest`."""
    draw = random.Random(seed)
    dtype = draw.choice(["float16", "float16", "bfloat16", *ROWWISE])
    itemsize = 1 if dtype in ROWWISE else 2
    while True:
        block = draw.choice([64, 128, 256]), draw.choice([32, 64, 96, 128, 192, 256]), draw.choice([32, 64, 128])
        threads = draw.choice([128, 256])
        stages = draw.choice([0, 1, 2, 3, 4])
        held = block[0] * block[1] // threads
        used = (block[0] + block[1]) * block[2] * itemsize * max(1, stages)
        if held <= 128 and used <= SHARED_BYTES:
            break
    step = draw.choice([1, 8, 16])
    size = draw.randint(1, largest // step) * step, draw.randint(1, largest // step) * step, draw.randint(0, 40) * step
    rowwise = dtype in ROWWISE
    return Program(
        size=size,
        block=block,
        dtype=dtype,
        out="int32" if dtype == "int8" else draw.choice(["float32", "bfloat16", "float16"]),
        transpose_a=not rowwise and draw.random() < 0.5,
        transpose_b=rowwise or draw.random() < 0.5,
        stages=stages,
        threads=threads,
        policy=draw.choice(["Square", "FullRow", "FullCol"]),
        panel=draw.choice([0, 1, 3, 8]),
        walked_by=draw.choice([0, 2, 4, 8, 64]),
    )


def kernel_of(program: Program) -> Any:
    (m, n, k), (bm, bn, bk) = program.size, program.block
    ta, tb, dtype = program.transpose_a, program.transpose_b, program.dtype
    policy = getattr(T.GemmWarpPolicy, program.policy)

    @T.prim_func
    def product(
        A: T.Tensor((k, m) if ta else (m, k), dtype),
        B: T.Tensor((n, k) if tb else (k, n), dtype),
        C: T.Tensor((m, n), program.out),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=program.threads) as (bx, by):
            a = T.alloc_shared((bk, bm) if ta else (bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if tb else (bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), program.total)
            if program.panel:
                T.use_swizzle(program.panel)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=program.stages):
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


def check(program: Program, execution: str, device: str) -> None:
    """Compile, run and compare with float64; integers exactly."""
    m, n, k = program.size
    torch.manual_seed(m * n + k)
    a, b = (_values(shape, program.dtype).to(device) for shape in ((m, k), (k, n)))
    left, right = (a.T if program.transpose_a else a), (b.T if program.transpose_b else b)
    c = torch.full((m, n), POISON if program.total == "int32" else float("nan"), dtype=getattr(torch, program.out))
    c = c.to(device)
    configs: dict[str, Any] = {"tile.persistent": program.walked_by}
    if execution == "emulate":
        configs["tile.emulate_check"] = True
    kernel = tl.compile(kernel_of(program), target=SM_90, execution=execution, pass_configs=configs)
    kernel(left.contiguous(), right.contiguous(), c)
    expected = a.double() @ b.double()
    if program.total == "int32":
        assert torch.equal(c.double(), expected)
        return
    digits = {"float32": 2e-5, "float16": 1e-3, "bfloat16": 8e-3}[program.out]
    size = float(a.double().abs().amax() * b.double().abs().amax()) if k else 1.0
    # Products of float8 are summed with about 13 bits, PTX leaves the exact number open.
    summed = 2e-3 if program.dtype.startswith("float8") else 1e-5
    torch.testing.assert_close(c.double(), expected, rtol=digits, atol=summed * size * max(1, k) ** 0.5 + 1e-6)


def _values(shape: tuple[int, int], dtype: str) -> torch.Tensor:
    if dtype == "int8":
        return torch.randint(-100, 100, shape, dtype=torch.int8)
    return torch.randn(shape).to(getattr(torch, dtype))


@pytest.mark.emulate
@pytest.mark.parametrize("seed", EMULATED)
def test_emulated(seed: int) -> None:
    check(drawn(seed, 200), "emulate", "cpu")


@pytest.mark.device
@pytest.mark.parametrize("seed", NATIVE, ids=lambda seed: f"part{seed % 8}-{seed}")
def test_on_the_device(seed: int) -> None:
    if not detect().available or device_architecture()[0] != "sm_90":
        pytest.skip("it needs a GPU of sm_90")
    check(drawn(seed + 1000, 1500), "native", "cuda")
