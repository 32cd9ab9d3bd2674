"""Block-scaled products of a warp: emulated against numpy for every kind, compiled for sm_120a, refused elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.ops import OpArgumentError
from tile_core.errors.passes import UnsupportedOnTargetError
from tile_cuda.instructions.mma_scaled import TABLE, ScaledMma
from tile_cuda.instructions.shapes import operand_a, operand_b

SM_120 = {"kind": "cuda", "arch": "sm_120"}
CHECKED = {"tile.emulate_check": True}
SELECTORS = {"scale_a_byte_id": 0, "scale_a_thread_id": 1, "scale_b_byte_id": 0, "scale_b_thread_id": 2}
BITS = {"float8_e4m3fn": 8, "float8_e5m2": 8, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}
SAMPLE = [TABLE[0], TABLE[1], TABLE[13], TABLE[24], *TABLE[25:]]


def program(one: ScaledMma, **selectors: int) -> Any:
    """C += A B of one warp, whose registers and words are given lane by lane."""
    chosen = {**SELECTORS, **selectors}

    @T.prim_func
    def kernel(
        A: T.Tensor((32, 4), "uint32"),
        B: T.Tensor((32, 2), "uint32"),
        FA: T.Tensor((32,), "uint32"),
        FB: T.Tensor((32,), "uint32"),
        C: T.Tensor((32, 4), "float32"),
    ):
        with T.Kernel(1, threads=32):
            a = T.alloc_local((4,), "uint32")
            b = T.alloc_local((2,), "uint32")
            c = T.alloc_local((4,), "float32")
            words = T.alloc_local((2,), "uint32")
            lane = T.get_lane_idx()
            words[0] = FA[lane]
            words[1] = FB[lane]
            for i in T.serial(4):
                a[i] = A[lane, i]
                c[i] = C[lane, i]
            for i in T.serial(2):
                b[i] = B[lane, i]
            T.ptx_mma_block_scale(
                "float32", f"m16n8k{one.kind.k}", "row", "col", one.kind.name, one.factors, one.a, one.b, one.scale,
                a, 0, b, 0, c, 0, words[0], words[1], **chosen,
            )  # fmt: skip
            for i in T.serial(4):
                C[lane, i] = c[i]

    return kernel


def registers(codes: np.ndarray, dtype: str, k: int, *, is_a: bool) -> np.ndarray:
    """The words of each lane."""
    packed = 8 if k == 64 else 4
    layout = operand_a(16, k, packed) if is_a else operand_b(k, 8, packed)
    words = np.zeros((32, layout.registers // packed), np.uint32)
    shift = 2 if k == 32 and BITS[dtype] == 4 else 0
    for lane in range(32):
        for register in range(layout.registers):
            row, column = layout.element(lane, register)
            code = int(codes[row, column] if is_a else codes[column, row]) << shift
            words[lane, register // packed] |= np.uint32(code << register % packed * (32 // packed))
    return words


def values(codes: np.ndarray, dtype: str) -> np.ndarray:
    return codes.astype(np.uint8).view(getattr(ml_dtypes, dtype)).astype("float64")


@pytest.mark.emulate
def test_results_of_all_kinds() -> None:
    rng = np.random.default_rng(0)
    for one in SAMPLE:
        k, low, high = one.kind.k, *((125, 130) if one.scale == "float8_e8m0fnu" else (0x30, 0x48))
        left, right = (rng.integers(0, 1 << BITS[side], (lines, k)) for side, lines in ((one.a, 16), (one.b, 8)))
        left[~np.isfinite(values(left, one.a))] = 0
        right[~np.isfinite(values(right, one.b))] = 0
        factors_a, factors_b = (rng.integers(low, high, (lines, 4)).astype(np.uint8) for lines in (16, 8))
        words = [rng.integers(0, 1 << 32, (32,)).astype(np.uint32) for _ in range(2)]
        for row in range(16):
            words[0][row % 8 * 4 + 2 + row // 8] = factors_a[row].view(np.uint32)[0]
        for column in range(8):
            words[1][column * 4 + 2] = factors_b[column].view(np.uint32)[0]
        runs = np.arange(k) // (k // one.factors)
        a = values(left, one.a) * values(factors_a, one.scale)[:, runs]
        b = values(right, one.b) * values(factors_b, one.scale)[:, runs]
        start = rng.integers(-3, 4, (16, 8)).astype("float32")
        c = np.zeros((32, 4), "float32")
        for lane in range(32):
            for at in range(4):
                c[lane, at] = start[lane // 4 + at // 2 * 8, lane % 4 * 2 + at % 2]
        arguments = (registers(left, one.a, k, is_a=True), registers(right, one.b, k, is_a=False), *words)
        tl.compile(program(one), target=SM_120, execution="emulate", pass_configs=CHECKED)(*arguments, c)
        expected = start + a @ b.T
        found = np.array([[c[r % 8 * 4 + n // 2, r // 8 * 2 + n % 2] for n in range(8)] for r in range(16)])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3 * abs(expected).max(), err_msg=one.name)


def test_they_compile(build: Any) -> None:
    for one in SAMPLE:
        assert f"kind::{one.kind.name}.block_scale.scale_vec::{one.factors}X" in build(program(one), ("sm_120",))


def test_other_architectures_are_refused() -> None:
    with pytest.raises(UnsupportedOnTargetError, match="has no mma_scaled"):
        tl.compile(program(TABLE[0]), target={"kind": "cuda", "arch": "sm_100"})


@pytest.mark.parametrize(
    ("names", "make"),
    [
        (r"bytes \[0\]", lambda: program(TABLE[-1], scale_a_byte_id=2)),
        ("threads 0 and 1 for A", lambda: program(TABLE[0], scale_a_thread_id=2)),
        ("no mma of 'm16n8k64'", lambda: program(replace(TABLE[-1], factors=1))),
    ],
)
def test_arguments_are_checked(names: str, make: Any) -> None:
    with pytest.raises(OpArgumentError, match=names):
        make()
