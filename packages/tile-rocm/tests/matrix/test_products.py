"""Products by matrix cores, emulated with checks: sums of small integers are exact, whatever adds them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T
from tile_core.testing.matrices import NUMPY

SQUARE, FULL_ROW, FULL_COLUMN = T.GemmWarpPolicy.Square, T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol


@dataclass(frozen=True)
class Case:
    """A product of `size` by tiles of `tile` (M, N, K)."""

    arch: str
    dtype: str
    total: str
    tile: tuple[int, int, int]
    threads: int
    instruction: str
    a_trans: bool = False
    b_trans: bool = False
    policy: Any = SQUARE
    c_dtype: str = ""

    @property
    def size(self) -> tuple[int, int, int]:
        """Whole tiles and a ragged one, but along K, where two tiles and a half are summed."""
        m, n, k = self.tile
        return m + 5, n + 3, 2 * k + 7

    @property
    def id(self) -> str:
        """What pytest calls it."""
        m, n, k = self.tile
        letters = "nt"[self.a_trans] + "nt"[self.b_trans]
        return f"{self.arch}-{self.dtype}-{m}x{n}x{k}-{self.threads}-{letters}-{self.policy.name}"


def product(case: Case) -> Any:
    (m, n, k), (rows, columns, depth) = case.size, case.tile
    of_a, of_b = ((k, m) if case.a_trans else (m, k)), ((n, k) if case.b_trans else (k, n))
    tile_a = (depth, rows) if case.a_trans else (rows, depth)
    tile_b = (columns, depth) if case.b_trans else (depth, columns)
    out = case.c_dtype or case.total

    @T.prim_func
    def kernel(A: T.Tensor(of_a, case.dtype), B: T.Tensor(of_b, case.dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=case.threads) as (x, y):
            a = T.alloc_shared(tile_a, case.dtype)
            b = T.alloc_shared(tile_b, case.dtype)
            c = T.alloc_fragment((rows, columns), case.total)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=2):
                if case.a_trans:
                    T.copy(A[step * depth, y * rows], a)
                else:
                    T.copy(A[y * rows, step * depth], a)
                if case.b_trans:
                    T.copy(B[x * columns, step * depth], b)
                else:
                    T.copy(B[step * depth, x * columns], b)
                T.gemm(a, b, c, case.a_trans, case.b_trans, policy=case.policy)
            T.copy(c, C[y * rows, x * columns])

    return kernel


def numpy_type(dtype: str) -> np.dtype[Any]:
    return np.dtype(NUMPY[dtype])


def values(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Small numbers, of which all sums are exact."""
    low = 0 if dtype.startswith("uint") else -4
    return np.random.default_rng(seed).integers(low, 5, shape).astype(numpy_type(dtype))


def emulated(func: Any, arch: str, **configs: bool) -> Any:
    configs["tile.emulate_check"] = True
    return tl.compile(func, target={"kind": "rocm", "arch": arch}, execution="emulate", pass_configs=configs)


def check(case: Case) -> None:
    m, n, k = case.size
    a = values((k, m) if case.a_trans else (m, k), case.dtype, 1)
    b = values((n, k) if case.b_trans else (k, n), case.dtype, 2)
    kernel = emulated(product(case), case.arch, **{"tile.allow_tf32": "xf32" in case.instruction})
    assert kernel.artifact.report["products"][0].split(": ")[1].startswith(case.instruction)
    assert not kernel.artifact.report["fragments_in_shared"]
    c = np.full((m, n), 77, numpy_type(case.c_dtype or case.total))
    kernel(a, b, c)
    left, right = (a.T if case.a_trans else a), (b.T if case.b_trans else b)
    expected = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_array_equal(c.astype(np.float64), expected)


