"""nvcc in place of NVRTC: the same kernels, from a toolkit that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tile_core as tl
import tile_core.language as T
from tile_cuda import nvcc
from tile_cuda.errors import DeviceCompilerError, ToolchainArchitectureError
from tile_cuda.settings import settings

TARGET = {"kind": "cuda", "arch": "sm_90"}
SOURCE = "__global__ void twice(float* a) { a[threadIdx.x] *= 2; }\nvoid __global__ other(int*) {}\n"


def toolkit() -> bool:
    try:
        return bool(nvcc._nvcc())
    except DeviceCompilerError:
        return False


needs_nvcc = pytest.mark.skipif(not toolkit(), reason="there is no nvcc")


def kernel() -> Any:
    @T.prim_func
    def scaled(A: T.Tensor((1000,), "float16")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(256):
                A[bx * 256 + i] = A[bx * 256 + i] * 2

    return scaled


@needs_nvcc
@pytest.mark.compile
def test_a_kernel_is_compiled_and_is_another_entry_of_the_cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    with settings.override(compiler="nvcc"):
        ours = tl.compile(kernel(), target=TARGET)
    theirs = tl.compile(kernel(), target=TARGET)
    assert ours.key != theirs.key
    for made in (ours, theirs):
        compiled = [content for name, content in made.artifact.files.items() if not name.endswith(".cu")]
        assert len(compiled) > 1
        assert all(content.startswith(b"\x7fELF") for content in compiled)


@needs_nvcc
@pytest.mark.compile
def test_kernels_are_found_by_their_names_in_cpp() -> None:
    compiled = nvcc.compile_source(SOURCE, "sm_80", "k", kernels=["twice", "other"])
    assert dict(compiled.names) == {"twice": "_Z5twicePf", "other": "_Z5otherPi"}
    with pytest.raises(DeviceCompilerError, match="0 kernels called missing"):
        nvcc.compile_source(SOURCE, "sm_80", "k", kernels=["missing"])


@needs_nvcc
@pytest.mark.compile
def test_a_refusal_holds_the_first_complaint() -> None:
    with pytest.raises(DeviceCompilerError, match="nvcc refused the printed kernel: k.cu.*storage class"):
        nvcc.compile_source("nonsense;", "sm_80", "k")


def test_without_a_toolkit_it_says_where_was_looked(monkeypatch: Any) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(Path, "is_file", lambda _path: False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DeviceCompilerError, match="looked in CUDA_HOME"):
        nvcc.compile_source(SOURCE, "sm_80", "k")


def test_an_older_toolkit_says_which_one_would_do(tmp_path: Path, monkeypatch: Any) -> None:
    older = tmp_path / "bin" / "nvcc"
    older.parent.mkdir()
    older.write_text(
        "#!/bin/sh\necho \"nvcc fatal   : Unsupported gpu architecture 'compute_110a'\"\nexit 1\n", "utf-8"
    )
    older.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(ToolchainArchitectureError, match="does not compile for sm_110") as raised:
        nvcc.compile_source(SOURCE, "sm_110a", "k")
    assert "sm_110 needs CUDA 13" in raised.value.remedy
