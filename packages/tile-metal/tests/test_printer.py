"""The Metal printer: what it declares, its functions, what it refuses, and how little it repeats of other backends."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import TileError, UnprintableError
from tile_core.testing.scripts import load_script
from tile_metal.printer import MOST_BUFFERS

N = 256


def emulated(func: Any) -> Any:
    return tl.compile(func, target="metal", execution="emulate", pass_configs={"tile.emulate_check": True})


@T.prim_func
def functions(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((12, N), "float32")):
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(N):
            C[0, i] = T.erf(A[i])
            C[1, i] = T.log1p(A[i])
            C[2, i] = T.hypot(A[i], B[i])
            C[3, i] = T.sigmoid(A[i])
            C[4, i] = T.exp(A[i]) - T.tanh(B[i])
            C[5, i] = T.rsqrt(A[i])
            C[6, i] = T.pow(A[i], B[i])
            C[7, i] = T.nextafter(A[i], B[i])
            C[8, i] = T.round(A[i])
            C[9, i] = T.fmod(A[i], B[i])
            C[10, i] = T.max(A[i], B[i])
            C[11, i] = T.exp10(B[i])


@pytest.mark.emulate
def test_functions_that_metal_has_and_lacks() -> None:
    generator = torch.Generator().manual_seed(3)
    a = torch.randn(N, generator=generator) * torch.logspace(-6, 2, N)
    b = torch.randn(N, generator=generator) * 3
    edges = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-30, 3e38, 4.0, -4.0, 2.5])
    a[: len(edges)], b[20 : 20 + len(edges)] = edges, edges
    found = torch.full((12, N), -777.0)
    emulated(functions)(a, b, found)
    x, y = a.double(), b.double()
    expected = [
        torch.erf(x),
        torch.log1p(x),
        torch.hypot(x, y),
        torch.sigmoid(x),
        torch.exp(x) - torch.tanh(y),
        torch.rsqrt(x),
        torch.pow(x, y),
        torch.nextafter(a, b).double(),
        torch.copysign(torch.floor(x.abs() + 0.5), x),
        torch.fmod(x, y),
        torch.maximum(x, y),
        torch.pow(10.0, y),
    ]
    torch.testing.assert_close(found, torch.stack(expected).float(), rtol=2e-6, atol=2e-7, equal_nan=True)
    # Near zero only what is relative tells right from wrong.
    small = a.abs() < 0.1
    wanted = torch.stack(expected[:3])[:, small].float()
    torch.testing.assert_close(found[:3, small], wanted, rtol=1e-6, atol=0, equal_nan=True)


M = T.dynamic("m")


@T.prim_func
def of_sizes(
    A: T.Tensor((M, 64), "float16"),
    count: T.int32,
    scale: T.float32,
    shift: T.float16,
    large: T.int64,
    B: T.Tensor((M, 64), "float32"),
    C: T.Tensor((1,), "int64"),
):
    with T.Kernel(T.ceildiv(A.shape[0], 4), threads=64) as bx:
        for i, j in T.Parallel(4, 64):
            if bx * 4 + i < count:
                B[bx * 4 + i, j] = T.cast(A[bx * 4 + i, j], "float32") * scale + T.cast(shift, "float32")
        C[0] = large


@pytest.mark.emulate
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_scalars_and_sizes_are_in_constant_memory(rows: int) -> None:
    kernel = emulated(of_sizes)
    a, b, c = torch.randn(rows, 64).half(), torch.full((rows, 64), -1.0), torch.zeros(1, dtype=torch.int64)
    kernel(a, rows - 1, 2.5, -1.5, -(2**40), b, c)
    assert torch.equal(b[: rows - 1], a[: rows - 1].float() * 2.5 - 1.5)
    assert (b[rows - 1 :] == -1).all()
    assert c.item() == -(2**40)
    source = kernel.get_kernel_source()
    assert "constant float& scale" in source
    assert source.count("constant long& tile_argument_") == 4
    assert source.isascii()


@T.prim_func
def named(device: T.Tensor((64,), "float16"), kernel: T.Tensor((64,), "float16"), thread: T.int32):
    with T.Kernel(1, threads=64) as threadgroup:
        uint4 = T.alloc_shared((64,), "float16")
        half = T.alloc_fragment((64,), "float16")
        T.copy(device, uint4)
        T.copy(uint4, half)
        for ushort2 in T.Parallel(64):
            kernel[ushort2] = half[ushort2] + T.cast(thread + threadgroup, "float16")


@pytest.mark.emulate
def test_words_of_metal_are_names_of_authors_too() -> None:
    a, b = torch.randn(64).half(), torch.full((64,), torch.nan).half()
    emulated(named)(a, b, 3)
    assert torch.equal(b, a + 3)


@T.prim_func
def crossing(A: T.Tensor((64,), "float16"), B: T.Tensor((64,), "bfloat16"), C: T.Tensor((64,), "float16")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = T.cast(A[i], "bfloat16")
            C[i] = T.cast(B[i], "float16")


@pytest.mark.emulate
def test_half_and_bfloat_become_each_other_through_float() -> None:
    a, b, c = torch.randn(64).half() * 300, torch.zeros(64, dtype=torch.bfloat16), torch.zeros(64).half()
    kernel = emulated(crossing)
    kernel(a, b, c)
    assert torch.equal(b, a.to(torch.bfloat16))
    assert torch.equal(c, b.half())
    assert "(bfloat)(float)" in kernel.get_kernel_source()


@pytest.mark.compile
@pytest.mark.parametrize(
    "kernel", [functions, of_sizes, named, crossing], ids=["functions", "sizes", "named", "crossing"]
)
def test_clang_reads_it(kernel: Any, read: Callable[[str], None]) -> None:
    read(tl.compile(kernel, target="metal").get_kernel_source())


@pytest.mark.parametrize("scalars", [MOST_BUFFERS - 1, MOST_BUFFERS])
def test_a_kernel_has_at_most_31_arguments(scalars: int, tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(scalars)]
    path = tmp_path / "many.py"
    path.write_text(
        "import tile_core.language as T\n"
        "@T.prim_func\n"
        f"def kernel(A: T.Tensor((1,), 'int32'), {', '.join(f'{name}: T.int32' for name in names)}):\n"
        "    with T.Kernel(1, threads=32):\n"
        f"        A[0] = {' + '.join(names)}\n",
        encoding="utf-8",
    )
    kernel = load_script(path).kernel
    if scalars < MOST_BUFFERS:
        assert f"[[buffer({scalars})]]" in tl.compile(kernel, target="metal").get_kernel_source()
        return
    with pytest.raises(UnprintableError, match="more than 31 parameters"):
        tl.compile(kernel, target="metal")


@T.prim_func
def speaking(A: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        T.print(A[0])


@T.prim_func
def asserting(A: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        T.device_assert(A[0] < 4, "too large")


@T.prim_func
def doubles(A: T.Tensor((64,), "float64")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            A[i] = 1.0


@T.prim_func
def narrow(A: T.Tensor((64,), "float8_e4m3fn"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = T.cast(A[i], "float32")


@pytest.mark.parametrize("execution", ["native", "emulate"])
@pytest.mark.parametrize(
    ("kernel", "why"),
    [(speaking, "T.print"), (asserting, "T.device_assert"), (doubles, "float64"), (narrow, "float8_e4m3fn")],
    ids=["print", "assert", "float64", "float8"],
)
def test_what_metal_cannot_say_is_refused(kernel: Any, why: str, execution: Any) -> None:
    with pytest.raises(TileError, match=why) as raised:
        tl.compile(kernel, target="metal", execution=execution)
    assert raised.value.remedy


def test_half_and_bfloat_are_metals_own() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float16"), B: T.Tensor((64,), "bfloat16")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = T.cast(A[i] + T.float16(1.5), "bfloat16")

    source = tl.compile(kernel, target="metal").get_kernel_source()
    assert "device const half* A" in source
    assert "device bfloat* B" in source
    assert "half(1.5f)" in source
