"""Exchanges of a wave and a block, and messages: emulated against the interpreter, and compiled by Clang."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_rocm.language as T
from tile_core.device import split_launches
from tile_core.errors import DeviceAssertError, UnprintableError
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.printer import source_of
from tile_core.printer.simt import print_kernel
from tile_core.targets import select_target
from tile_rocm.printer import HIP

CLANG = next((path for name in ("clang-19", "clang++-19") if (path := shutil.which(name))), None)
OPTIONS = ("-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-std=c++17", "-O3", "-S")
N = 64
INTS = np.random.default_rng(1).integers(-4, 4, N).astype("int32")


@T.prim_func
def everything(A: T.Tensor((N,), "int32"), B: T.Tensor((N, 16), "int32"), C: T.Tensor((N,), "float16")):
    """Only what does not depend on the width of a wave."""
    with T.Kernel(1, threads=N):
        t = T.get_thread_binding()
        B[t, 0] = T.shfl_sync(A[t], 5, width=8)
        B[t, 1] = T.shfl_xor(A[t], 3)
        B[t, 2] = T.shfl_up(A[t], 2, width=16)
        B[t, 3] = T.shfl_down(A[t], 3, width=4)
        B[t, 4] = T.syncthreads_count(A[t] > 0)
        B[t, 5] = T.cast(T.syncthreads_or(A[t] == 3), "int32")
        B[t, 6] = T.cast(T.syncthreads_and(A[t] < 9), "int32")
        B[t, 7] = T.cast(T.any_sync(A[t] > -9), "int32") + T.cast(T.all_sync(A[t] > -9), "int32") * 2
        B[t, 8] = T.popcount(A[t])
        B[t, 9] = T.clz(A[t])
        C[t] = T.shfl_sync(T.cast(A[t], "float16"), 1, width=2)
        T.sync_warp()
        for column in range(10, 16):
            B[t, column] = 0


@T.prim_func
def by_wave(
    A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32"), C: T.Tensor((N,), "uint64"), F: T.Tensor((N,), "float32")
):
    with T.Kernel(1, threads=N):
        t = T.get_thread_binding()
        B[t] = T.warp_reduce_sum(A[t]) + T.warp_reduce_max(A[t]) + T.warp_reduce_bitor(A[t])
        C[t] = T.ballot(A[t] > 0) ^ T.activemask()
        F[t] = T.exp10(T.warp_reduce_min(F[t]))


@T.prim_func
def speaking(A: T.Tensor((N,), "int32"), F: T.Tensor((2,), "float16")):
    with T.Kernel(1, threads=N):
        t = T.get_thread_binding()
        T.print(F, "tile")
        if t == 3:
            T.print(A[t])
        T.device_assert(A[t] < 4, "too large")


@T.prim_func
def with_source(A: T.Tensor((N,), "float32")):
    with T.Kernel(1, threads=N):
        T.import_source("__device__ float twice(float x) { return x + x; }")
        t = T.get_thread_binding()
        A[t] = T.call_extern("float32", "twice", A[t])


@pytest.mark.emulate
def test_source_text() -> None:
    a = np.arange(N, dtype="float32")
    tl.compile(with_source, target="rocm", execution="emulate")(a)
    np.testing.assert_array_equal(a, 2 * np.arange(N))


@pytest.mark.emulate
def test_printing_and_assertions(capfd: pytest.CaptureFixture[str]) -> None:
    a, kernel = np.zeros(N, "int32"), tl.compile(speaking, target="rocm", execution="emulate")
    kernel(a, np.ones(2, "float16"))
    assert capfd.readouterr().out.splitlines() == ["tile: F[0] = 1", "tile: F[1] = 1", "A = 0"]
    a[9] = 4
    with pytest.raises(DeviceAssertError, match="too large, in thread"):
        kernel(a, np.ones(2, "float16"))


@pytest.mark.emulate
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_emulated_as_interpreted(arch: str) -> None:
    results = []
    for target in ("interpret", {"kind": "rocm", "arch": arch}):
        b, c = np.full((N, 16), -1, "int32"), np.zeros(N, "float16")
        options: Any = {} if target == "interpret" else {"execution": "emulate"}
        tl.compile(everything, target=target, **options)(INTS, b, c)
        results.append((b, c))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (results[1][0][:, 7] == 3).all()


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sums_of_integers_wrap(dtype: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding(0)
            B[t] = T.warp_reduce_sum(A[t])

    target, configs = {"kind": "rocm", "arch": "gfx942"}, {"tile.emulate_check": True}
    compiled = tl.compile(kernel, target=target, execution="emulate", pass_configs=configs)
    limits = np.iinfo(dtype)
    for edge in (limits.max, limits.min):
        values, found = edge ^ np.abs(INTS).astype(dtype), np.full(N, 7, dtype)
        compiled(values, found)
        assert (found == values.sum(dtype=dtype)).all()


@pytest.mark.emulate
@pytest.mark.parametrize(("arch", "wave"), [("gfx942", 64), ("gfx1100", 32)])
def test_a_wave_is_as_wide_as_the_target_says(arch: str, wave: int) -> None:
    b, c, f = np.zeros(N, "int32"), np.zeros(N, "uint64"), np.zeros(N, "float32")
    tl.compile(by_wave, target={"kind": "rocm", "arch": arch}, execution="emulate")(INTS, b, c, f)
    for start in range(0, N, wave):
        part = INTS[start : start + wave]
        assert (b[start : start + wave] == part.sum() + part.max() + np.bitwise_or.reduce(part)).all()
        votes = sum(1 << lane for lane, value in enumerate(part) if value > 0)
        assert (c[start : start + wave] == votes ^ ((1 << wave) - 1)).all()


@pytest.mark.compile
@pytest.mark.skipif(CLANG is None, reason="there is no clang-19: apt-get install clang-19")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100"])
@pytest.mark.parametrize("kernel", [everything, by_wave, speaking, with_source], ids=lambda k: k.attrs["global_symbol"])
def test_clang_compiles_it(arch: str, kernel: Any, tmp_path: Path) -> None:
    request = CompileRequest(select_target({"kind": "rocm", "arch": arch}))
    lowered, _report = lower(kernel, request, backend("rocm"))
    source = source_of([print_kernel(one, HIP, request.target) for one in split_launches(lowered).kernels])
    path = tmp_path / "kernel.hip"
    path.write_text(source, "utf-8")
    command = [str(CLANG), *OPTIONS, f"--offload-arch={arch}", str(path), "-o", str(tmp_path / "kernel.s")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{source}"


def test_a_mask_of_some_lanes_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            A[0] = T.shfl_sync(A[1], 0, mask=0xFF)

    with pytest.raises(UnprintableError, match="of some lanes only"):
        tl.compile(kernel, target="rocm", execution="emulate")
