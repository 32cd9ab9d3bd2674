"""Matrix instructions written by hand: results, where they lie, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_rocm.language as T
from tile_core.errors import OpArgumentError, UnsupportedOnTargetError

CHECKED = {"tile.emulate_check": True}


def emulated(func: Any, arch: str) -> Any:
    return tl.compile(func, target={"kind": "rocm", "arch": arch}, execution="emulate", pass_configs=CHECKED)


@T.prim_func
def by_mfma(A: T.Tensor((16, 32), "float16"), B: T.Tensor((16, 32), "float16"), C: T.Tensor((16, 16), "float32")):
    """A times B transposed, in two steps; B is the first operand, so that a lane has neighbours of a row."""
    with T.Kernel(1, threads=64):
        lane = T.get_thread_binding()
        a = T.alloc_local((8,), "float16")
        b = T.alloc_local((8,), "float16")
        c = T.alloc_local((4,), "float32")
        for i in T.unroll(8):
            a[i] = A[lane % 16, i // 4 * 16 + lane // 16 * 4 + i % 4]
            b[i] = B[lane % 16, i // 4 * 16 + lane // 16 * 4 + i % 4]
        for i in T.unroll(4):
            c[i] = 0.0
        for step in T.unroll(2):
            T.tvm_mfma(
                "f32_16x16x16f16", "row", "row", "float16x4", "float16x4", "float32x4",
                b.data, step, a.data, step, c.data, 0, dtype="float32x4",
            )  # fmt: skip
        for i in T.unroll(4):
            row, column = T.mfma_store_index_map(lane, i)
            C[row, column] = c[i]


def by_wmma(held: int) -> Any:
    """A times B transposed; each lane holds `held` elements of a row."""

    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            a = T.alloc_local((held,), "float16")
            b = T.alloc_local((held,), "float16")
            c = T.alloc_local((8,), "float32")
            for i in T.unroll(held):
                a[i] = A[lane % 16, lane // 16 % (16 // held) * held + i]
                b[i] = B[lane % 16, lane // 16 % (16 // held) * held + i]
            for i in T.unroll(8):
                c[i] = 1.0
            T.rdna_wmma(
                "float32x8", "f32_16x16x16_f16_w32", "row", "row", f"float16x{held}", f"float16x{held}", "float32x8",
                a, 0, b, 0, c, 0,
            )  # fmt: skip
            for i in T.unroll(8):
                row = i * 2 + lane // 16 if held == 16 else lane // 16 * 8 + i
                C[row, lane % 16] = c[i]

    return kernel


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float16)


@pytest.mark.emulate
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_mfma(arch: str) -> None:
    a, b, c = numbers(16, 32), numbers(16, 32)[::-1].copy(), np.zeros((16, 16), np.float32)
    emulated(by_mfma, arch)(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.emulate
@pytest.mark.parametrize(("arch", "held"), [("gfx1100", 16), ("gfx1201", 8)])
def test_wmma(arch: str, held: int) -> None:
    a, b, c = numbers(16, 16), numbers(16, 16)[::-1].copy(), np.zeros((16, 16), np.float32)
    emulated(by_wmma(held), arch)(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T + 1)


@pytest.mark.parametrize(("func", "arch"), [(by_mfma, "gfx1100"), (by_wmma(16), "gfx1201"), (by_wmma(8), "gfx942")])
def test_an_architecture_without_it(func: Any, arch: str) -> None:
    with pytest.raises(UnsupportedOnTargetError, match=f"{arch}.*has no (mfma|wmma)"):
        emulated(func, arch)


@pytest.mark.parametrize(
    ("shape", "layout", "c_dtype", "index", "message"),
    [
        ("f32_16x16x8f16", "row", "float32x4", 0, "no 'f32_16x16x8f16' takes 4 × float16"),
        ("f32_16x16x16f16", "row", "float32x8", 0, "into 8 × float32"),
        ("f32_16x16x16f16", "diagonal", "float32x4", 0, "layouts"),
        ("f32_16x16x16f16", "row", "float32x4", 1, "4 elements of b from 4 on"),
    ],
)
def test_what_is_refused(shape: str, layout: str, c_dtype: str, index: int, message: str) -> None:
    with pytest.raises(OpArgumentError, match=message):

        @T.prim_func
        def kernel(A: T.Tensor((1,), "float32")):
            with T.Kernel(1, threads=64):
                a = T.alloc_local((4,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,), "float32")
                T.mfma("f", shape, layout, "row", "float16x4", "float16x4", c_dtype, a, 0, b, index, c, 0)
