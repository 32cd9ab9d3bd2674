"""Host and blocks: what is handed over, and what each function holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tvm import ir
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.ir import visit
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_cpu import target
from tile_cpu.split_host import split_host

HERE = CompileRequest(target.parse_target("cpu", {}))


def split(func: Any) -> Any:
    lowered, _ = lower(func, HERE, backend("cpu"))
    return split_host(lowered)


def test_one_function_a_launch_and_no_work_on_the_host() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((640,), "float32")):
        with T.Kernel(10) as bx:
            for i in T.Parallel(64):
                A[bx * 64 + i] = 1.0
        with T.Kernel(5) as bx:
            for i in T.Parallel(128):
                A[bx * 128 + i] = 2.0

    parts = split(kernel)
    assert [str(func.attrs["global_symbol"]) for func in parts.blocks] == ["kernel_blocks_0", "kernel_blocks_1"]
    assert not visit.collect(parts.host.body, S.BufferStore)
    assert all(visit.collect(func.body, S.BufferStore) for func in parts.blocks)
    launched = [
        str(call.args[0].value)
        for call in visit.collect(parts.host.body, ir.Call)
        if call.op.name == "tirx.call_extern"
    ]
    assert launched == ["tile_launch_0", "tile_launch_1"]


def test_tiles_are_allocated_outside_of_the_loop_over_blocks() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((65536,), "float32")):
        with T.Kernel(4) as bx:
            tile = T.alloc_shared((16384,), "float32")
            T.copy(A[bx * 16384], tile)
            for i in T.Parallel(16384):
                tile[i] = tile[i] + 1.0
            T.copy(tile, A[bx * 16384])

    (blocks,) = split(kernel).blocks
    loops = [loop for loop in visit.collect(blocks.body, S.For) if loop.loop_var.name == "block"]
    assert len(visit.collect(blocks.body, S.AllocBuffer)) == 1
    assert not visit.collect(loops[0].body, S.AllocBuffer)


def test_scalars_of_every_dtype_reach_the_blocks() -> None:
    dtypes = ["int8", "uint8", "int16", "int32", "int64", "uint32", "float16", "bfloat16", "float32", "float64", "bool"]

    for dtype in dtypes:

        @T.prim_func
        def kernel(A: T.Tensor((64,), dtype), x: getattr(T, dtype)):
            with T.Kernel(2) as bx:
                for i in T.Parallel(32):
                    A[bx * 32 + i] = x

        value = {"bool": True}.get(dtype, 1.5 if "float" in dtype else 100)
        a = torch.zeros(64, dtype=getattr(torch, dtype))
        tl.compile(kernel, target="cpu")(a, value)
        assert a.tolist() == [value] * 64, dtype


def test_many_arguments() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(
        A: T.Tensor((n,), "int32"),
        B: T.Tensor((n,), "int32"),
        C: T.Tensor((n,), "int32"),
        D: T.Tensor((n,), "int32"),
        Out: T.Tensor((n, 2), "int32"),
        x: T.int32,
        y: T.float32,
    ):
        with T.Kernel(T.ceildiv(n, 32)) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < n:
                    Out[bx * 32 + i, 0] = A[bx * 32 + i] + B[bx * 32 + i] * C[bx * 32 + i] - D[bx * 32 + i]
                    Out[bx * 32 + i, 1] = x + T.cast(y, "int32")

    tensors = [np.arange(100, dtype=np.int32) * factor for factor in (1, 2, 3, 4)]
    out = np.zeros((100, 2), np.int32)
    tl.compile(kernel, target="cpu")(*tensors, out, 7, 2.5)
    a, b, c, d = tensors
    assert np.array_equal(out, np.stack([a + b * c - d, np.full(100, 9)], 1))