F16, BF16 = ("float16", "float32"), ("bfloat16", "float32")
CASES = (
    Case("gfx942", *F16, (64, 64, 32), 256, "mfma f32_16x16x16_f16"),
    Case("gfx942", *F16, (128, 128, 32), 256, "mfma f32_32x32x8_f16", b_trans=True),
    Case("gfx942", *F16, (32, 128, 16), 256, "mfma f32_16x16x16_f16", a_trans=True, policy=FULL_COLUMN),
    Case("gfx942", *F16, (64, 128, 48), 128, "mfma f32_16x16x16_f16", a_trans=True, b_trans=True),
    Case("gfx942", *F16, (16, 32, 32), 256, "mfma f32_16x16x16_f16", b_trans=True),
    Case("gfx942", *F16, (48, 16, 64), 192, "mfma f32_16x16x16_f16", policy=FULL_ROW),
    Case("gfx942", *BF16, (128, 64, 32), 256, "mfma f32_16x16x16_bf16", policy=FULL_ROW),
    Case("gfx942", "int8", "int32", (64, 64, 64), 256, "mfma i32_16x16x32_i8", b_trans=True),
    Case("gfx942", "int8", "int32", (64, 256, 32), 64, "mfma i32_16x16x32_i8"),
    Case("gfx942", "float32", "float32", (64, 64, 16), 256, "mfma f32_16x16x4_f32"),
    Case("gfx942", "float32", "float32", (64, 64, 32), 256, "mfma f32_16x16x8_xf32", b_trans=True),
    Case("gfx942", "float64", "float64", (32, 64, 8), 128, "mfma f64_16x16x4_f64", a_trans=True),
    Case("gfx942", "float8_e4m3fnuz", "float32", (64, 64, 64), 256, "mfma f32_16x16x32_fp8", b_trans=True),
    Case("gfx942", "float8_e5m2fnuz", "float32", (64, 64, 32), 128, "mfma f32_16x16x32_bf8"),
    Case("gfx90a", *F16, (64, 64, 32), 128, "mfma f32_16x16x16_f16", b_trans=True, c_dtype="float16"),
    Case("gfx90a", *BF16, (64, 64, 32), 128, "mfma f32_16x16x16_bf16", a_trans=True),
    Case("gfx90a", "int8", "int32", (64, 64, 32), 256, "mfma i32_16x16x16_i8", b_trans=True),
    Case("gfx950", *F16, (64, 64, 64), 256, "mfma f32_16x16x32_f16"),
    Case("gfx950", *BF16, (128, 128, 16), 256, "mfma f32_32x32x16_bf16", b_trans=True),
    Case("gfx950", "int8", "int32", (64, 64, 64), 256, "mfma i32_16x16x64_i8"),
    Case("gfx950", "float8_e4m3fn", "float32", (128, 128, 32), 256, "mfma f32_32x32x16_fp8", b_trans=True),
    Case("gfx1100", *F16, (64, 64, 32), 128, "wmma f32_16x16x16_f16"),
    Case("gfx1100", *F16, (32, 96, 16), 96, "wmma f32_16x16x16_f16", a_trans=True, b_trans=True),
    Case("gfx1100", *BF16, (64, 64, 32), 256, "wmma f32_16x16x16_bf16", b_trans=True),
    Case("gfx1100", "int8", "int32", (64, 32, 32), 128, "wmma i32_16x16x16_i8", b_trans=True),
    Case("gfx1100", "uint8", "int32", (32, 32, 32), 64, "wmma i32_16x16x16_u8"),
    Case("gfx1201", *F16, (64, 64, 32), 128, "wmma f32_16x16x16_f16"),
    Case("gfx1201", *F16, (128, 64, 48), 128, "wmma f32_16x16x16_f16", a_trans=True, b_trans=True),
    Case("gfx1201", *BF16, (32, 32, 32), 64, "wmma f32_16x16x16_bf16", b_trans=True),
    Case("gfx1201", "float8_e5m2", "float32", (64, 64, 32), 128, "wmma f32_16x16x16_bf8", b_trans=True),
    Case("gfx1201", "int8", "int32", (64, 64, 32), 128, "wmma i32_16x16x16_i8"),
)


@pytest.mark.emulate
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_exact(case: Case) -> None:
    check(case)
