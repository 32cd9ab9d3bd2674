"""Compiling for a GPU that is not there: source always, a cubin where NVRTC is, and a coded error when it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_core.language as T
from tile_core.errors import ArgumentDeviceError, NoDeviceError
from tile_cuda import nvrtc, runtime
from tile_cuda.errors import MissingDriverError, MissingNvrtcError


def scale(n: int) -> Any:
    @T.prim_func
    def kernel(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
            for i in T.Parallel(256):
                Y[bx * 256 + i] = X[bx * 256 + i] * 2

    return kernel


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


@pytest.mark.emulate
@pytest.mark.parametrize("n", [1, 255, 256, 1009])
def test_the_printed_kernel_runs_on_the_host(n: int) -> None:
    kernel = tl.compile(scale(n), target="cuda", execution="emulate")
    x, y = np.arange(n, dtype="float32"), np.full(n, np.nan, dtype="float32")
    kernel(x, y)
    assert (y == 2 * x).all()


def test_without_nvrtc_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingNvrtcError("none", remedy='python -m pip install "tile-cuda[nvrtc]"')

    monkeypatch.setattr(nvrtc, "_nvrtc", missing)
    with pytest.raises(MissingNvrtcError, match=r"tile-cuda\[nvrtc\]"):
        tl.compile(scale(64), target="cuda")


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_compiling_needs_no_gpu(arch: str) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    kernel = tl.compile(scale(1009), target={"kind": "cuda", "arch": arch})
    assert "__global__" in kernel.get_kernel_source()
    with pytest.raises((ArgumentDeviceError, NoDeviceError), match="expected a tensor on cuda|cannot run here"):
        kernel(np.zeros(1009, "float32"), np.zeros(1009, "float32"))


def test_without_a_driver_the_error_says_what_runs_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    runtime._driver.cache_clear()
    monkeypatch.setattr(runtime.ctypes, "CDLL", missing)
    with pytest.raises(MissingDriverError, match=r"libcuda\.so\.1") as raised:
        runtime._driver()
    assert 'execution="emulate"' in raised.value.remedy
