"""Compiling without ROCm: what is missing is said before anything runs, and emulated kernels need none of it."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.targets import select_target
from tile_rocm import libraries
from tile_rocm.errors import MissingRocmError
from tile_rocm.runtime import load


@T.prim_func
def double(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
    with T.Kernel(2, threads=64) as block:
        for i in T.Parallel(128):
            B[block * 128 + i] = A[block * 128 + i] + A[block * 128 + i]


@pytest.fixture
def no_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "candidates", lambda name: iter(()))
    libraries.library.cache_clear()


@pytest.mark.usefixtures("no_rocm")
def test_compiling_without_hiprtc_names_it_and_the_emulator() -> None:
    with pytest.raises(MissingRocmError, match=r"TILE-ROCM-E01.*libhiprtc\.so") as raised:
        tl.compile(double, target="rocm")
    assert raised.value.kind == "environment"
    assert "emulate" in raised.value.remedy


@pytest.mark.usefixtures("no_rocm")
def test_loading_without_the_runtime_names_it() -> None:
    with pytest.raises(MissingRocmError, match=r"libamdhip64\.so"):
        load(Artifact({}), CompileRequest(select_target("rocm")))


@pytest.mark.emulate
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_a_kernel_runs_emulated_for_every_architecture(arch: str) -> None:
    kernel = tl.compile(double, target={"kind": "rocm", "arch": arch}, execution="emulate")
    a, b = torch.randn(256), torch.full((256,), float("nan"))
    kernel(a, b)
    assert torch.equal(b, a + a)
    assert "tile_uint4" in kernel.get_kernel_source()
