"""Products whose operands are fragments, and chains of them, whose results stay in registers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.testing.scripts import load_script

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "attention.py"
CHECKED = {"tile.emulate_check": True}
M, N, K = 64, 64, 64


def emulated(func: Any, arch: str) -> Any:
    return tl.compile(func, target={"kind": "rocm", "arch": arch}, execution="emulate", pass_configs=CHECKED)


def operands(a_held: bool, b_held: bool, b_trans: bool, threads: int) -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K) if b_trans else (K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
        keep: T.int32,
    ):
        with T.Kernel(1, threads=threads) as _:
            a = T.alloc_fragment((M, K), "float16") if a_held else T.alloc_shared((M, K), "float16")
            of_b = (N, K) if b_trans else (K, N)
            b = T.alloc_fragment(of_b, "float16") if b_held else T.alloc_shared(of_b, "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, c, transpose_B=b_trans, clear_accum=keep == 0)
            T.copy(c, C)

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("arch", "threads", "a_held", "b_held", "b_trans"),
    [
        ("gfx942", 256, True, False, False),
        ("gfx942", 128, False, True, True),
        ("gfx942", 256, True, True, False),
        ("gfx950", 256, True, False, True),
        ("gfx1100", 128, True, False, True),
        ("gfx1100", 64, False, True, False),
        ("gfx1201", 128, True, False, False),
        ("gfx1201", 64, True, True, True),
    ],
)
def test_operands_in_registers(arch: str, threads: int, a_held: bool, b_held: bool, b_trans: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((M, K), (N, K) if b_trans else (K, N)))
    kernel = emulated(operands(a_held, b_held, b_trans, threads), arch)
    assert "scalar" not in kernel.artifact.report["products"][0]
    assert not kernel.artifact.report["fragments_in_shared"]
    right = (b.T if b_trans else b).astype(np.float32)
    for keep in (0, 1):
        c = np.full((M, N), np.nan if keep == 0 else 2.0, np.float32)
        kernel(a, b, c, keep)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ right + 2.0 * keep)


@pytest.mark.emulate
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_numbers_that_are_not_finite_stay_in_their_rows_and_columns(arch: str) -> None:
    a, b = np.ones((M, K), np.float16), np.ones((K, N), np.float16)
    a[5, 7], b[9, 11] = np.nan, np.inf
    c = np.zeros((M, N), np.float32)
    emulated(operands(False, False, False, 128), arch)(a, b, c, 1)
    expected = np.full((M, N), float(K), np.float32)
    expected[:, 11], expected[5] = np.inf, np.nan
    np.testing.assert_array_equal(c, expected)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_script(EXAMPLE)


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("gfx942", {"causal": True, "block": (64, 64), "threads": 256}),
        ("gfx90a", {"block": (128, 64), "threads": 256, "dtype": "bfloat16"}),
        ("gfx950", {"block": (64, 64), "threads": 128}),
        ("gfx1201", {"causal": True, "block": (64, 64), "threads": 128}),
        ("gfx1100", {"causal": True, "block": (64, 64), "threads": 128}),
    ],
    ids=str,
)
def test_attention(example: ModuleType, arch: str, options: dict[str, Any]) -> None:
    dtype = getattr(torch, options.get("dtype", "float16"))
    batch, heads, sequence, dim = 1, 1, 150, 64
    torch.manual_seed(1)
    q, k, v = (torch.randn(batch, sequence, heads, dim).to(dtype) for _ in range(3))
    out, lse = torch.full_like(q, float("nan")), torch.full((batch, heads, sequence), float("nan"))
    kernel = emulated(example.attention(batch, heads, sequence, dim, **options), arch)
    kernel(q, k, v, out, lse)
    # On RDNA 3 operands are held otherwise than results: one between two products goes through shared memory.
    assert len(kernel.artifact.report["fragments_in_shared"]) == (arch == "gfx1100")
    assert all("scalar" not in product for product in kernel.artifact.report["products"])
    tolerance = 1e-2 if dtype == torch.bfloat16 else 2e-3
    expected = example.reference(q, k, v, causal=options.get("causal", False))
    torch.testing.assert_close(out.float(), expected, rtol=tolerance, atol=tolerance)
