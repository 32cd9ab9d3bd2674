"""What Clang makes of products: matrix instructions, wide loads from shared memory, and everything in registers."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tile_core.language as T
from tile_core.device import split_launches
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.printer import source_of
from tile_core.printer.simt import print_kernel
from tile_core.targets import select_target
from tile_rocm.printer import HIP

pytestmark = pytest.mark.compile
SIZE = 1024


def gemm(dtype: str, total: str, depth: int, b_trans: bool) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((SIZE, SIZE), dtype), B: T.Tensor((SIZE, SIZE), dtype), C: T.Tensor((SIZE, SIZE), total)):
        with T.Kernel(SIZE // 128, SIZE // 128, threads=256) as (x, y):
            a = T.alloc_shared((128, depth), dtype)
            b = T.alloc_shared((128, depth) if b_trans else (depth, 128), dtype)
            c = T.alloc_fragment((128, 128), total)
            T.clear(c)
            for step in range(SIZE // depth):
                T.copy(A[y * 128, step * depth], a)
                if b_trans:
                    T.copy(B[x * 128, step * depth], b)
                else:
                    T.copy(B[step * depth, x * 128], b)
                T.gemm(a, b, c, transpose_B=b_trans)
            T.copy(c, C[y * 128, x * 128])

    return kernel


def printed(func: Any, arch: str) -> str:
    request = CompileRequest(select_target({"kind": "rocm", "arch": arch}))
    lowered, _report = lower(func, request, backend("rocm"))
    return source_of([print_kernel(kernel, HIP, request.target) for kernel in split_launches(lowered).kernels])


@pytest.mark.parametrize(
    ("arch", "dtype", "total", "depth", "b_trans", "instruction", "load"),
    [
        ("gfx90a", "float16", "float32", 32, True, "v_mfma_f32_32x32x8f16", "ds_read_b128"),
        ("gfx90a", "bfloat16", "float32", 32, False, "v_mfma_f32_16x16x16bf16_1k", "ds_read_b64"),
        ("gfx942", "float16", "float32", 32, True, "v_mfma_f32_32x32x8_f16", "ds_read_b128"),
        ("gfx942", "float16", "float32", 32, False, "v_mfma_f32_16x16x16_f16", "ds_read_b64"),
        ("gfx942", "int8", "int32", 64, True, "v_mfma_i32_32x32x16_i8", "ds_read_b128"),
        ("gfx942", "float32", "float32", 16, False, "v_mfma_f32_16x16x4_f32", "ds_read_b128"),
        ("gfx1100", "float16", "float32", 32, True, "v_wmma_f32_16x16x16_f16", "ds_load_b128"),
        ("gfx1100", "bfloat16", "float32", 32, False, "v_wmma_f32_16x16x16_bf16", "ds_load"),
        ("gfx1201", "float16", "float32", 32, True, "v_wmma_f32_16x16x16_f16", "ds_load_b128"),
        ("gfx1201", "int8", "int32", 64, True, "v_wmma_i32_16x16x16_iu8", "ds_load_b128"),
    ],
)
def test_an_ordinary_tile(
    arch: str, dtype: str, total: str, depth: int, b_trans: bool, instruction: str, load: str, assemble: Any
) -> None:
    text = assemble(printed(gemm(dtype, total, depth, b_trans), arch), arch)
    assert instruction in text
    assert load in text
    assert not re.search("scratch_(load|store)", text)
    assert set(re.findall(r"\.private_segment_fixed_size:\s+(\d+)", text)) == {"0"}
    assert set(re.findall(r"\.vgpr_spill_count:\s+(\d+)", text)) == {"0"}
