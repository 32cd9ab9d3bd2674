"""Four-bit tensors on CUDA: what moves them, what multiplies them on which architecture, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T
from tile_core.errors import DataTypeUnsupportedError, LayoutError, TileError
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.targets import select_target
from tile_core.testing.programs.gemm import matmul

CHECKED = {"tile.emulate_check": True}


def compiled(func: Any, arch: str, **configs: bool) -> Any:
    return tl.compile(func, target={"kind": "cuda", "arch": arch}, execution="emulate", pass_configs=configs or CHECKED)


def product(a: str, b: str, *, k: int = 64) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((64, k), a), B: T.Tensor((32, k), b), C: T.Tensor((64, 32), T.int32)):
        with T.Kernel(1, threads=128):
            left, right = T.alloc_shared((64, k), a), T.alloc_shared((32, k), b)
            sums = T.alloc_fragment((64, 32), T.int32)
            T.copy(A, left)
            T.copy(B, right)
            T.gemm(left, right, sums, transpose_B=True, clear_accum=True)
            T.copy(sums, C)

    return kernel


@pytest.mark.parametrize(
    ("arch", "signs", "k", "instruction"),
    [
        ("sm_75", ("int4", "int4"), 64, "mma m8n8k32_s32_s4_s4"),
        ("sm_80", ("int4", "uint4"), 64, "mma m16n8k64_s32_s4_u4"),
        ("sm_80", ("uint4", "uint4"), 96, "mma m16n8k32_s32_u4_u4"),
        ("sm_89", ("uint4", "int4"), 128, "mma m16n8k64_s32_u4_s4"),
        ("sm_90", ("uint4", "int4"), 128, "wgmma m64n32k32_s32_s8_s8"),
        ("sm_90", ("uint4", "uint4"), 128, "wgmma m64n32k32_s32_u8_u8"),
        ("sm_120", ("int4", "int4"), 64, "mma m16n8k32_s32_s8_s8"),
    ],
)
def test_the_bytes_of_a_tile_are_multiplied(arch, signs, k, instruction):
    request = CompileRequest(select_target({"kind": "cuda", "arch": arch}))
    _program, report = lower(product(*signs, k=k), request, backend("cuda"))
    assert instruction in report["products"][0]


def test_products_of_eight_rows(agree):
    a, b = (np.random.default_rng(7).integers(-128, 128, (rows, 32)).astype(np.int8) for rows in (64, 32))
    agree(product("int4", "uint4"), a, b, np.full((64, 32), 7, np.int32), arch="sm_75")


@pytest.mark.parametrize(("arch", "moved"), [("sm_80", "tile_cp_async"), ("sm_90", "tile_tma_load_2d")])
def test_a_pipeline_of_packed_tiles(agree, arch, moved):
    func = matmul(128, 48, 320, 64, 16, 64, dtype="int4", accum="int32", trans_b=True, stages=3)
    assert moved in compiled(func, arch).get_kernel_source()
    a, b = (np.random.default_rng(3).integers(-128, 128, (rows, 160)).astype(np.int8) for rows in (128, 48))
    agree(func, a, b, np.full((128, 48), 7, np.int32), arch=arch)


def test_half_of_a_byte_that_nothing_has_written(agree):
    @T.prim_func
    def kernel(A: T.Tensor((3, 8), T.int4), B: T.Tensor((3, 8), T.int4)):
        with T.Kernel(1, threads=32):
            tile, held = T.alloc_shared((3, 8), T.int4), T.alloc_fragment((3, 8), T.int4)
            for i, j in T.Parallel(3, 8):
                tile[i, 7 - j] = A[i, j]
            T.copy(tile, held)
            T.copy(held, B)

    agree(kernel, np.random.default_rng(5).integers(-128, 128, (3, 4)).astype(np.int8), np.full((3, 4), 7, np.int8))


def test_copies_move_sixteen_bytes_and_pairs_become_floats_at_once():
    @T.prim_func
    def kernel(A: T.Tensor((64, 256), T.int4), B: T.Tensor((64, 256), T.int4), C: T.Tensor((64, 256), T.float16)):
        with T.Kernel(1, threads=128):
            tile, held = T.alloc_shared((64, 256), T.int4), T.alloc_fragment((64, 256), T.int4)
            T.copy(A, tile)
            T.copy(tile, held)
            T.copy(held, B)
            for i, j in T.Parallel(64, 256):
                C[i, j] = T.cast(tile[i, j], "float16")

    source = compiled(kernel, "sm_90", **{"tile.emulate_check": False}).get_kernel_source().split("__global__")[1]
    assert len(re.findall(r"\*reinterpret_cast<uint4\*>\(&(?:A_in|tile|tile_in|B)\[", source)) >= 3
    assert "tile_nibbles_half2((int)tile_in[lane / 2] ^ 136, 8)" in source


def test_a_store_of_half_a_byte_is_atomic():
    @T.prim_func
    def kernel(A: T.Tensor((64,), T.int4)):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(3):
                A[bx * 3 + i] = 1

    assert "tile_atomic_half(" in compiled(kernel, "sm_80").get_kernel_source()


def odd_rows() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((3, 5), T.int4), B: T.Tensor((3, 5), T.int32)):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    return kernel


def strided_values() -> Any:
    @T.prim_func
    def kernel(A: T.StridedTensor((4, 6), (12, 2), T.int4), B: T.Tensor((4, 6), T.int32)):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    return kernel


def odd_strides() -> Any:
    @T.prim_func
    def kernel(A: T.StridedTensor((4, 6), (7, 1), T.int4), B: T.Tensor((4, 6), T.int32)):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    return kernel


def authored_layout() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((8, 16), T.int4)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 16), T.int4)
            T.annotate_layout({tile: T.Layout((8, 16), lambda i, j: (j, i))})
            T.copy(A, tile)
            T.copy(tile, A)

    return kernel


def viewed_fragment() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((64,), T.int4)):
        with T.Kernel(1, threads=32):
            held = T.alloc_fragment((64,), T.int4)
            T.copy(A, held)
            other = T.view(held, (32,), "uint8")
            other[0] = 1

    return kernel


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        (odd_rows, DataTypeUnsupportedError, ("axis 1 of A is 5 values of int4", "6 long")),
        (strided_values, DataTypeUnsupportedError, ("axis 1 of A has the stride 2",)),
        (odd_strides, DataTypeUnsupportedError, ("A has the strides", "middle of a byte")),
        (authored_layout, LayoutError, ("tile is of int4",)),
        (viewed_fragment, DataTypeUnsupportedError, ("held", "int4")),
    ],
)
def test_refusals(program, kind, words):
    with pytest.raises(kind) as caught:
        compiled(program(), "sm_80")
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_view_of_a_packed_tile_is_its_bytes():
    @T.prim_func
    def kernel(A: T.Tensor((4, 32), T.int4), B: T.Tensor((4, 16), T.uint8)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 32), T.int4)
            T.copy(A, tile)
            raw = T.view(tile, (4, 16), "uint8")
            T.copy(raw, B)

    a, b = np.arange(64, dtype=np.int8).reshape(4, 16) * 3, np.zeros((4, 16), np.uint8)
    compiled(kernel, "sm_80")(a, b)
    assert (b == a.view(np.uint8)).all()


def test_a_caller_passes_bytes_of_the_right_number():
    kernel = compiled(product("int4", "int4"), "sm_80")
    short = np.zeros((64, 31), np.int8)
    with pytest.raises(TileError, match="A"):
        kernel(short, np.zeros((32, 32), np.int8), np.zeros((64, 32), np.int32))
